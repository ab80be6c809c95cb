//! Registers providers and their probes, with the locks and enablings of the framework: `dtrace_register(9)` and its
//! family.

use core::ffi::{CStr, c_void};

use dtrace_abi::name::Name;
use dtrace_abi::spec::Spec;
use sdt_core::ops::{
    ArgDesc, FrameworkError, Privileges, ProbeDesc, ProbeId, ProviderAttr, ProviderId, ProviderOps,
};

use crate::base::host::Host;
use crate::base::rights::Rights;
use crate::control::Control;
use crate::control::matching::BATCH;
use crate::control::tables::Tables;
use crate::registry::listing::{Detail, ProbeInfo};
use crate::registry::registration;
use crate::registry::tables::{index, number};
use crate::run::consumer::Consumer;

impl<H: Host> Control<H> {
    /// [`Framework::register`](sdt_core::ops::Framework::register).
    ///
    /// # Safety
    /// The contract of `Framework::register`.
    pub(crate) unsafe fn register(
        &self,
        name: &CStr,
        attr: &ProviderAttr,
        privileges: Privileges,
        ops: &ProviderOps,
        arg: *mut c_void,
    ) -> Result<ProviderId, FrameworkError> {
        registration::check(name, privileges, ops)?;
        let name = Name::new(name.to_bytes()).ok_or(FrameworkError::Invalid)?;
        let _registration = self.registration.lock();
        let id = {
            let mut tables = self.tables.lock();
            if tables.registry.max_providers() == 0 {
                return Err(FrameworkError::NotReady);
            }
            let id = tables.registry.register(name, *attr, privileges, *ops, arg);
            id.ok_or(FrameworkError::Full)?
        };
        if let Some(provide) = ops.provide {
            // SAFETY: the contract of this function allows calling the op. The framework's lock is not held, because
            // the op may create probes.
            self.providing(|| unsafe { provide(arg, core::ptr::null()) });
        }
        Ok(id)
    }

    /// [`Dtrace::providing`](crate::Dtrace::providing).
    pub(crate) fn providing<R>(&self, f: impl FnOnce() -> R) -> R {
        self.tables.lock().providing += 1;
        let result = f();
        self.tables.lock().providing -= 1;
        loop {
            let mut tables = self.tables.lock();
            if tables.providing > 0 {
                // Another thread is still providing probes, and matches all new probes at its end.
                return result;
            }
            let Some(from) = tables.fresh.take() else { return result };
            let used = tables.registry.probes_used();
            let to = used.min(from + BATCH);
            for at in from..to {
                self.match_created(&mut tables, at);
            }
            if to < used {
                tables.fresh = Some(to);
            }
        }
    }

    /// [`Dtrace::unregister`](crate::Dtrace::unregister).
    pub(crate) fn unregister(&self, provider: ProviderId) -> Result<(), FrameworkError> {
        let _registration = self.registration.lock();
        let mut tables = self.tables.lock();
        // `dtrace_opens`.
        let is_open = self.consumers().iter().any(Consumer::is_open);
        let Tables { registry, arena, .. } = &mut *tables;
        registry.unregister(arena, provider, is_open, || self.hits.host.sync())
    }

    /// [`Dtrace::probe_lookup`](crate::Dtrace::probe_lookup).
    pub(crate) fn probe_lookup(
        &self,
        provider: ProviderId,
        module: &CStr,
        function: &CStr,
        name: &CStr,
    ) -> Option<ProbeId> {
        let tables = self.tables.lock();
        ProbeId::new(number(tables.registry.lookup(provider, [module, function, name])?))
    }

    /// [`Framework::probe_create`](sdt_core::ops::Framework::probe_create), for ops that take any `parg`.
    pub(crate) fn probe_create(
        &self,
        provider: ProviderId,
        names: [&CStr; 3],
        aframes: u32,
        parg: *mut c_void,
    ) -> Result<ProbeId, FrameworkError> {
        self.create(&mut self.tables.lock(), provider, names, aframes, parg)
    }

    fn create(
        &self,
        tables: &mut Tables,
        provider: ProviderId,
        names: [&CStr; 3],
        aframes: u32,
        parg: *mut c_void,
    ) -> Result<ProbeId, FrameworkError> {
        let at = tables.registry.create(&mut tables.arena, provider, names, aframes, parg)?;
        self.match_created(tables, at);
        ProbeId::new(number(at)).ok_or(FrameworkError::Full)
    }

    /// Returns the provider's probe with these names. Creates it if it does not exist.
    pub(super) fn find_or_create(
        &self,
        provider: ProviderId,
        names: [&CStr; 3],
        aframes: u32,
        parg: *mut c_void,
    ) -> Result<ProbeId, FrameworkError> {
        let mut tables = self.tables.lock();
        match tables.registry.lookup(provider, names) {
            Some(at) => ProbeId::new(number(at)).ok_or(FrameworkError::Full),
            None => self.create(&mut tables, provider, names, aframes, parg),
        }
    }

    /// [`Dtrace::invalidate`](crate::Dtrace::invalidate).
    pub(crate) fn invalidate(&self, provider: ProviderId) {
        let _registration = self.registration.lock();
        self.tables.lock().registry.invalidate(provider);
    }

