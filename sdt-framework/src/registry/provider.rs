//! Providers and their probes: `dtrace_register(9)` and its family.

use core::ffi::{CStr, c_void};
use core::sync::atomic::AtomicU32;

use dtrace_abi::name::Name;
use sdt_core::ops::{
    ARGS, Framework, FrameworkError, Privileges, ProbeDesc, ProbeId, ProviderAttr, ProviderId,
    ProviderOps,
};

use crate::buffer::Consumer;
use crate::context::ProbeContext;
use crate::dtrace::Dtrace;
use crate::ecb::{BATCH, Brought, look};
use crate::host::Host;
use crate::registry::Origin;
use crate::registry::links::List;
use crate::registry::names::Names;
use crate::registry::registration;
use crate::registry::tables::{Opaque, Provider, Tables};

/// The number of the probe at an index of the table.
pub(crate) fn number(index: usize) -> u32 {
    index as u32 + 1
}

/// The index in the table of a probe with this number.
pub(crate) fn index(id: ProbeId) -> usize {
    id.get() as usize - 1
}

// SAFETY: ops are called with their provider's pointers, with the locks held that their contexts are about, and
// `unregister` takes the provider away; ids are checked.
unsafe impl<H: Host> Framework for Dtrace<H> {
    /// Registers the provider and has it provide all its probes. Several providers may have one name,
    /// as on FreeBSD. The rules are in [`registration`](crate::registration); [`registration::check`] tells which one was
    /// broken.
    unsafe fn register(
        &self,
        name: &CStr,
        attr: &ProviderAttr,
        privileges: Privileges,
        ops: &ProviderOps,
        arg: *mut c_void,
    ) -> Result<ProviderId, FrameworkError> {
        registration::check(name, privileges, ops)?;
        self.need_thread()?;
        let name = Name::new(name.to_bytes()).ok_or(FrameworkError::Invalid)?;
        let provider = |name| Provider {
            name,
            attr: *attr,
            privileges,
            ops: *ops,
            arg: Opaque(arg),
            defunct: false,
            probes: List::EMPTY,
            enabled: 0,
        };
        let _registration = self.registration.lock();
        let id = {
            let mut tables = self.tables.lock();
            if tables.max_providers() == 0 {
                return Err(FrameworkError::NotReady);
            }
            tables.add_provider(name, provider).ok_or(FrameworkError::Full)?
        };
        if let Some(provide) = ops.provide {
            // SAFETY: the caller vouches for the op. The framework's lock is not held: it may create
            // probes.
            self.providing(|| unsafe { provide(arg, core::ptr::null()) })?;
        }
        Ok(id)
    }

    unsafe fn unregister(&self, provider: ProviderId) -> Result<(), FrameworkError> {
        Self::unregister(self, provider)
    }

    unsafe fn invalidate(&self, provider: ProviderId) {
        // In probe context nothing is done, and to unregister it is refused then, too.
        let _ = Self::invalidate(self, provider);
    }

    unsafe fn condense(&self, provider: ProviderId) {
        // Of a provider that is not registered there are none.
        let _ = Self::condense(self, provider);
    }

    unsafe fn probe_lookup(
        &self,
        provider: ProviderId,
        module: &CStr,
        function: &CStr,
        name: &CStr,
    ) -> Option<ProbeId> {
        Self::probe_lookup(self, provider, module, function, name)
    }

    /// Creates a probe. Ids count up from 1 and are used again as late as possible. Two probes may have
    /// the same four names, as in the kernels: look up first. If it is enabled already, by enablings that are
    /// retained, the provider's `enable` is called before this returns, or after the `provide` op that this is called in.
    ///
    /// # Errors
    /// As in the trait, and [`FrameworkError::Invalid`] for a name that is too long, where the kernels
    /// take it and cut it off in listings.
    unsafe fn probe_create(
        &self,
        provider: ProviderId,
        module: &CStr,
        function: &CStr,
        name: &CStr,
        aframes: u32,
        parg: *mut c_void,
    ) -> Result<ProbeId, FrameworkError> {
        self.need_thread()?;
        let mut tables = self.tables.lock();
        self.create_probe(&mut tables, provider, [module, function, name], aframes, parg)
    }

