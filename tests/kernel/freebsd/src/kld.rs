//! Kernel loadable files and their modules: kldload(8) and kldunload(8), with the order of steps and the messages of
//! `sys/kern/kern_linker.c` and `sys/kern/kern_module.c`.
//!
//! If FreeBSD would panic or continue with a half-loaded file, this linker refuses the file and releases everything that the file
//! used.

mod file;
mod kernel;
mod refusal;
#[cfg(test)]
mod tests;

use crate::release;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};

use dtrace_abi::site::MAX_LEN;
use spin::Mutex;

pub use crate::file_info::FileInfo;
use crate::linker::{Metadata, ModuleData, Range, SysInit};
use crate::loader::{self, Linked, LoadError, SiteRecord};
use crate::sdt::Records;
use crate::{Release, errno};
pub use file::FileSymbol;
use file::{File, Module};
pub use kernel::Kernel;
pub use refusal::Refusal;
use stand_in_base::image::{Protection, Segment};
use stand_in_base::printf;

/// The events that a module's handler receives (`modeventtype_t`, `sys/module.h`).
pub mod event {
    /// `MOD_LOAD`: the module has been loaded.
    pub const LOAD: i32 = 0;
    /// `MOD_UNLOAD`: the module is about to be unloaded.
    pub const UNLOAD: i32 = 1;
    /// `MOD_QUIESCE`: asks the module whether it can be unloaded.
    pub const QUIESCE: i32 = 3;
}

/// The kernel linker, with all loaded files and modules.
#[derive(Debug)]
pub struct Linker<K> {
    kernel: K,
    /// Held during a load or an unload, also while code of the module runs (`kld_sx`).
    busy: Mutex<()>,
    files: Mutex<Vec<File>>,
    // Boxed: a module's address is its module_t.
    #[expect(clippy::vec_box, reason = "modules keep their addresses")]
    modules: Mutex<Vec<Box<Module>>>,
    last_id: Mutex<u32>,
    /// `__FreeBSD_version`. It is atomic because breakpoint handlers read it while any lock may be held.
    version: AtomicU32,
}

/// A file that is ready to be mapped.
struct Ready {
    image: Linked,
    metadata: Metadata,
    dependencies: Vec<u32>,
    records: Records,
}

impl<K: Kernel> Linker<K> {
    /// Creates a linker that has loaded no file except the kernel.
    pub const fn new(kernel: K) -> Self {
        Self {
            kernel,
            busy: Mutex::new(()),
            files: Mutex::new(Vec::new()),
            modules: Mutex::new(Vec::new()),
            last_id: Mutex::new(1),
            version: AtomicU32::new(release::DEFAULT.version()),
        }
    }

    /// Returns the FreeBSD release that this linker behaves like. Any context.
    pub fn release(&self) -> Release {
        let version = self.version.load(Ordering::Acquire);
        Release::new(version).expect("only versions of releases are stored")
    }

    /// Selects the FreeBSD release that this linker behaves like.
    ///
    /// # Errors
    /// If files are loaded.
    pub fn set_release(&self, release: Release) -> Result<(), Refusal> {
        let _busy = self.busy.lock();
        if !self.files.lock().is_empty() {
            return Err(Refusal::ReleaseInUse);
        }
        self.version.store(release.version(), Ordering::Release);
        Ok(())
    }

    /// Returns the kernel that this linker loads files into.
    pub const fn kernel(&self) -> &K {
        &self.kernel
    }

    /// Loads a file: `linker_load_file`. Returns the number of the file.
    ///
    /// # Errors
    /// If the linker refuses the file. It also prints the reason on the console, and its state is unchanged.
    pub fn load(&self, name: &str, bytes: &[u8]) -> Result<u32, Refusal> {
        let _busy = self.busy.lock();
        if self.files.lock().iter().any(|file| file.name == name) {
            return Err(Refusal::AlreadyLoaded);
        }
        let result = self.load_new(name, bytes);
        if let Err(refusal) = &result {
            self.print(format_args!("{}", refusal.console_line(name, self.kernel.machine())));
        }
        result
    }