    /// [`Dtrace::condense`](crate::Dtrace::condense).
    pub(crate) fn condense(&self, provider: ProviderId) -> Result<usize, FrameworkError> {
        let _registration = self.registration.lock();
        let mut tables = self.tables.lock();
        let Tables { registry, arena, .. } = &mut *tables;
        let at = registry.find_provider(provider).ok_or(FrameworkError::NotFound)?;
        Ok(registry.destroy_of_provider(arena, at, || self.hits.host.sync()))
    }

    /// [`Dtrace::probe_arg`](crate::Dtrace::probe_arg).
    pub(crate) fn probe_arg(&self, provider: ProviderId, id: ProbeId) -> Option<*mut c_void> {
        let tables = self.tables.lock();
        let provider = tables.registry.find_provider(provider)?;
        let (probe, _) = tables.registry.probe(index(id))?;
        (probe.provider == provider).then_some(probe.parg)
    }

    /// [`Dtrace::module_loaded`](crate::Dtrace::module_loaded).
    ///
    /// # Safety
    /// The contract of `Dtrace::module_loaded`.
    pub(crate) unsafe fn module_loaded(&self, module: *mut c_void) {
        self.for_each_provider(|ops, arg| {
            if let Some(provide_module) = ops.provide_module {
                // SAFETY: the contract of `register` allows calling the op with this `arg`; the contract of this
                // function covers `module`.
                unsafe { provide_module(arg, module) };
            }
        });
    }

    /// [`Dtrace::destroy_module`](crate::Dtrace::destroy_module).
    pub(crate) fn destroy_module(&self, module: &CStr) -> Result<usize, FrameworkError> {
        let _registration = self.registration.lock();
        let Tables { registry, arena, .. } = &mut *self.tables.lock();
        registry.destroy_module(arena, module, || self.hits.host.sync())
    }

    /// Destroys a probe unless a consumer has enabled it; returns whether it was destroyed.
    pub(super) fn destroy_unless_enabled(&self, id: ProbeId) -> bool {
        let Tables { registry, arena, .. } = &mut *self.tables.lock();
        registry.destroy_unless_enabled(arena, id, || self.hits.host.sync())
    }

    /// Calls the op `provide` of all providers, so that they create the probes for a description before it is matched
    /// (`dtrace_probe_provide`).
    pub(super) fn provide(&self, desc: &ProbeDesc) {
        self.for_each_provider(|ops, arg| {
            if let Some(provide) = ops.provide {
                // SAFETY: the contract of `register` allows calling the op with this `arg` until the provider is
                // unregistered.
                unsafe { provide(arg, desc) };
            }
        });
    }

    /// Calls `f` for every provider whose ops may be called, without the framework's lock.
    fn for_each_provider(&self, f: impl Fn(&ProviderOps, *mut c_void)) {
        let _registration = self.registration.lock();
        let max = self.tables.lock().registry.max_providers();
        for index in 0..max {
            let found = self.tables.lock().registry.ops(index);
            if let Some((ops, arg)) = found {
                self.providing(|| f(&ops, arg));
            }
        }
    }

    /// [`Dtrace::for_each_probe`](crate::Dtrace::for_each_probe).
    pub(crate) fn for_each_probe(&self, spec: &Spec, mut f: impl FnMut(&ProbeInfo)) -> u32 {
        let (mut count, mut after) = (0, 0);
        while let Some(info) = self.next_probe(spec, after, None) {
            f(&info);
            (count, after) = (count + 1, info.id().get());
        }
        count
    }

    /// Returns the probe with the lowest id above `after` that matches the description and that consumers with these
    /// rights may use (`DTRACEIOC_PROBEMATCH`). If `after` is 0, first lets the providers create probes for the
    /// description.
    pub(crate) fn next_probe(
        &self,
        spec: &Spec,
        after: u32,
        rights: Option<Rights>,
    ) -> Option<ProbeInfo> {
        if after == 0 {
            self.provide(&spec.desc());
        }
        // The index of a probe is its id minus 1, so the search begins at the probe after `after`.
        let mut from = after as usize;
        loop {
            let (found, to) = {
                let tables = self.tables.lock();
                let registry = &tables.registry;
                let used = registry.probes_used();
                if from >= used {
                    return None;
                }
                let to = used.min(from + BATCH);
                let permits = |at| rights.is_none_or(|rights| registry.permits(at, rights));
                let found = (from..to).find(|&at| registry.matches(at, spec) && permits(at));
                // Reads the names before the lock is released, because another probe may get this index afterwards.
                (found.and_then(|at| registry.info(at)), to)
            };
            if found.is_some() {
                return found;
            }
            from = to;
        }
    }

    /// [`Dtrace::describe`](crate::Dtrace::describe).
    pub(crate) fn describe(&self, id: ProbeId) -> Option<Detail> {
        self.tables.lock().registry.describe(index(id))
    }

    /// Returns the type of an argument of a probe, counted from 0, from the provider's `getargdesc`. Returns `None`
    /// after the last argument, if the provider has no such op, or if consumers with these rights may not use the
    /// probe.
    pub(crate) fn arg_desc(&self, id: ProbeId, ndx: i32, rights: Rights) -> Option<ArgDesc> {
        let tables = self.tables.lock();
        let registry = &tables.registry;
        registry.permits(index(id), rights).then(|| registry.arg_desc(id, ndx))?
    }
}
