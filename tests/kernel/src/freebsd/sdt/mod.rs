//! FreeBSD's SDT: what `sdt.ko` does with the probes that a file brings along in its sets
//! (`sys/cddl/dev/sdt/sdt.c`), and `dtrace.ko` when the file is to go (`dtrace_module_unloaded` in
//! `sys/cddl/contrib/opensolaris/uts/common/dtrace/dtrace.c`).
//!
//! The probes are there when a file has been loaded, its own `MOD_LOAD` done, and not before. An enabled probe
//! has an id in its record; on 15 the kernel has put jumps over its tracepoints' nops besides.

mod fault;
mod layout;
mod names;
mod ops;
mod records;
#[cfg(test)]
mod tests;
mod tracepoint;

use alloc::collections::BTreeMap;
use alloc::ffi::CString;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ffi::{CStr, c_void};
use core::fmt;

use sdt_core::encode::Code;
use sdt_core::ops::{Framework, FrameworkError, Privileges, ProbeId, ProviderAttr, ProviderId};
use sdt_framework::{Dtrace, Host, registration};
use spin::Mutex;

use crate::kld::FileInfo;
use crate::loader::Machine;
use crate::printf;
pub use fault::Fault;
pub use records::Records;
pub use tracepoint::Tracepoint;

use super::{Generation, Release};
use records::{ArgType, Content};

/// The machine that files are loaded into.
pub trait Machdep: Sync + 'static {
    /// What it is.
    fn machine(&self) -> Machine;

    /// Prints a line on the console.
    fn print(&self, line: fmt::Arguments<'_>);

    /// Stores a word.
    ///
    /// # Safety
    /// At the address is writable data of a file that is mapped.
    unsafe fn write(&self, address: u64, word: u64);

    /// Says in `sdt_probes_enabled` whether any probe is enabled.
    fn set_probes_enabled(&self, enabled: bool);

    /// Writes instructions while all other CPUs are stopped (`sdt_probe_update`).
    ///
    /// # Safety
    /// They are sites, in the text of files that are mapped.
    unsafe fn patch(&self, sites: &[(u64, Code)]);

    /// The sixth argument of the hit that this CPU is recording, 0 before 15. Probe context.
    fn sixth_argument(&self) -> u64;
}

/// A framework that knows what the name of a file's module is.
pub trait Modules: Framework + 'static {
    /// Destroys all probes with this module name, of any provider, unless one of them is enabled.
    ///
    /// # Errors
    /// [`FrameworkError::Busy`] if one is.
    fn destroy_module(&self, module: &CStr) -> Result<usize, FrameworkError>;
}

impl<
    H: Host + 'static,
    const CPUS: usize,
    const RECORDS: usize,
    const CONSUMERS: usize,
    const PROBES: usize,
    const ECBS: usize,
    const PROVIDERS: usize,
> Modules for Dtrace<H, CPUS, RECORDS, CONSUMERS, PROBES, ECBS, PROVIDERS>
{
    fn destroy_module(&self, module: &CStr) -> Result<usize, FrameworkError> {
        Dtrace::destroy_module(self, module)
    }
}

/// What `sdt.ko` knows.
///
/// `providers` is locked by loading and unloading only, and kept over calls of the framework; `probes` also by
/// the ops, which the framework calls with its own lock held, and never over such calls.
#[derive(Debug)]
pub struct Sdt<F: 'static, M> {
    framework: &'static F,
    machdep: M,
    providers: Mutex<Providers>,
    probes: Mutex<Probes>,
}

#[derive(Debug)]
struct Providers {
    /// `sdt_prov_list`.
    list: Vec<Provider>,
    /// Those in the sets of loaded files, by file and by the addresses of their records.
    declared: Vec<(u32, u64, CString)>,
}

/// A provider, which may span files.
#[derive(Debug)]
struct Provider {
    name: CString,
    id: ProviderId,
    /// In how many sets it is.
    references: u32,
}

#[derive(Debug)]
struct Probes {
    /// By the addresses of their records.
    all: BTreeMap<u64, Probe>,
    /// How many are enabled (`sdt_probes_enabled_count`).
    enabled: usize,
}

/// A probe, with what is linked to its record.
#[derive(Debug)]
struct Probe {
    file: u32,
    /// `None` of a record of another version, whose probe is not there.
    content: Option<Content>,
    provider: CString,
    /// What DTrace knows it as, unless another record was first with these names.
    created: Option<ProbeId>,
    enabled: bool,
    /// With the file that each is of.
    argtypes: Vec<(u32, ArgType)>,
    tracepoints: Vec<(u32, Tracepoint)>,
}

impl<F: Modules, M: Machdep> Sdt<F, M> {
    /// Nothing has been loaded.
    pub const fn new(framework: &'static F, machdep: M) -> Self {
        let probes = Probes { all: BTreeMap::new(), enabled: 0 };
        let providers = Providers { list: Vec::new(), declared: Vec::new() };
        Self { framework, machdep, providers: Mutex::new(providers), probes: Mutex::new(probes) }
    }

