//! Modules: `mod_load`, `modinstall`, `moduninstall` and `mod_unload` of `usr/src/uts/common/os/modctl.c`.
//!
//! This kernel has no files: it loads a module from the bytes that the host sends, and only a module that is already
//! loaded can satisfy a dependency.

use alloc::boxed::Box;
use alloc::ffi::CString;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::fmt;
use core::mem::offset_of;
use core::ops::Range;
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU8, AtomicU64, Ordering};

use spin::Mutex;
use static_assertions::const_assert_eq;

use super::errno::{EALREADY, EINVAL};
use super::file::{Call, File, Linked};
use super::marking::Marking;
use super::refusal::Refusal;
use stand_in_base::image::Segment;
use stand_in_base::memory::Memory;

/// `MODMAXNAMELEN`: the size of the buffer for a module's name. krtld accepts dependencies of at most 30 bytes: the NUL and one
/// more byte must be free.
const NAME_LEN: usize = 32;

/// `MI_INFO_LINKAGE`: the kind of the request with which the kernel calls `_info`.
const MI_INFO_LINKAGE: c_int = 8;

/// `struct modctl` (`usr/src/uts/common/sys/modctl.h`); only the named fields are filled. The kernel creates one for each name of
/// a module when it is first loaded, and never frees it.
#[derive(Debug)]
#[repr(C)]
pub struct ModCtl {
    head: [u64; 3],
    /// `mod_mp`: here a [`Linked`], null while the module is not loaded.
    pub mp: AtomicPtr<Linked>,
    middle: [u64; 3],
    /// `mod_filename`.
    pub filename: *const c_char,
    /// `mod_modname`.
    pub modname: *const c_char,
    busy: u32,
    /// `mod_ref`: the number of modules that depend on this module.
    pub references: AtomicI32,
    /// `mod_loaded`.
    pub loaded: AtomicU8,
    /// `mod_installed`.
    pub installed: AtomicU8,
    flags: [u8; 6],
    requisites: [u64; 2],
    /// `mod_loadcnt`: the number of times that the module has been loaded.
    pub loadcnt: AtomicI32,
    /// `mod_nenabled`: the number of enabled probes of the module.
    pub nenabled: AtomicI32,
    /// `mod_text`.
    pub text: AtomicU64,
    /// `mod_text_size`.
    pub text_size: AtomicU64,
    tail: [u64; 2],
}

const_assert_eq!(offset_of!(ModCtl, mp), 24);
const_assert_eq!(offset_of!(ModCtl, filename), 56);
const_assert_eq!(offset_of!(ModCtl, modname), 64);
const_assert_eq!(offset_of!(ModCtl, references), 76);
const_assert_eq!(offset_of!(ModCtl, loaded), 80);
const_assert_eq!(offset_of!(ModCtl, loadcnt), 104);
const_assert_eq!(offset_of!(ModCtl, nenabled), 108);
const_assert_eq!(offset_of!(ModCtl, text), 112);
const_assert_eq!(size_of::<ModCtl>(), 144);

// SAFETY: `filename` and `modname` point to strings that `new` leaks. `mp` is an atomic pointer to a `Linked`, which is `Send`
// and `Sync`.
unsafe impl Send for ModCtl {}
// SAFETY: as for `Send`; all fields that change are atomic.
unsafe impl Sync for ModCtl {}

impl ModCtl {
    /// Creates the structure of a module that has never been loaded. Like in illumos, the structure and its names are never
    /// freed.
    pub fn new(class: &str, name: &str) -> &'static Self {
        let text = |text: String| {
            CString::new(text).expect("names of modules have no NUL").into_raw().cast_const()
        };
        Box::leak(Box::new(Self {
            head: [0; 3],
            mp: AtomicPtr::new(core::ptr::null_mut()),
            middle: [0; 3],
            filename: text(format!("{class}/{name}")),
            modname: text(name.to_string()),
            busy: 0,
            references: AtomicI32::new(0),
            loaded: AtomicU8::new(0),
            installed: AtomicU8::new(0),
            flags: [0; 6],
            requisites: [0; 2],
            loadcnt: AtomicI32::new(0),
            nenabled: AtomicI32::new(0),
            text: AtomicU64::new(0),
            text_size: AtomicU64::new(0),
            tail: [0; 2],
        }))
    }

    /// Returns the name of the module.
    pub fn name(&self) -> &'static CStr {
        // SAFETY: `new` made `modname` from a `CString` that it leaked.
        unsafe { CStr::from_ptr(self.modname) }
    }

    /// Returns whether it is loaded.
    pub fn is_loaded(&self) -> bool {
        self.loaded.load(Ordering::Acquire) != 0
    }
}

