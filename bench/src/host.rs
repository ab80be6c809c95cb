//! A minimal framework for this project's probes in this process: it counts hits.

use std::ffi::{CStr, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use anyhow::{Context as _, Result, anyhow};
use sdt_core::arg::Borrows;
use sdt_core::attach::{self, Attachment};
use sdt_core::ops::{
    Framework, FrameworkError, Privileges, ProbeId, ProviderAttr, ProviderId, ProviderOps,
};
use sdt_core::patch::{self, Mode};
use recording_host::Text;


struct Probe {
    name: String,
    parg: usize,
}

/// A framework with one provider, which counts hits.
#[derive(Default)]
pub struct Counter {
    provider: Mutex<Option<(ProviderOps, usize)>>,
    probes: Mutex<Vec<Probe>>,
    hits: AtomicU64,
}

// SAFETY: ops are called with their registered arguments, and a provider is never unregistered.
unsafe impl Framework for Counter {
    unsafe fn register(
        &self,
        _: &CStr,
        _: &ProviderAttr,
        _: Privileges,
        ops: &ProviderOps,
        arg: *mut c_void,
    ) -> Result<ProviderId, FrameworkError> {
        *self.provider.lock().expect("no panic") = Some((*ops, arg as usize));
        Ok(ProviderId::new(1))
    }

    unsafe fn unregister(&self, _: ProviderId) -> Result<(), FrameworkError> {
        Err(FrameworkError::Busy)
    }

    unsafe fn invalidate(&self, _: ProviderId) {}

    unsafe fn condense(&self, _: ProviderId) {}

    unsafe fn probe_lookup(&self, _: ProviderId, _: &CStr, _: &CStr, name: &CStr) -> Option<ProbeId> {
        self.find(name.to_str().ok()?)
    }

    unsafe fn probe_create(
        &self,
        _: ProviderId,
        _: &CStr,
        _: &CStr,
        name: &CStr,
        _: u32,
        parg: *mut c_void,
    ) -> Result<ProbeId, FrameworkError> {
        let mut probes = self.probes.lock().expect("no panic");
        probes.push(Probe { name: name.to_string_lossy().into_owned(), parg: parg as usize });
        Ok(ProbeId::new(probes.len() as u32).expect("not 0"))
    }

    unsafe fn hit(&self, id: &AtomicU32, args: &[u64; 10], _: Borrows) {
        if id.load(Ordering::Acquire) != 0 {
            std::hint::black_box(args);
            self.hits.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Counter {
    fn find(&self, name: &str) -> Option<ProbeId> {
        let probes = self.probes.lock().expect("no panic");
        let at = probes.iter().position(|probe| probe.name == name)?;
        ProbeId::new(at as u32 + 1)
    }

    /// Returns the number of hits of a probe.
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// Enables or disables a probe, through the ops table.
    ///
    /// # Errors
    /// There is no such probe.
    pub fn set(&self, name: &str, enabled: bool) -> Result<()> {
        let id = self.find(name).with_context(|| format!("no probe {name}"))?;
        let parg = self.probes.lock().expect("no panic")[id.get() as usize - 1].parg;
        let (ops, arg) = self.provider.lock().expect("no panic").context("no provider")?;
        let (arg, parg) = (arg as *mut c_void, parg as *mut c_void);
        // SAFETY: the op gets the arguments with which it was registered.
        unsafe {
            if enabled {
                (ops.enable.context("no enable")?)(arg, id.get(), parg);
            } else {
                (ops.disable.context("no disable")?)(arg, id.get(), parg);
            }
        }
        Ok(())
    }
}

/// Sets the mode of the sites of a probe.
///
/// # Errors
/// There is no such probe.
pub fn set_mode(name: &str, mode: Mode) -> Result<()> {
    let named = |probe: &&sdt_core::Probe| probe.name().to_bytes() == name.as_bytes();
    let probe = attach::probes().iter().find(named).with_context(|| format!("no probe {name}"))?;
    // SAFETY: the benchmark has one thread.
    unsafe { patch::set_mode(probe, mode) }.with_context(|| format!("the mode of {name}"))
}

/// Attaches this program's probes to a new framework.
///
/// # Errors
/// If the records are inconsistent.
pub fn attach() -> Result<&'static Counter> {
    recording_host::host();
    let counter: &'static Counter = Box::leak(Box::default());
    let attachment = Attachment { framework: counter, patcher: &Text, mode: Mode::Trap, module: c"bench" };
    // SAFETY: this program is never unloaded, and `on_hit` is installed whenever a probe is enabled.
    unsafe { attach::attach(Box::leak(Box::new(attachment))) }
        .map_err(|error| anyhow!("attaching the probes: {error:?}"))?;
    Ok(counter)
}