    /// Whether a file's records go with those of the files that are there.
    ///
    /// # Errors
    /// When they refer to what is in no set, or name a provider as none can be named.
    pub fn check(&self, records: &Records) -> Result<(), Fault> {
        let providers = self.providers.lock();
        let probes = self.probes.lock();
        for provider in &records.providers {
            registration::check(&provider.name, Privileges::USER, &ops::table::<F, M>())
                .map_err(|error| Fault::ProviderName { name: provider.name.clone(), error })?;
        }
        for content in records.probes.iter().filter_map(|probe| probe.content.as_ref().ok()) {
            let provider = providers.name(records, content.provider);
            let there = |name: &CString| {
                records.providers.iter().any(|own| own.name == *name) || providers.has(name)
            };
            if !provider.as_ref().is_some_and(there) {
                let provider = provider.unwrap_or_else(|| c"?".into());
                let probe = content.names(&provider);
                return Err(Fault::NoProvider { probe, provider: content.provider });
            }
        }
        let is_probe = |address| {
            records.probes.iter().any(|probe| probe.address == address)
                || probes.all.contains_key(&address)
        };
        let argtypes = records.argtypes.iter().map(|&(probe, _)| ("argument type", probe));
        let tracepoints = records.tracepoints.iter();
        let tracepoints = tracepoints
            .filter(|(_, tracepoint)| tracepoint.is_valid(self.machdep.machine()))
            .map(|&(probe, _)| ("tracepoint", probe));
        match argtypes.chain(tracepoints).find(|&(_, probe)| !is_probe(probe)) {
            Some((of, probe)) => Err(Fault::NoProbe { of, probe }),
            None => Ok(()),
        }
    }

    /// A file has been loaded (`sdt_kld_load`). Its records have been [checked](Self::check).
    pub fn kld_load(&'static self, file: &FileInfo, records: Records, release: Release) {
        for provider in &records.providers {
            self.create_provider(&provider.name);
            let declared = (file.id, provider.address, provider.name.clone());
            self.providers.lock().declared.push(declared);
        }
        for probe in records.probes {
            match probe.content {
                Ok(content) => self.create_probe(file, probe.address, content, release),
                Err(version) => {
                    let expected = layout::Probe::of(release.generation()).size;
                    let address = printf::pointer(probe.address);
                    self.machdep.print(format_args!(
                        "ignoring probe {address}, version {version} expected {expected}"
                    ));
                    // FreeBSD writes `sdtp_lf` and the lists' heads all the same, at its own records' offsets:
                    // into the end of a record that is longer, behind one that is shorter.
                    self.probes.lock().all.insert(probe.address, Probe::ignored(file.id));
                }
            }
        }
        let mut probes = self.probes.lock();
        for (probe, argtype) in records.argtypes {
            if let Some(probe) = probes.all.get_mut(&probe) {
                probe.argtypes.push((file.id, argtype));
            }
        }
        for (probe, tracepoint) in records.tracepoints {
            let valid = tracepoint.is_valid(self.machdep.machine());
            match probes.all.get_mut(&probe) {
                Some(probe) if valid => probe.tracepoints.push((file.id, tracepoint)),
                probe => {
                    let names = probe
                        .and_then(|probe| Some(probe.content.as_ref()?.names(&probe.provider)));
                    self.machdep.print(format_args!(
                        "invalid tracepoint {}->{} for {}",
                        printf::pointer(tracepoint.patchpoint),
                        printf::pointer(tracepoint.target),
                        names.unwrap_or_else(|| String::from("?:?:?:?")),
                    ));
                }
            }
        }
    }

    /// `sdt_create_provider`. FreeBSD looks neither at names, which have been checked here, nor for room, of
    /// which it has enough.
    fn create_provider(&'static self, name: &CStr) {
        let mut providers = self.providers.lock();
        if let Some(provider) = providers.list.iter_mut().find(|other| *other.name == *name) {
            provider.references += 1;
            return;
        }
        let ops = ops::table::<F, M>();
        let this = (&raw const *self).cast_mut().cast::<c_void>();
        let (attr, privileges) = (ProviderAttr::SDT, Privileges::USER);
        // SAFETY: the ops are those for a pointer to `Self`, which is static.
        match unsafe { self.framework.register(name, &attr, privileges, &ops, this) } {
            Ok(id) => providers.list.push(Provider { name: name.into(), id, references: 1 }),
            Err(error) => self.machdep.print(format_args!(
                "WARNING: failed to register provider '{}': {error}",
                name.to_string_lossy()
            )),
        }
    }