    fn load_new(&self, name: &str, bytes: &[u8]) -> Result<u32, Refusal> {
        let mut parsed = loader::File::parse(bytes, self.kernel.machine())?;
        if !self.release().takes_plt32() {
            parsed = parsed.without_plt32();
        }
        let base = self.kernel.memory().reserve(parsed.size()).ok_or(Refusal::OutOfMemory)?;
        let linked = self.link(&parsed, base).and_then(|linked| {
            let writable_code = release::has_writable_text(self.release(), self.kernel.machine());
            if self.kernel.memory().map(&linked.image, writable_code) {
                Ok(linked)
            } else {
                Err(Refusal::OutOfMemory)
            }
        });
        let Ready { image, metadata, dependencies, records } =
            linked.inspect_err(|_| self.kernel.memory().give_back(base))?;
        self.start(File::new(self.next_id(), name, &image, metadata, dependencies), records)
    }

    /// Links a file at `base` and does all checks that are possible before code of the file runs.
    fn link(&self, file: &loader::File<'_>, base: u64) -> Result<Ready, Refusal> {
        // The records of the dependencies contain relocated pointers to their names, so the relocations are applied first. At
        // that point the dependencies are unknown: symbols are looked up in all files. FreeBSD does so as well, after the
        // dependencies ("globally, in dependency order").
        let image = file
            .link(base, &|symbol| self.lookup(symbol))
            .map_err(|error| self.not_linked(file, base, error))?;
        for function in image.constructors().chain(image.destructors()) {
            if !image.starts_function(function) {
                return Err(Refusal::Constructor { function });
            }
        }
        let mut metadata = Metadata::read_modules(&image)?;
        for version in &metadata.versions {
            if let Some(file) = self.provider(&version.name, |found| found == version.version) {
                let container = self.file_name(file);
                return Err(Refusal::InterfacePresent {
                    interface: version.name.clone(),
                    version: version.version,
                    container,
                });
            }
        }
        let dependencies = self.dependencies(&metadata)?;
        let is_function = |function| self.kernel.is_function(function);
        metadata.read_inits(&image, self.release(), &is_function)?;
        self.check_modules(&metadata)?;
        let records = Records::read(&image, self.release(), self.kernel.machine())?;
        self.kernel.kld_check(&records)?;
        Ok(Ready { image, metadata, dependencies, records })
    }

    /// Checks that no module of the file is loaded already, and that no module is started twice or by a SYSUNINIT.
    fn check_modules(&self, metadata: &Metadata) -> Result<(), Refusal> {
        let modules = self.modules.lock();
        for (index, module) in metadata.modules.iter().enumerate() {
            if let Some(present) = modules.iter().find(|other| other.data.name == module.name) {
                return Err(Refusal::ModulePresent {
                    module: module.name.clone(),
                    container: self.file_name(Some(present.file)),
                });
            }
            if metadata.modules[..index].iter().any(|other| other.name == module.name) {
                return Err(Refusal::ModuleTwice { module: module.name.clone() });
            }
        }
        // If `module_register_init` is called with an unknown module, FreeBSD panics ("module %s not found"). A SYSUNINIT that
        // calls it always panics, because all modules of the file have been removed by then.
        let register_init = self.kernel.symbol("module_register_init");
        let started = |inits: &[SysInit]| -> Vec<u64> {
            let inits = inits.iter().filter(|init| Some(init.function) == register_init);
            inits.map(|init| init.data).collect()
        };
        let at_load = started(&metadata.sysinits);
        for (index, &record) in at_load.iter().enumerate() {
            if !metadata.modules.iter().any(|module| module.record == record) {
                return Err(Refusal::UnknownModule { record });
            }
            if at_load[..index].contains(&record) {
                return Err(Refusal::StartedTwice { record });
            }
        }
        match started(&metadata.sysuninits).first() {
            Some(&record) => Err(Refusal::StartedAtUnload { record }),
            None => Ok(()),
        }
    }