    unsafe fn hit(&self, id: &AtomicU32, args: &[u64; ARGS]) {
        let recorded = |id| self.record_hit(id, Brought::All(args));
        look(&self.host, id, recorded, || self.hit_is_overtaken());
    }
}

/// # Providers and their probes
///
/// Beside [`register`](Framework::register) and [`probe_create`](Framework::probe_create), which are the [`Framework`]'s.
impl<H: Host> Dtrace<H> {
    /// Calls `f`, which creates probes, and enables afterwards what has come to be, for all that mean it. So whoever
    /// creates them need not be prepared for an `enable` before it is done. `provide` ops are called in this way.
    ///
    /// # Errors
    /// [`ProbeContext`]: `f` was not called.
    pub fn providing<R>(&self, f: impl FnOnce() -> R) -> Result<R, ProbeContext> {
        self.need_thread()?;
        self.tables.lock().providing += 1;
        let result = f();
        self.tables.lock().providing -= 1;
        loop {
            let mut tables = self.tables.lock();
            if tables.providing > 0 {
                // Somebody else is, and will see to it.
                return Ok(result);
            }
            let Some(from) = tables.fresh.take() else { return Ok(result) };
            let used = tables.probes_used();
            let to = used.min(from + BATCH);
            for at in from..to {
                self.match_created(&mut tables, at);
            }
            if to < used {
                tables.fresh = Some(to);
            }
        }
    }

    /// Unregisters the provider: its probes are gone, no CPU is in probe context for any of them, and
    /// `destroy` has been called for each.
    ///
    /// As on FreeBSD it is [`Busy`](FrameworkError::Busy) while any consumer is open, whether it enabled
    /// a probe of this provider or not. A provider that was [invalidated](Self::invalidate) can go
    /// whoever is there, once its enablings are gone ([`Again`](FrameworkError::Again) until then).
    ///
    /// # Errors
    /// These, [`FrameworkError::NotFound`] when there is no such provider, and [`FrameworkError::ProbeContext`].
    pub fn unregister(&self, provider: ProviderId) -> Result<(), FrameworkError> {
        self.need_thread()?;
        let _registration = self.registration.lock();
        let mut tables = self.tables.lock();
        let index = tables.find_provider(provider).ok_or(FrameworkError::NotFound)?;
        let found = tables.provider(index).ok_or(FrameworkError::NotFound)?;
        match found.defunct {
            true if found.enabled > 0 => return Err(FrameworkError::Again),
            false if found.enabled > 0 || self.has_consumers() => return Err(FrameworkError::Busy),
            _ => {}
        }
        self.destroy_of_provider(&mut tables, index);
        tables.remove_provider(index);
        Ok(())
    }

    /// The id of the provider's probe with exactly these names. None of an invalidated provider's, and none in
    /// [probe context](ProbeContext).
    pub fn probe_lookup(
        &self,
        provider: ProviderId,
        module: &CStr,
        function: &CStr,
        name: &CStr,
    ) -> Option<ProbeId> {
        self.need_thread().ok()?;
        let tables = self.tables.lock();
        let index = tables.find_provider(provider)?;
        if tables.provider(index)?.defunct {
            return None;
        }
        ProbeId::new(number(
            tables.find_probe(index, [module, function, name].map(CStr::to_bytes))?,
        ))
    }

    /// The provider's probe with these names, which is created if there is none. `parg` is handed to the provider's ops,
    /// which take any.
    pub(crate) fn find_or_create(
        &self,
        provider: ProviderId,
        names: [&CStr; 3],
        aframes: u32,
        parg: *mut c_void,
    ) -> Result<ProbeId, FrameworkError> {
        self.need_thread()?;
        let mut tables = self.tables.lock();
        let index = tables.find_provider(provider).ok_or(FrameworkError::NotFound)?;
        match tables.find_probe(index, names.map(CStr::to_bytes)) {
            Some(at) => ProbeId::new(number(at)).ok_or(FrameworkError::Full),
            None => self.create_probe(&mut tables, provider, names, aframes, parg),
        }
    }