/// `struct modinfo`, with names for the fields that `mod_info` uses when a module is loaded.
#[derive(Debug)]
#[repr(C)]
pub struct ModInfo {
    /// `mi_info`: the kind of the request.
    pub info: c_int,
    numbers: [c_int; 3],
    /// `mi_base`: with `MI_INFO_LINKAGE` the module's `struct modlinkage`.
    pub base: *mut c_void,
    size: usize,
    /// `mi_rev`.
    pub rev: c_int,
    loadcnt: c_int,
    name: [c_char; NAME_LEN],
    /// `mi_msinfo`: ten structures of 36 bytes (a text of 32 bytes and a number), here as bytes.
    specific: [u8; 10 * 36],
}

const_assert_eq!(offset_of!(ModInfo, base), 16);
const_assert_eq!(offset_of!(ModInfo, rev), 32);
const_assert_eq!(offset_of!(ModInfo, specific), 72);

impl ModInfo {
    const fn new() -> Self {
        Self {
            info: MI_INFO_LINKAGE,
            numbers: [0; 3],
            base: core::ptr::null_mut(),
            size: 0,
            rev: 0,
            loadcnt: 0,
            name: [0; NAME_LEN],
            specific: [0; 360],
        }
    }

    /// Returns whether the request is `MI_INFO_LINKAGE`.
    pub const fn wants_linkage(&self) -> bool {
        self.info == MI_INFO_LINKAGE
    }
}

/// The parts of the kernel that loading and unloading use.
pub trait Kernel {
    /// Returns the memory for modules and the console.
    fn memory(&self) -> &dyn Memory;
    /// Returns whether a module is part of the kernel and always loaded: `drv/dtrace`.
    fn is_built_in(&self, module: &str) -> bool;
    /// Returns the address of a symbol that a module of the kernel itself exports. `unix` and `genunix` are one module
    /// ([`UNIX`]).
    fn symbol(&self, module: &str, name: &str) -> Option<u64>;
    /// Returns the form in which krtld marks the calls of probes.
    fn marking(&self) -> Marking {
        Marking::default()
    }
    /// Calls `int (*)(void *)` of a module that is mapped.
    fn call(&self, function: u64, argument: *mut c_void) -> i32;
    /// Handles the load of a module (`dtrace_modload`).
    fn module_loaded(&self, module: &'static ModCtl);
    /// Handles the unload of a module (`dtrace_modunload`).
    fn module_unloaded(&self, module: &'static ModCtl);
}

/// The module name of the kernel itself, for [`Kernel::symbol`].
pub const UNIX: &str = "unix";

/// A module that is or was loaded.
#[derive(Debug)]
struct Module {
    class: String,
    ctl: &'static ModCtl,
    /// The image and symbols; `None` while the module is not loaded.
    linked: Option<Box<Linked>>,
    /// The names of the modules that this module depends on, including modules of the kernel itself.
    requisites: Vec<String>,
}

/// A loaded module, as modinfo(8) shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// The number of the module.
    pub id: u32,
    /// The name of the module.
    pub name: String,
    /// The address at which the module is mapped.
    pub base: u64,
    /// The size in memory, in bytes.
    pub size: usize,
}

/// All modules that are or were loaded, and the operations on them.
#[derive(Debug)]
pub struct Modules<K> {
    kernel: K,
    /// Held during a load or an unload, also while code of the module runs.
    busy: Mutex<()>,
    all: Mutex<Vec<Module>>,
}

impl<K: Kernel> Modules<K> {
    /// Creates the state with the kernel as the only module.
    pub const fn new(kernel: K) -> Self {
        Self { kernel, busy: Mutex::new(()), all: Mutex::new(Vec::new()) }
    }

    /// Returns the kernel into which modules are loaded.
    pub const fn kernel(&self) -> &K {
        &self.kernel
    }