    /// Returns the numbers of the files that a file depends on, without the kernel.
    fn dependencies(&self, metadata: &Metadata) -> Result<Vec<u32>, Refusal> {
        let mut dependencies = Vec::new();
        for depend in &metadata.depends {
            if metadata.versions.iter().any(|version| version.name == depend.name) {
                continue;
            }
            match self.best(&depend.name, depend.range) {
                Some(Some(file)) if !dependencies.contains(&file) => dependencies.push(file),
                Some(_) => {}
                None => return Err(Refusal::Dependency { interface: depend.name.clone() }),
            }
        }
        Ok(dependencies)
    }

    /// Returns why a file could not be linked. FreeBSD resolves dependencies before symbols, so a missing dependency is reported
    /// rather than a symbol that it would have defined.
    fn not_linked(&self, file: &loader::File<'_>, base: u64, error: LoadError) -> Refusal {
        if matches!(error, LoadError::Undefined { .. })
            && let Ok(image) = file.link(base, &|_| Some(base))
            && let Ok(metadata) = Metadata::read_modules(&image)
            && let Err(refusal) = self.dependencies(&metadata)
        {
            return refusal;
        }
        error.into()
    }

    /// Runs the constructors and SYSINITs of a mapped file; removes the file if the MOD_LOAD event of all its modules failed.
    fn start(&self, file: File, records: Records) -> Result<u32, Refusal> {
        let info = file.info();
        let id = file.id;
        let constructors = file.constructors.clone();
        let sysinits = file.metadata.sysinits.clone();
        let modules = file.metadata.modules.clone();
        {
            let mut files = self.files.lock();
            for other in files.iter_mut().filter(|other| file.dependencies.contains(&other.id)) {
                other.references += 1;
            }
            files.push(file);
        }
        for constructor in constructors {
            self.kernel.call(self, constructor, 0);
        }
        let had_modules = !modules.is_empty();
        for data in modules {
            self.modules.lock().push(Box::new(Module { file: id, data }));
        }
        for init in sysinits {
            self.kernel.call(self, init.function, init.data);
        }
        // "If all of the modules in this file failed to load, unload the file."
        if had_modules && !self.modules.lock().iter().any(|module| module.file == id) {
            let error = self.with_file(id, |file| file.load_error).unwrap_or(0);
            // FreeBSD invokes `kld_unload_try` here too, as for a completely loaded file: its sdt then drops references to
            // providers that it never acquired for this file. This linker does not.
            self.remove(&info);
            return Err(Refusal::ModulesRefused { error });
        }
        self.kernel.kld_load(&info, records, self.release());
        Ok(id)
    }

    /// `module_register_init`, which the SYSINIT of `DECLARE_MODULE` names: sends MOD_LOAD to the module
    /// whose `moduledata_t` is at `record`.
    ///
    /// # Panics
    /// If there is no such module, as on FreeBSD.
    pub fn module_register_init(&self, record: u64) {
        let found = self
            .modules
            .lock()
            .iter()
            .find(|m| m.data.record == record)
            .map(|module| (module.file, module.handle(), module.data.clone()));
        let Some((file, handle, data)) = found else {
            panic!("module at {record:#x} not found");
        };
        let error = self.send(&data, handle, event::LOAD);
        if error == 0 {
            // Move the module to the head of the list, so that modules are unloaded in reverse order.
            let mut modules = self.modules.lock();
            if let Some(at) = modules.iter().position(|module| module.data.record == record) {
                modules[..=at].rotate_right(1);
            }
            return;
        }
        self.send(&data, handle, event::UNLOAD);
        self.modules.lock().retain(|module| module.data.record != record);
        self.with_file(file, |file| file.load_error = error);
        self.print(format_args!(
            "module_register_init: MOD_LOAD ({}, {}, {}) error {error}",
            data.name,
            printf::pointer(data.handler),
            printf::pointer(data.private)
        ));
    }