    fn create_probe(
        &self,
        tables: &mut Tables,
        provider: ProviderId,
        [module, function, name]: [&CStr; 3],
        aframes: u32,
        parg: *mut c_void,
    ) -> Result<ProbeId, FrameworkError> {
        let shared = self.shared().map_err(|_| FrameworkError::NotReady)?;
        let provider = tables.find_provider(provider).ok_or(FrameworkError::NotFound)?;
        let names = Names::new([module, function, name].map(CStr::to_bytes))
            .ok_or(FrameworkError::Invalid)?;
        let at = tables.add_probe(provider, names, Opaque(parg)).ok_or(FrameworkError::Full)?;
        let (probe, provider) = tables.probe(at).ok_or(FrameworkError::NotFound)?;
        let names = (provider.name, probe.names);
        let origin = Origin::new(&provider.ops, provider.arg.0, parg, aframes, Some(names));
        // SAFETY: the entry was free: a new one, or one that `destroy_probes` freed after it waited.
        unsafe { shared.probes[at].publish(origin) };
        self.match_created(tables, at);
        ProbeId::new(number(at)).ok_or(FrameworkError::Full)
    }

    /// Whether anybody has the framework open (`dtrace_opens`).
    pub(crate) fn has_consumers(&self) -> bool {
        self.shared().is_ok_and(|shared| shared.consumers.iter().any(Consumer::is_open))
    }

    /// Invalidates a provider (`dtrace_invalidate`): no description means its probes any more, so nobody
    /// can enable them, and it is not asked to provide any. Consumers that had enabled them keep their
    /// enablings until they close, and its ops are called until it is [unregistered](Self::unregister).
    /// Does nothing when there is no such provider.
    ///
    /// # Errors
    /// [`ProbeContext`].
    pub fn invalidate(&self, provider: ProviderId) -> Result<(), ProbeContext> {
        self.need_thread()?;
        let _registration = self.registration.lock();
        let mut tables = self.tables.lock();
        let index = tables.find_provider(provider);
        if let Some(found) = index.and_then(|index| tables.provider_mut(index)) {
            found.defunct = true;
        }
        Ok(())
    }

    /// Destroys those probes of a provider that nobody has enabled (`dtrace_condense`) and returns how
    /// many there were.
    ///
    /// # Errors
    /// [`FrameworkError::NotFound`] when there is no such provider; [`FrameworkError::ProbeContext`].
    pub fn condense(&self, provider: ProviderId) -> Result<usize, FrameworkError> {
        self.need_thread()?;
        let _registration = self.registration.lock();
        let mut tables = self.tables.lock();
        let index = tables.find_provider(provider).ok_or(FrameworkError::NotFound)?;
        Ok(self.destroy_of_provider(&mut tables, index))
    }

    /// The pointer that a probe was created with, if it is the provider's (`dtrace_probe_arg`). None in
    /// [probe context](ProbeContext).
    pub fn probe_arg(&self, provider: ProviderId, id: ProbeId) -> Option<*mut c_void> {
        self.need_thread().ok()?;
        let tables = self.tables.lock();
        let provider = tables.find_provider(provider)?;
        let (probe, _) = tables.probe(index(id))?;
        (probe.provider == provider).then_some(probe.parg.0)
    }

    /// A module was loaded: every provider with a `provide_module` op is told
    /// (`dtrace_module_loaded`).
    ///
    /// # Safety
    /// `module` is what the registered providers expect there (FreeBSD's `linker_file_t`).
    ///
    /// # Errors
    /// [`ProbeContext`].
    pub unsafe fn module_loaded(&self, module: *mut c_void) -> Result<(), ProbeContext> {
        self.for_each_provider(|ops, arg| {
            if let Some(provide_module) = ops.provide_module {
                // SAFETY: the op was declared sound at registration; the caller vouches for the pointer.
                unsafe { provide_module(arg, module) };
            }
        })
    }