    /// Loads and installs a module, as modload(8) does. `file` is the module's class and name, or the name of a `misc` module.
    /// Does nothing if the module is already loaded.
    ///
    /// # Errors
    /// The reason for which the kernel refuses the module; krtld's messages are printed on the console.
    pub fn load(&self, file: &str, bytes: &[u8]) -> Result<(), Refusal> {
        let _busy = self.busy.lock();
        let (class, name) = file.rsplit_once('/').unwrap_or(("misc", file));
        if self.with(name, |module| module.ctl.is_loaded()).unwrap_or(false) {
            return Ok(());
        }
        let loaded = self.mod_load(class, name, bytes);
        let installed = loaded.and_then(|()| {
            self.modinstall(name).inspect_err(|refusal| {
                self.say(refusal, class, name);
                self.mod_unload(name);
            })
        });
        if let Err(refusal) = &installed {
            if !matches!(refusal, Refusal::Init(_) | Refusal::NoInit) {
                self.say(refusal, class, name);
            }
            let path = format!("{class}/{name}");
            self.print(format_args!("error loading '{path}', error {}", refusal.errno()));
        }
        installed
    }

    fn say(&self, refusal: &Refusal, class: &str, name: &str) {
        for line in refusal.console(class, name) {
            self.print(format_args!("{line}"));
        }
    }

    /// Links and maps a module, calls its `_info`, and notifies DTrace, which creates the probes (`mod_load`).
    fn mod_load(&self, class: &str, name: &str, bytes: &[u8]) -> Result<(), Refusal> {
        let file = File::parse(bytes)?;
        let path = format!("/kernel/{class}/amd64/{name}");
        let depends = file.depends(&path).unwrap_or_else(|line| {
            self.print(format_args!("{line}"));
            Vec::new()
        });
        let (requisites, missing) = self.dependents(name, &depends);
        let base = self.kernel.memory().reserve(file.size()).ok_or(Refusal::OutOfMemory)?;
        let lookup = |symbol: &str| self.lookup(&requisites, symbol);
        let linked =
            file.link(base, self.kernel.marking(), &lookup).map_err(|refusal| match refusal {
                Refusal::Undefined { undefined, thread_local, .. } => {
                    Refusal::Undefined { undefined, thread_local, missing }
                }
                other => other,
            });
        let linked = linked.and_then(|linked| {
            entry_points(&linked)?;
            // The text is writable, as on illumos: `sdt` and modules that patch their sites themselves write to it.
            let mapped = self.kernel.memory().map(&linked.image, true);
            if mapped { Ok(linked) } else { Err(Refusal::OutOfMemory) }
        });
        let linked = linked.inspect_err(|_| self.kernel.memory().give_back(base))?;
        self.warn_of_doubles(&path, &linked);
        let info = linked.lookup("_info").filter(|&info| linked.holds(info));
        let linked = Box::new(linked);
        let ctl = self.enter(class, name, linked, requisites);
        let mut modinfo = ModInfo::new();
        match info {
            Some(info) => drop(self.kernel.call(info, (&raw mut modinfo).cast())),
            None => {
                self.print(format_args!("WARNING: _info() not defined properly in {class}/{name}"))
            }
        }
        self.kernel.module_loaded(ctl);
        Ok(())
    }

    /// Adds a module to the loaded modules, and adds references to the modules that it depends on.
    fn enter(
        &self,
        class: &str,
        name: &str,
        linked: Box<Linked>,
        requisites: Vec<String>,
    ) -> &'static ModCtl {
        let mut all = self.all.lock();
        for module in all.iter().filter(|module| requisites.contains(&module.name())) {
            module.ctl.references.fetch_add(1, Ordering::Relaxed);
        }
        let at = all.iter().position(|module| module.name() == name).unwrap_or_else(|| {
            let ctl = ModCtl::new(class, name);
            all.push(Module { class: class.into(), ctl, linked: None, requisites: Vec::new() });
            all.len() - 1
        });
        let module = &mut all[at];
        module.class = class.into();
        module.requisites = requisites;
        let ctl = module.ctl;
        ctl.mp.store((&raw const *linked).cast_mut(), Ordering::Release);
        ctl.text.store(linked.text.start, Ordering::Relaxed);
        ctl.text_size.store(linked.text.end - linked.text.start, Ordering::Relaxed);
        ctl.loadcnt.fetch_add(1, Ordering::Relaxed);
        ctl.loaded.store(1, Ordering::Release);
        module.linked = Some(linked);
        ctl
    }