    /// `sdt_create_probe`.
    fn create_probe(&self, file: &FileInfo, address: u64, content: Content, release: Release) {
        let providers = self.providers.lock();
        let name = providers.name(&Records::default(), content.provider).unwrap_or_default();
        let created =
            providers.list.iter().find(|provider| provider.name == name).map(|provider| {
                let module = names::module(&content.module, &file.name);
                let (function, name) =
                    (names::function(&content.function), names::probe(&content.name));
                if self.framework.probe_lookup(provider.id, &module, &function, &name).is_some() {
                    // The second one with these names: it never comes to life.
                    return Ok(None);
                }
                // Past `sdt_probe`, and on 15 past the function of a lock, to the one that takes it.
                let lockstat = release.generation() == Generation::Tracepoint
                    && provider.name.as_c_str() == c"lockstat";
                let aframes = if lockstat { 2 } else { 1 };
                let record = address as *mut c_void;
                let (module, function, name) = (&module, &function, &name);
                self.framework
                    .probe_create(provider.id, module, function, name, aframes, record)
                    .map(Some)
            });
        let created = match created {
            Some(Ok(created)) => created,
            Some(Err(error)) => {
                let names = content.names(&name);
                self.machdep
                    .print(format_args!("WARNING: failed to create probe '{names}': {error}"));
                None
            }
            None => None,
        };
        let probe =
            Probe { created, provider: name, content: Some(content), ..Probe::ignored(file.id) };
        self.probes.lock().all.entry(address).or_insert(probe);
    }

    /// A file is about to be unloaded (`kld_unload_try`): whether DTrace and SDT let it go. They may have taken
    /// away its probes even if not, as FreeBSD's do, and then they stay away.
    ///
    /// First DTrace: not while a probe of the file is enabled; or else all probes that carry its name are
    /// destroyed. Then SDT: what is linked to the file's records is unlinked, and the providers that are in
    /// no other set are unregistered, which DTrace refuses while any consumer is open.
    pub fn kld_unload_try(&self, file: &FileInfo) -> bool {
        if self.is_enabled(file.id) {
            self.machdep.print(format_args!(
                "kldunload: attempt to unload module that has DTrace probes enabled"
            ));
            return false;
        }
        // Only an own provider's probe can still be enabled: FreeBSD then leaves all of them to that provider.
        let _ = self.framework.destroy_module(&names::of_file(&file.name));
        self.unlink(file.id) && self.unload_providers(file.id)
    }

    /// Whether probes of a file are enabled (`nenabled` in its `struct linker_file`).
    fn is_enabled(&self, file: u32) -> bool {
        self.probes.lock().all.values().any(|probe| probe.file == file && probe.enabled)
    }

    /// `sdt_kld_unload_probes`: whether nothing of other files is linked to the file's records.
    fn unlink(&self, file: u32) -> bool {
        let mut probes = self.probes.lock();
        for probe in probes.all.values_mut() {
            probe.argtypes.retain(|&(of, _)| of != file);
            probe.tracepoints.retain(|&(of, _)| of != file);
        }
        let mut own = probes.all.values().filter(|probe| probe.file == file);
        own.all(|probe| probe.argtypes.is_empty() && probe.tracepoints.is_empty())
    }

    /// `sdt_kld_unload_providers`.
    fn unload_providers(&self, file: u32) -> bool {
        let Providers { list, declared } = &mut *self.providers.lock();
        for (_, _, name) in declared.iter().filter(|&&(of, ..)| of == file) {
            let Some(at) = list.iter().position(|provider| provider.name == *name) else {
                continue;
            };
            if list[at].references > 1 {
                list[at].references -= 1;
                continue;
            }
            if self.framework.unregister(list[at].id).is_err() {
                return false;
            }
            list.remove(at);
        }
        true
    }

    /// A file is gone.
    pub fn kld_unload(&self, file: &FileInfo) {
        self.providers.lock().declared.retain(|&(of, ..)| of != file.id);
        self.probes.lock().all.retain(|_, probe| probe.file != file.id);
    }

    /// The tracepoints of a probe, for listings.
    pub fn tracepoints(&self, id: u32) -> Vec<Tracepoint> {
        let probes = self.probes.lock();
        let of = |probe: &&Probe| probe.created.is_some_and(|created| created.get() == id);
        let found = probes.all.values().find(of).into_iter();
        found
            .flat_map(|probe| probe.tracepoints.iter().map(|&(_, tracepoint)| tracepoint))
            .collect()
    }
}

impl Providers {
    /// The name in the record at an address: one of `records`, or of a file that is loaded.
    fn name(&self, records: &Records, address: u64) -> Option<CString> {
        let own = records.providers.iter().find(|provider| provider.address == address);
        let own = own.map(|provider| provider.name.clone());
        own.or_else(|| {
            let declared = self.declared.iter().find(|&&(_, record, _)| record == address);
            declared.map(|(_, _, name)| name.clone())
        })
    }

    fn has(&self, name: &CString) -> bool {
        self.list.iter().any(|provider| provider.name == *name)
    }
}

impl Probe {
    /// One whose record is of another version.
    fn ignored(file: u32) -> Self {
        Self {
            file,
            content: None,
            provider: CString::default(),
            created: None,
            enabled: false,
            argtypes: Vec::new(),
            tracepoints: Vec::new(),
        }
    }
}

impl Content {
    /// `prov:mod:func:name`, as the record has them.
    fn names(&self, provider: &CStr) -> String {
        let [provider, module, function, name] =
            [provider, &self.module, &self.function, &self.name].map(CStr::to_string_lossy);
        format!("{provider}:{module}:{function}:{name}")
    }
}