    /// Sends an event to a module; returns its error number. A module without a handler behaves like `modevent_nop`: MOD_LOAD and
    /// MOD_UNLOAD succeed, other events are not supported.
    fn send(&self, data: &ModuleData, handle: u64, event: i32) -> i32 {
        match data.handler {
            0 if event == event::LOAD || event == event::UNLOAD => 0,
            0 => errno::EOPNOTSUPP,
            handler => self.kernel.call_event(handler, handle, event, data.private),
        }
    }

    /// Unloads a file: `kern_kldunload` and `linker_file_unload`.
    ///
    /// # Errors
    /// If the file is not loaded, kldload's reference to it was dropped before, one of its modules refuses, or one of its probes
    /// is enabled. The file stays loaded in these cases.
    pub fn unload(&self, name: &str) -> Result<(), Refusal> {
        let _busy = self.busy.lock();
        let id = self
            .files
            .lock()
            .iter_mut()
            .find(|file| file.name == name)
            .map(|file| file.id)
            .ok_or_else(|| Refusal::NoSuchFile { file: name.to_string() })?;
        if !self.with_file(id, |file| core::mem::take(&mut file.by_user)).unwrap_or(false) {
            self.print(format_args!(
                "kldunload: attempt to unload file that was loaded by the kernel"
            ));
            return Err(Refusal::Unload { error: errno::EBUSY });
        }
        let result = self.drop_reference(id);
        if result.is_err() {
            self.with_file(id, |file| file.by_user = true);
        }
        result
    }

    /// Drops one reference to a file; unloads the file with the last reference.
    fn drop_reference(&self, id: u32) -> Result<(), Refusal> {
        let kept = self.with_file(id, |file| {
            if file.references > 1 {
                file.references -= 1;
                return None;
            }
            Some(file.info())
        });
        let Some(Some(info)) = kept else { return Ok(()) };
        if !self.kernel.kld_unload_try(&info) {
            return Err(Refusal::Unload { error: errno::EBUSY });
        }
        let modules: Vec<_> = self
            .modules
            .lock()
            .iter()
            .filter(|module| module.file == id)
            .map(|module| (module.handle(), module.data.clone()))
            .collect();
        for (handle, data) in &modules {
            let error = self.send(data, *handle, event::QUIESCE);
            if error != 0 && error != errno::EOPNOTSUPP && error != errno::EINVAL {
                return Err(Refusal::Unload { error });
            }
        }
        for (handle, data) in &modules {
            let error = self.send(data, *handle, event::UNLOAD);
            if error != 0 {
                return Err(Refusal::Unload { error });
            }
            self.modules.lock().retain(|module| module.data.record != data.record);
        }
        self.remove(&info);
        Ok(())
    }

    /// Removes a file: runs its SYSUNINITs and destructors, drops its references to other files, and frees its memory.
    fn remove(&self, info: &FileInfo) {
        let id = info.id;
        let (sysuninits, destructors) = self
            .with_file(id, |file| (file.metadata.sysuninits.clone(), file.destructors.clone()))
            .unwrap_or_default();
        for uninit in sysuninits {
            self.kernel.call(self, uninit.function, uninit.data);
        }
        for destructor in destructors {
            self.kernel.call(self, destructor, 0);
        }
        let dependencies = {
            let mut files = self.files.lock();
            let at = files.iter().position(|file| file.id == id);
            at.map(|at| files.remove(at).dependencies).unwrap_or_default()
        };
        for dependency in dependencies {
            if let Err(refusal) = self.drop_reference(dependency) {
                self.print(format_args!("{refusal}"));
            }
        }
        self.kernel.kld_unload(info);
        self.kernel.memory().unmap(info.base, info.size);
        self.kernel.memory().give_back(info.base);
    }

    /// Returns the loaded files, oldest first.
    pub fn files(&self) -> Vec<FileInfo> {
        self.files.lock().iter().map(File::info).collect()
    }