    /// Returns the names of the dependencies that are loaded, and the first dependency that is not (`do_dependents`).
    fn dependents(&self, name: &str, depends: &[String]) -> (Vec<String>, Option<String>) {
        let (mut found, mut missing) = (Vec::new(), None);
        for depend in depends {
            if depend.len() >= NAME_LEN - 1 {
                let max = NAME_LEN;
                self.print(format_args!(
                    "{name}: dependency '{depend}' too long (max {max} chars)"
                ));
                missing.get_or_insert_with(|| depend.chars().take(NAME_LEN - 1).collect());
                break;
            }
            let module = depend.rsplit('/').next().unwrap_or(depend);
            let loaded = self.with(module, |module| module.ctl.is_loaded()).unwrap_or(false);
            if self.kernel.is_built_in(depend) || loaded {
                found.push(module.to_string());
            } else {
                missing.get_or_insert_with(|| depend.clone());
            }
        }
        (found, missing)
    }

    /// Looks up a symbol in the dependencies and then in the kernel (`kobj_lookup_all`).
    fn lookup(&self, requisites: &[String], symbol: &str) -> Option<u64> {
        let of_requisite = |requisite: &String| {
            let exported =
                |module: &mut Module| module.linked.as_ref().and_then(|of| of.exported(symbol));
            self.with(requisite, exported)
                .flatten()
                .or_else(|| self.kernel.symbol(requisite, symbol))
        };
        requisites.iter().find_map(of_requisite).or_else(|| self.kernel.symbol(UNIX, symbol))
    }

    /// Prints a line for each global symbol of a module that the kernel also defines, as `get_syms` does; skips the functions in
    /// `SUPPRESSED`.
    fn warn_of_doubles(&self, path: &str, linked: &Linked) {
        const SUPPRESSED: [&str; 4] = ["memcpy", "memset", "memmove", "memcmp"];
        for symbol in linked.symbols.iter().filter(|symbol| symbol.is_exported()) {
            let name = &*symbol.name;
            if !SUPPRESSED.contains(&name) && self.kernel.symbol(UNIX, name).is_some() {
                self.print(format_args!("{path} symbol {name} multiply defined"));
            }
        }
    }

    /// Calls the module's `_init` (`modinstall`).
    fn modinstall(&self, name: &str) -> Result<(), Refusal> {
        let (ctl, init) = self
            .with(name, |module| {
                let linked = module.linked.as_ref();
                let init = linked.and_then(|of| of.lookup("_init").filter(|&at| of.holds(at)));
                (module.ctl, init)
            })
            .ok_or(Refusal::NoSuchModule)?;
        match self.kernel.call(init.ok_or(Refusal::NoInit)?, core::ptr::null_mut()) {
            0 => {
                ctl.installed.store(1, Ordering::Release);
                Ok(())
            }
            error => Err(Refusal::Init(error)),
        }
    }

    /// Removes and unloads a module, as modunload(8) does. Does nothing if the module has been unloaded before.
    ///
    /// # Errors
    /// If the module was never loaded, refuses, has an enabled probe, or another module depends on it. The module stays loaded.
    pub fn unload(&self, name: &str) -> Result<(), Refusal> {
        let _busy = self.busy.lock();
        let name = name.rsplit('/').next().unwrap_or(name);
        let (ctl, class) = self
            .with(name, |module| (module.ctl, module.class.clone()))
            .ok_or(Refusal::NoSuchModule)?;
        if !ctl.is_loaded() {
            return Ok(());
        }
        self.moduninstall(ctl, name).inspect_err(|refusal| self.say(refusal, &class, name))?;
        self.mod_unload(name);
        Ok(())
    }

    /// Calls the module's `_fini`, unless the module is in use (`moduninstall`).
    fn moduninstall(&self, ctl: &'static ModCtl, name: &str) -> Result<(), Refusal> {
        let used = ctl.references.load(Ordering::Relaxed) != 0;
        if used || ctl.nenabled.load(Ordering::Acquire) != 0 {
            return Err(Refusal::Busy);
        }
        let fini = self.with(name, |module| {
            let linked = module.linked.as_ref()?;
            let fini = linked.lookup("_fini")?;
            Some((fini, linked.holds(fini)))
        });
        let (fini, inside) = fini.flatten().ok_or(Refusal::Busy)?;
        if !inside {
            return Err(Refusal::NoFini);
        }
        match self.kernel.call(fini, core::ptr::null_mut()) {
            0 => {
                ctl.installed.store(0, Ordering::Release);
                Ok(())
            }
            // The caller treats EALREADY as "the module is unloaded".
            EALREADY => Err(Refusal::Fini(EINVAL)),
            error => Err(Refusal::Fini(error)),
        }
    }

