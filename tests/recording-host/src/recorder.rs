//! A framework that records every call.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, RwLock};

use sdt_core::arg::Borrows;
use sdt_core::ops::{
    ARG_NONE, ARGS, ArgDesc, Framework, FrameworkError, Privileges, ProbeId, ProviderAttr,
    ProviderId, ProviderOps,
};

/// A registered probe.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its provider's name.
    pub provider: String,
    /// Its module's name.
    pub module: String,
    /// Its own name.
    pub name: String,
    /// Artificial frames.
    pub aframes: u32,
    ops: ProviderOps,
    arg: usize,
    parg: usize,
}

/// A function that receives the id and the arguments of a hit.
pub type Hook = fn(u32, &[u64; ARGS]);

/// One more than the highest id.
const PROBES: usize = 64;

/// A framework for tests. Probes get the ids 1, 2, and so on. It counts the hits of each probe, and keeps the arguments of the
/// last hit.
#[derive(Debug)]
pub struct Recorder {
    providers: Mutex<Vec<Option<(String, ProviderOps, usize)>>>,
    /// Stability and privileges of all providers that were ever registered.
    pub registered: Mutex<Vec<(String, ProviderAttr, Privileges)>>,
    probes: Mutex<Vec<Entry>>,
    /// The provider that may not be unregistered.
    pub refuses: Mutex<Option<&'static str>>,
    /// Hits, by id.
    pub hits: [AtomicU64; PROBES],
    /// Arguments of the last hit, by id.
    pub args: [[AtomicU64; ARGS]; PROBES],
    /// A function that is called in every hit.
    pub hook: RwLock<Option<Hook>>,
}

impl Default for Recorder {
    fn default() -> Self {
        Self {
            providers: Mutex::default(),
            registered: Mutex::default(),
            probes: Mutex::default(),
            refuses: Mutex::default(),
            hits: std::array::from_fn(|_| AtomicU64::default()),
            args: std::array::from_fn(|_| Default::default()),
            hook: RwLock::default(),
        }
    }
}

fn text(name: &CStr) -> String {
    name.to_str().unwrap().to_owned()
}

// SAFETY: each op is called with the argument that was registered with it, and never after `unregister` of its provider.
unsafe impl Framework for Recorder {
    unsafe fn register(
        &self,
        name: &CStr,
        attr: &ProviderAttr,
        privileges: Privileges,
        ops: &ProviderOps,
        arg: *mut c_void,
    ) -> Result<ProviderId, FrameworkError> {
        self.registered.lock().unwrap().push((text(name), *attr, privileges));
        let mut providers = self.providers.lock().unwrap();
        providers.push(Some((text(name), *ops, arg as usize)));
        Ok(ProviderId::new(providers.len()))
    }

    unsafe fn unregister(&self, provider: ProviderId) -> Result<(), FrameworkError> {
        let mut providers = self.providers.lock().unwrap();
        let slot = &mut providers[provider.get() - 1];
        if slot.as_ref().is_some_and(|(name, ..)| *self.refuses.lock().unwrap() == Some(name)) {
            return Err(FrameworkError::Busy);
        }
        let (name, ops, arg) = slot.take().unwrap();
        drop(providers);
        for (i, probe) in self.probes.lock().unwrap().iter().enumerate() {
            if probe.provider == name {
                // SAFETY: the op is called with the arguments that its provider registered it with, in `register` and `probe_create`.
                unsafe { ops.destroy.unwrap()(arg as _, i as u32 + 1, probe.parg as _) };
            }
        }
        self.probes.lock().unwrap().iter_mut().for_each(|probe| {
            if probe.provider == name {
                probe.provider.clear();
            }
        });
        Ok(())
    }

    unsafe fn invalidate(&self, _: ProviderId) {}

    /// Destroys nothing: the recorder does not track which probes are enabled.
    unsafe fn condense(&self, _: ProviderId) {}

    unsafe fn probe_lookup(
        &self,
        id: ProviderId,
        _: &CStr,
        _: &CStr,
        name: &CStr,
    ) -> Option<ProbeId> {
        let provider = self.providers.lock().unwrap()[id.get() - 1].as_ref()?.0.clone();
        self.find(&provider, &text(name))
    }

