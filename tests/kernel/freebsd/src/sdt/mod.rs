//! FreeBSD's SDT: `sdt.ko` creates, enables and disables the probes in the linker sets of a file (`sys/cddl/dev/sdt/sdt.c`), and
//! `dtrace.ko` destroys them before the file is unloaded (`dtrace_module_unloaded` in
//! `sys/cddl/contrib/opensolaris/uts/common/dtrace/dtrace.c`).
//!
//! The probes of a file exist only after the file has been loaded and its `MOD_LOAD` event has been handled. The record of an
//! enabled probe contains the probe's id. On 15, the kernel also replaces the nops of its tracepoints by jumps.

mod fault;
mod layout;
mod load;
mod names;
mod ops;
mod records;
#[cfg(test)]
mod tests;
mod tracepoint;
mod unload;

use alloc::collections::BTreeMap;
use alloc::ffi::CString;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ffi::CStr;
use core::fmt;

use dtrace_abi::site::Code;
use sdt_core::ops::{Privileges, ProbeId, ProviderId};
use sdt_framework::{Dtrace, Host, registration};
use spin::Mutex;

use crate::loader::Machine;
pub use fault::Fault;
pub use records::Records;
pub use tracepoint::Tracepoint;

use records::{ArgType, Content};

/// The machine that files are loaded into.
pub trait Machdep: Sync + 'static {
    /// Returns the architecture of the machine.
    fn machine(&self) -> Machine;

    /// Prints a line on the console.
    fn print(&self, line: fmt::Arguments<'_>);

    /// Stores a word.
    ///
    /// # Safety
    /// `address` is in writable data of a mapped file.
    unsafe fn write(&self, address: u64, word: u64);

    /// Sets `sdt_probes_enabled`: whether any probe is enabled.
    fn set_probes_enabled(&self, enabled: bool);

    /// Writes instructions while all other CPUs are stopped (`sdt_probe_update`).
    ///
    /// # Safety
    /// The addresses are sites in the text of mapped files.
    unsafe fn patch(&self, sites: &[(u64, Code)]);

    /// The sixth argument of the hit that this CPU is recording, 0 before 15. Probe context.
    fn sixth_argument(&self) -> u64;
}

/// The state of `sdt.ko`.
///
/// Only loading and unloading lock `providers`; they hold this lock during calls of the framework. The ops lock `probes`, too.
/// The framework calls the ops with its own lock held, so `probes` must never be locked during a call of the framework.
#[derive(Debug)]
pub struct Sdt<H: Host, M> {
    framework: &'static Dtrace<H>,
    machdep: M,
    providers: Mutex<Providers>,
    probes: Mutex<Probes>,
}

#[derive(Debug)]
struct Providers {
    /// `sdt_prov_list`.
    list: Vec<Provider>,
    /// The providers in the sets of loaded files, by file and by the address of the record.
    declared: Vec<(u32, u64, CString)>,
}

/// A provider, which may span files.
#[derive(Debug)]
struct Provider {
    name: CString,
    id: ProviderId,
    /// The number of sets that contain the provider.
    references: u32,
}

#[derive(Debug)]
struct Probes {
    /// The keys are the addresses of the records.
    all: BTreeMap<u64, Probe>,
    /// Number of enabled probes (`sdt_probes_enabled_count`).
    enabled: usize,
}

/// A probe, with the argument types and tracepoints that are linked to its record.
#[derive(Debug)]
struct Probe {
    file: u32,
    /// `None` if the record has another version; then DTrace has no such probe.
    content: Option<Content>,
    provider: CString,
    /// DTrace's id; `None` if a record that was processed earlier has the same names.
    created: Option<ProbeId>,
    enabled: bool,
    /// The argument types, each with the number of the file that contains its record. `tracepoints` is alike.
    argtypes: Vec<(u32, ArgType)>,
    tracepoints: Vec<(u32, Tracepoint)>,
}

impl<H: Host, M: Machdep> Sdt<H, M> {
    /// Creates the state before any file is loaded.
    pub const fn new(framework: &'static Dtrace<H>, machdep: M) -> Self {
        let probes = Probes { all: BTreeMap::new(), enabled: 0 };
        let providers = Providers { list: Vec::new(), declared: Vec::new() };
        Self { framework, machdep, providers: Mutex::new(providers), probes: Mutex::new(probes) }
    }

    /// Checks the records of a file against the records of the loaded files.
    ///
    /// # Errors
    /// If a record refers to a provider or probe that is in no set, or a provider has an invalid name.
    pub fn check(&self, records: &Records) -> Result<(), Fault> {
        let providers = self.providers.lock();
        let probes = self.probes.lock();
        for provider in &records.providers {
            registration::check(&provider.name, Privileges::USER, &ops::table::<H, M>())
                .map_err(|error| Fault::provider(provider.name.clone(), error))?;
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
        let tracepoints = records.tracepoints.iter().map(|&(probe, _)| ("tracepoint", probe));
        match argtypes.chain(tracepoints).find(|&(_, probe)| !is_probe(probe)) {
            Some((of, probe)) => Err(Fault::NoProbe { of, probe }),
            None => Ok(()),
        }
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
    /// Returns the name in the provider record at `address`, which is in `records` or in a loaded file.
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
    /// Creates a probe whose record has another version, and is therefore ignored.
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