    /// A module is about to be unloaded: destroys all probes, of any provider, that have its name in
    /// their module field (`dtrace_module_unloaded` on FreeBSD, where the name is that of the file
    /// without `.ko`). Returns how many there were.
    ///
    /// # Errors
    /// [`FrameworkError::Busy`] when one of them is enabled; [`FrameworkError::ProbeContext`]. Nothing was changed.
    pub fn destroy_module(&self, module: &CStr) -> Result<usize, FrameworkError> {
        self.need_thread()?;
        let _registration = self.registration.lock();
        let mut tables = self.tables.lock();
        let used = tables.probes_used();
        // The next one of the module from an index on, and whether it is enabled.
        let next = |tables: &Tables, from: usize| {
            (from..used).find_map(|at| {
                let (probe, _) = tables.probe(at)?;
                (probe.names.module == *module.to_bytes()).then_some((at, probe.ecbs > 0))
            })
        };
        let mut found = next(&tables, 0);
        while let Some((at, is_enabled)) = found {
            if is_enabled {
                return Err(FrameworkError::Busy);
            }
            found = next(&tables, at + 1);
        }
        Ok(self.destroy_probes(&mut tables, |tables, after| {
            next(tables, after.map_or(0, |at| at + 1)).map(|(at, _)| at)
        }))
    }

    /// Has all providers create what they have for a description, before probes are matched with it
    /// (`dtrace_probe_provide`).
    pub(crate) fn provide(&self, desc: &ProbeDesc) -> Result<(), ProbeContext> {
        self.for_each_provider(|ops, arg| {
            if let Some(provide) = ops.provide {
                // SAFETY: the op was declared sound at registration.
                unsafe { provide(arg, desc) };
            }
        })
    }

    /// Calls `f` for every provider whose ops may be called, without the framework's lock.
    fn for_each_provider(&self, f: impl Fn(&ProviderOps, *mut c_void)) -> Result<(), ProbeContext> {
        self.need_thread()?;
        let _registration = self.registration.lock();
        let max = self.tables.lock().max_providers();
        for index in 0..max {
            let found = {
                let tables = self.tables.lock();
                tables
                    .provider(index)
                    .filter(|provider| !provider.defunct)
                    .map(|provider| (provider.ops, provider.arg))
            };
            if let Some((ops, arg)) = found {
                self.providing(|| f(&ops, arg.0))?;
            }
        }
        Ok(())
    }

    /// Destroys those probes of a provider, by index, that nobody has enabled; returns how many there were.
    fn destroy_of_provider(&self, tables: &mut Tables, index: usize) -> usize {
        self.destroy_probes(tables, |tables, after| {
            let mut at = match after {
                Some(at) => tables.next_of_provider(at),
                None => tables.first_of(index),
            };
            while let Some(enabled) = at {
                if tables.probe(enabled)?.0.ecbs == 0 {
                    break;
                }
                at = tables.next_of_provider(enabled);
            }
            at
        })
    }

    /// Destroys a probe unless a consumer has enabled it; returns whether it was destroyed.
    pub(crate) fn destroy_unless_enabled(&self, id: ProbeId) -> bool {
        let mut tables = self.tables.lock();
        let at = index(id);
        let destroyed = self.destroy_probes(&mut tables, |tables, after| {
            let is_enabled = tables.probe(at)?.0.ecbs > 0;
            (after.is_none() && !is_enabled).then_some(at)
        });
        destroyed > 0
    }

    /// Destroys the probes that `next` leads to, none of which is enabled, each from the one before: they stop
    /// being probes, every CPU leaves probe context, the providers are told, the entries are free. Returns
    /// how many there were.
    fn destroy_probes(
        &self,
        tables: &mut Tables,
        next: impl Fn(&Tables, Option<usize>) -> Option<usize>,
    ) -> usize {
        let mut count = 0;
        let mut at = next(tables, None);
        while let Some(index) = at {
            if let Ok(shared) = self.shared() {
                shared.probes[index].retract();
            }
            count += 1;
            at = next(tables, at);
        }
        if count == 0 {
            return 0;
        }
        self.host.sync();
        let mut at = next(tables, None);
        while let Some(index) = at {
            at = next(tables, at);
            if let Some((probe, provider)) = tables.probe(index)
                && let Some(destroy) = provider.ops.destroy
            {
                // SAFETY: the op was declared sound at registration, and no CPU uses the id any more.
                unsafe { destroy(provider.arg.0, number(index), probe.parg.0) };
            }
            tables.remove_probe(index);
        }
        count
    }
}