    unsafe fn probe_create(
        &self,
        id: ProviderId,
        module: &CStr,
        _: &CStr,
        name: &CStr,
        aframes: u32,
        parg: *mut c_void,
    ) -> Result<ProbeId, FrameworkError> {
        let (provider, ops, arg) = self.providers.lock().unwrap()[id.get() - 1].clone().unwrap();
        let mut probes = self.probes.lock().unwrap();
        let (module, name, parg) = (text(module), text(name), parg as usize);
        probes.push(Entry { provider, module, name, aframes, ops, arg, parg });
        Ok(ProbeId::new(probes.len() as u32).unwrap())
    }

    unsafe fn hit(&self, id: &AtomicU32, args: &[u64; ARGS], _: Borrows) {
        let id = id.load(Ordering::Acquire) as usize;
        if id == 0 {
            return;
        }
        self.hits[id].fetch_add(1, Ordering::Relaxed);
        for (kept, arg) in self.args[id].iter().zip(args) {
            kept.store(*arg, Ordering::Relaxed);
        }
        // Other threads may read the hook in hits at the same time. The thread that sets it is not in a hit.
        if let Ok(hook) = self.hook.try_read()
            && let Some(hook) = *hook
        {
            hook(id as u32, args);
        }
    }
}

impl Recorder {
    /// Finds the probe of this provider and name, in any module.
    pub fn find(&self, provider: &str, name: &str) -> Option<ProbeId> {
        let probes = self.probes.lock().unwrap();
        let at = probes.iter().position(|p| p.provider == provider && p.name == name)?;
        ProbeId::new(at as u32 + 1)
    }

    /// Returns the entry of a probe.
    pub fn entry(&self, id: ProbeId) -> Entry {
        self.probes.lock().unwrap()[id.get() as usize - 1].clone()
    }

    /// Names of all probes.
    pub fn names(&self) -> Vec<String> {
        let probes = self.probes.lock().unwrap();
        probes
            .iter()
            .filter(|p| !p.provider.is_empty())
            .map(|p| format!("{}:{}::{}", p.provider, p.module, p.name))
            .collect()
    }

    /// Enables a probe.
    pub fn enable(&self, id: ProbeId) {
        assert_eq!(self.try_enable(id), 0);
    }

    /// Enables a probe; returns the provider's error number, or 0.
    pub fn try_enable(&self, id: ProbeId) -> i32 {
        let entry = self.entry(id);
        // SAFETY: the op is called with the arguments that its provider registered it with, in `register` and `probe_create`.
        unsafe { entry.ops.enable.unwrap()(entry.arg as _, id.get(), entry.parg as _) }
    }

    /// Disables a probe.
    pub fn disable(&self, id: ProbeId) {
        let entry = self.entry(id);
        // SAFETY: the op is called with the arguments that its provider registered it with, in `register` and `probe_create`.
        unsafe { entry.ops.disable.unwrap()(entry.arg as _, id.get(), entry.parg as _) };
    }

    /// Returns the types of a probe's arguments, from `getargdesc`; `native > translated` for a translated one.
    pub fn types(&self, id: ProbeId) -> Vec<String> {
        let entry = self.entry(id);
        let mut types = Vec::new();
        loop {
            let mut desc = ArgDesc::request(id, types.len() as i32);
            // SAFETY: the op is called with the arguments that its provider registered it with, in `register` and `probe_create`.
            unsafe {
                entry.ops.getargdesc.unwrap()(entry.arg as _, id.get(), entry.parg as _, &mut desc)
            };
            if desc.ndx == ARG_NONE {
                return types;
            }
            let [native, translated] =
                [&desc.native, &desc.xlate].map(|name| text(name.as_c_str()));
            let is_translated = !translated.is_empty();
            types.push(if is_translated { format!("{native} > {translated}") } else { native });
        }
    }

    /// Returns the number of hits of a probe.
    pub fn hits(&self, id: ProbeId) -> u64 {
        self.hits[id.get() as usize].load(Ordering::Relaxed)
    }

    /// Returns the first six arguments of the last hit, which are all of them on most routes.
    pub fn args(&self, id: ProbeId) -> [u64; 6] {
        std::array::from_fn(|i| self.all_args(id)[i])
    }

    /// Returns all arguments of the last hit.
    pub fn all_args(&self, id: ProbeId) -> [u64; ARGS] {
        std::array::from_fn(|i| self.args[id.get() as usize][i].load(Ordering::Relaxed))
    }
}