    /// Returns the address and the segments of a loaded file.
    pub fn segments(&self, name: &str) -> Option<(u64, Vec<Segment>)> {
        let files = self.files.lock();
        files.iter().find(|file| file.name == name).map(|file| (file.base, file.segments.clone()))
    }

    /// Returns the firing sites of all files, each with its function and the offset in the function.
    ///
    /// Skips unsound sites. In a sound one, the site and its cold block are in code of the file, and the probe's record
    /// (`record_size` bytes) is in its data.
    pub fn sites(&self, record_size: usize) -> Vec<(SiteRecord, Option<(String, u64)>)> {
        let mut sites = Vec::new();
        for file in self.files.lock().iter() {
            let sound = file.sites.iter().filter(|site| {
                file.holds(site.probe, record_size, Protection::Write)
                    && file.holds(site.patchpoint, MAX_LEN, Protection::Execute)
                    && file.holds(site.target, 1, Protection::Execute)
            });
            sites.extend(sound.map(|site| (*site, file.function_at(site.patchpoint))));
        }
        sites
    }

    /// Returns the function of a file at an address, and the offset of the address in the function.
    pub fn function_at(&self, address: u64) -> Option<(String, u64)> {
        self.files.lock().iter().find_map(|file| file.function_at(address))
    }

    /// Returns the symbol at an address in a file.
    pub fn symbol_at(&self, address: u64) -> Option<FileSymbol> {
        self.files.lock().iter().find_map(|file| file.symbol_at(address))
    }

    /// Looks up a symbol in the kernel and then in the files, oldest first.
    fn lookup(&self, symbol: &str) -> Option<u64> {
        let of_files = || {
            self.files.lock().iter().find_map(|file| {
                file.symbols.iter().find(|s| s.name == symbol).map(|symbol| symbol.address)
            })
        };
        self.kernel.symbol(symbol).or_else(of_files)
    }

    /// Lists the versions of an interface, each with the file that provides it; `None` is the kernel.
    fn candidates(&self, name: &str) -> Vec<(i32, Option<u32>)> {
        // Interfaces that are part of the kernel.
        let mut all = match name {
            "kernel" => alloc::vec![(self.release().version().cast_signed(), None)],
            "dtrace" => alloc::vec![(1, None)],
            _ => Vec::new(),
        };
        for file in self.files.lock().iter() {
            let versions = file.metadata.versions.iter().filter(|version| version.name == name);
            all.extend(versions.map(|version| (version.version, Some(file.id))));
        }
        all
    }

    fn provider(&self, name: &str, fits: impl Fn(i32) -> bool) -> Option<Option<u32>> {
        self.candidates(name).into_iter().find(|&(version, _)| fits(version)).map(|(_, file)| file)
    }

    /// Finds the file with the best version of an interface: the preferred version, or else the highest version in `range`
    /// (`modlist_lookup2`).
    fn best(&self, name: &str, range: Range) -> Option<Option<u32>> {
        let fits = |version: i32| (range.minimum..=range.maximum).contains(&version);
        self.provider(name, |version| version == range.preferred).or_else(|| {
            let candidates = self.candidates(name).into_iter();
            let best = candidates.filter(|&(version, _)| fits(version));
            best.max_by_key(|&(version, _)| version).map(|(_, file)| file)
        })
    }

    fn print(&self, line: fmt::Arguments<'_>) {
        self.kernel.memory().print(line);
    }

    fn file_name(&self, id: Option<u32>) -> String {
        let Some(id) = id else { return "kernel".to_string() };
        self.with_file(id, |file| file.name.clone()).unwrap_or_else(|| format!("file {id}"))
    }

    fn with_file<R>(&self, id: u32, work: impl FnOnce(&mut File) -> R) -> Option<R> {
        self.files.lock().iter_mut().find(|file| file.id == id).map(work)
    }

    fn next_id(&self) -> u32 {
        let mut last = self.last_id.lock();
        *last += 1;
        *last
    }
}