    /// Drops the references to other modules, unmaps the module, and notifies DTrace (`mod_unload`).
    fn mod_unload(&self, name: &str) {
        let gone = {
            let mut all = self.all.lock();
            let Some(module) = all.iter_mut().find(|module| module.name() == name) else { return };
            module.ctl.loaded.store(0, Ordering::Release);
            module.ctl.mp.store(core::ptr::null_mut(), Ordering::Release);
            let requisites = core::mem::take(&mut module.requisites);
            let gone = (module.ctl, module.linked.take());
            for module in all.iter().filter(|module| requisites.contains(&module.name())) {
                module.ctl.references.fetch_sub(1, Ordering::Relaxed);
            }
            gone
        };
        let (ctl, Some(linked)) = gone else { return };
        self.kernel.memory().unmap(linked.image.base(), linked.image.size());
        self.kernel.memory().give_back(linked.image.base());
        self.kernel.module_unloaded(ctl);
    }

    /// The loaded modules, oldest first.
    pub fn modules(&self) -> Vec<Info> {
        let all = self.all.lock();
        let loaded = (1..).zip(all.iter()).filter_map(|(id, module)| {
            let linked = module.linked.as_ref()?;
            let (base, size) = (linked.image.base(), linked.image.size());
            Some(Info { id, name: module.name(), base, size })
        });
        loaded.collect()
    }

    /// Address and protections of a loaded module.
    pub fn segments(&self, name: &str) -> Option<(u64, Vec<Segment>)> {
        let of = |module: &mut Module| {
            module.linked.as_ref().map(|of| (of.image.base(), of.image.segments().to_vec()))
        };
        self.with(name, of).flatten()
    }

    /// The class of the module that an address belongs to: `misc`, `drv`.
    pub fn class_of(&self, address: u64) -> Option<String> {
        let all = self.all.lock();
        let holds = |module: &&Module| module.linked.as_ref().is_some_and(|of| of.holds(address));
        all.iter().find(holds).map(|module| module.class.clone())
    }

    /// Returns the symbol at an address in a loaded module: the module's name, the symbol's, and its range.
    pub fn symbol_at(&self, address: u64) -> Option<(String, String, Range<u64>)> {
        let all = self.all.lock();
        let of = |module: &Module| {
            let found = module.linked.as_ref()?.around(address)?;
            let (start, size) = (found.value, found.size);
            Some((module.name(), found.name.clone(), start..start.saturating_add(size)))
        };
        all.iter().find_map(of)
    }

    fn print(&self, line: fmt::Arguments<'_>) {
        self.kernel.memory().print(line);
    }

    fn with<R>(&self, name: &str, work: impl FnOnce(&mut Module) -> R) -> Option<R> {
        self.all.lock().iter_mut().find(|module| module.name() == name).map(work)
    }
}

impl Module {
    fn name(&self) -> String {
        self.ctl.name().to_string_lossy().into_owned()
    }
}

/// Checks that `_init`, `_info` and `_fini` are code, because illumos calls these symbols even if they are in data.
fn entry_points(linked: &Linked) -> Result<(), Refusal> {
    for name in ["_init", "_info", "_fini"] {
        let at = linked.lookup(name).filter(|&at| linked.holds(at));
        if at.is_some_and(|at| !linked.image.is_code(at)) {
            let reason = "a function in data, which the kernel would call".into();
            return Err(Refusal::Unsound { place: name.into(), reason });
        }
    }
    Ok(())
}

/// Returns the loaded module of a `struct modctl`, which DTrace's providers inspect.
///
/// # Safety
/// The module is not unloaded while the result is in use: the caller runs during the load of the module, or prevents its unload.
pub unsafe fn linked_of(ctl: &ModCtl) -> Option<&Linked> {
    // SAFETY: `enter` stored the pointer. The `Linked` lives until the unload, which the caller prevents.
    unsafe { ctl.mp.load(Ordering::Acquire).as_ref() }
}

/// The sites that krtld found in a module and the functions that they are in.
pub(super) fn sites_of(linked: &Linked) -> impl Iterator<Item = (&Call, &str)> {
    let function = |site: &Call| linked.symbol_at(site.address).unwrap_or("<unknown>");
    linked.sites.iter().map(move |site| (site, function(site)))
}
