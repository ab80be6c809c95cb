//! Providers and their probes: `dtrace_register(9)` and its family.

use core::ffi::{CStr, c_void};

use sdt_core::ops::{
    Framework, FrameworkError, Privileges, ProbeDesc, ProbeId, ProviderAttr, ProviderId,
    ProviderOps,
};

use crate::dtrace::{Dtrace, Status};
use crate::fire::Brought;
use crate::host::Host;
use crate::name::Name;
use crate::origin::Origin;
use crate::registration;
use crate::tables::{Opaque, Probe, Provider, Tables};

/// The number of the probe at an index of the table.
pub(crate) fn number(index: usize) -> u32 {
    index as u32 + 1
}

/// The index in the table of a probe with this number.
pub(crate) fn index(id: ProbeId) -> usize {
    id.get() as usize - 1
}

impl<
    H: Host,
    const CPUS: usize,
    const RECORDS: usize,
    const CONSUMERS: usize,
    const PROBES: usize,
    const ECBS: usize,
    const PROVIDERS: usize,
> Framework for Dtrace<H, CPUS, RECORDS, CONSUMERS, PROBES, ECBS, PROVIDERS>
{
    /// Registers the provider and has it provide all its probes. Several providers may have one name,
    /// as on FreeBSD. The rules are in [`registration`]; [`registration::check`] tells which one was
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
        let name = Name::new(name.to_bytes()).ok_or(FrameworkError::Invalid)?;
        let provider = Provider {
            serial: 0,
            name,
            attr: *attr,
            privileges,
            ops: *ops,
            arg: Opaque(arg),
            defunct: false,
        };
        let _registration = self.registration.lock();
        let id = self.tables.lock().add_provider(provider).ok_or(FrameworkError::Full)?;
        if let Some(provide) = ops.provide {
            // SAFETY: the caller vouches for the op. The framework's lock is not held: it may create
            // probes.
            unsafe { provide(arg, core::ptr::null()) };
        }
        Ok(id)
    }

    /// Unregisters the provider: its probes are gone, no CPU is in probe context for any of them, and
    /// `destroy` has been called for each.
    ///
    /// As on FreeBSD it is [`Busy`](FrameworkError::Busy) while any consumer is open, whether it enabled
    /// a probe of this provider or not. A provider that was [invalidated](Dtrace::invalidate) can go
    /// whoever is there, once its enablings are gone ([`Again`](FrameworkError::Again) until then), and
    /// its `destroy` is not called.
    fn unregister(&self, provider: ProviderId) -> Result<(), FrameworkError> {
        let _registration = self.registration.lock();
        let mut tables = self.tables.lock();
        let index = tables.provider(provider).ok_or(FrameworkError::NotFound)?;
        let enabled = tables.probes.iter().any(|p| p.used && p.provider == index && p.ecbs > 0);
        match tables.providers[index].defunct {
            true if enabled => return Err(FrameworkError::Again),
            false if enabled || self.has_consumers() => return Err(FrameworkError::Busy),
            _ => {}
        }
        self.destroy_probes(&mut tables, |probe| probe.provider == index);
        tables.providers[index] = Provider::FREE;
        Ok(())
    }

    /// The id of the provider's probe with exactly these names. None of an invalidated provider's.
    fn probe_lookup(
        &self,
        provider: ProviderId,
        module: &CStr,
        function: &CStr,
        name: &CStr,
    ) -> Option<ProbeId> {
        let tables = self.tables.lock();
        let provider = tables.provider(provider)?;
        if tables.providers[provider].defunct {
            return None;
        }
        let index = tables.find_probe(provider, module, function, name)?;
        ProbeId::new(number(index))
    }

    /// Creates a probe. Ids count up from 1 and are used again as late as possible. Two probes may have
    /// the same four names, as in the kernels: look up first.
    ///
    /// # Errors
    /// As in the trait, and [`FrameworkError::Invalid`] for a name that is too long, where the kernels
    /// take it and cut it off in listings.
    fn probe_create(
        &self,
        provider: ProviderId,
        module: &CStr,
        function: &CStr,
        name: &CStr,
        aframes: u32,
        parg: *mut c_void,
    ) -> Result<ProbeId, FrameworkError> {
        let mut tables = self.tables.lock();
        let provider = tables.provider(provider).ok_or(FrameworkError::NotFound)?;
        let probe = Probe {
            used: true,
            provider,
            ecbs: 0,
            module: Name::new(module.to_bytes()).ok_or(FrameworkError::Invalid)?,
            function: Name::new(function.to_bytes()).ok_or(FrameworkError::Invalid)?,
            name: Name::new(name.to_bytes()).ok_or(FrameworkError::Invalid)?,
            parg: Opaque(parg),
        };
        let index = tables.add_probe(probe).ok_or(FrameworkError::Full)?;
        let Provider { ops, arg, defunct, .. } = &tables.providers[provider];
        let origin = Origin::new(ops, arg.0, parg, aframes);
        let site = &self.sites[index];
        // SAFETY: the entry was free: a new one, or one that `destroy_probes` freed after it waited.
        unsafe { site.publish(origin) };
        if *defunct {
            site.demote(Status::Defunct);
        }
        ProbeId::new(number(index)).ok_or(FrameworkError::Full)
    }

    fn probe(&self, id: ProbeId, args: &[u64; 6]) {
        self.fire(id.get(), Brought::All(args));
    }
}

impl<
    H: Host,
    const CPUS: usize,
    const RECORDS: usize,
    const CONSUMERS: usize,
    const PROBES: usize,
    const ECBS: usize,
    const PROVIDERS: usize,
> Dtrace<H, CPUS, RECORDS, CONSUMERS, PROBES, ECBS, PROVIDERS>
{
    /// Whether anybody has the framework open (`dtrace_opens`).
    pub(crate) fn has_consumers(&self) -> bool {
        self.consumers.iter().any(|consumer| consumer.is_open())
    }

    /// The provider is going away on its own (`dtrace_invalidate`): its ops are not called any more
    /// (but for the arguments of hits that are being recorded just then), its probes are neither found
    /// nor matched, and it can be unregistered while consumers are open. Those who enabled its probes
    /// keep their enablings until they close. Does nothing when there is no such provider.
    pub fn invalidate(&self, provider: ProviderId) {
        let _registration = self.registration.lock();
        let mut tables = self.tables.lock();
        let Some(index) = tables.provider(provider) else { return };
        tables.providers[index].defunct = true;
        for (probe, site) in tables.probes.iter().zip(&self.sites) {
            if probe.used && probe.provider == index {
                site.demote(Status::Defunct);
            }
        }
    }

    /// Destroys those probes of a provider that nobody has enabled (`dtrace_condense`) and returns how
    /// many there were.
    ///
    /// # Errors
    /// [`FrameworkError::NotFound`] when there is no such provider.
    pub fn condense(&self, provider: ProviderId) -> Result<usize, FrameworkError> {
        let _registration = self.registration.lock();
        let mut tables = self.tables.lock();
        let index = tables.provider(provider).ok_or(FrameworkError::NotFound)?;
        Ok(self.destroy_probes(&mut tables, |probe| probe.provider == index && probe.ecbs == 0))
    }

    /// The pointer that a probe was created with, if it is the provider's (`dtrace_probe_arg`).
    pub fn probe_arg(&self, provider: ProviderId, id: ProbeId) -> Option<*mut c_void> {
        let tables = self.tables.lock();
        let provider = tables.provider(provider)?;
        let probe = tables.probes.get(index(id))?;
        (probe.used && probe.provider == provider).then_some(probe.parg.0)
    }

    /// A module was loaded: every provider with a `provide_module` op is told
    /// (`dtrace_module_loaded`).
    ///
    /// # Safety
    /// `module` is what the registered providers expect there (FreeBSD's `linker_file_t`).
    pub unsafe fn module_loaded(&self, module: *mut c_void) {
        self.for_each_provider(|ops, arg| {
            if let Some(provide_module) = ops.provide_module {
                // SAFETY: the op was declared sound at registration; the caller vouches for the pointer.
                unsafe { provide_module(arg, module) };
            }
        });
    }

    /// A module is about to be unloaded: destroys all probes, of any provider, that have its name in
    /// their module field (`dtrace_module_unloaded` on FreeBSD, where the name is that of the file
    /// without `.ko`). Returns how many there were.
    ///
    /// # Errors
    /// [`FrameworkError::Busy`] when one of them is enabled; nothing was changed.
    pub fn destroy_module(&self, module: &CStr) -> Result<usize, FrameworkError> {
        let _registration = self.registration.lock();
        let mut tables = self.tables.lock();
        let of_module = |probe: &Probe| probe.module.as_bytes() == module.to_bytes();
        if tables.probes.iter().any(|probe| probe.used && probe.ecbs > 0 && of_module(probe)) {
            return Err(FrameworkError::Busy);
        }
        Ok(self.destroy_probes(&mut tables, of_module))
    }

    /// Has all providers create what they have for a description, before probes are matched with it
    /// (`dtrace_probe_provide`).
    pub(crate) fn provide(&self, desc: &ProbeDesc) {
        self.for_each_provider(|ops, arg| {
            if let Some(provide) = ops.provide {
                // SAFETY: the op was declared sound at registration.
                unsafe { provide(arg, desc) };
            }
        });
    }

    /// Calls `f` for every provider whose ops may be called, without the framework's lock.
    fn for_each_provider(&self, f: impl Fn(&ProviderOps, *mut c_void)) {
        let _registration = self.registration.lock();
        for index in 0..PROVIDERS {
            let found = {
                let tables = self.tables.lock();
                let provider = &tables.providers[index];
                provider.live_ops().map(|ops| (*ops, provider.arg))
            };
            if let Some((ops, arg)) = found {
                f(&ops, arg.0);
            }
        }
    }

    /// Takes away the probes that `which` holds for, none of which is enabled: they stop being probes,
    /// every CPU leaves probe context, the providers are told, the entries are free.
    fn destroy_probes(
        &self,
        tables: &mut Tables<PROBES, ECBS, PROVIDERS>,
        which: impl Fn(&Probe) -> bool,
    ) -> usize {
        let mut count = 0;
        for (probe, site) in tables.probes.iter().zip(&self.sites) {
            if probe.used && which(probe) {
                site.demote(Status::Free);
                count += 1;
            }
        }
        if count == 0 {
            return 0;
        }
        self.host.sync();
        for at in 0..PROBES {
            let probe = &tables.probes[at];
            if !probe.used || !which(probe) {
                continue;
            }
            let provider = &tables.providers[probe.provider];
            if let Some(destroy) = provider.live_ops().and_then(|ops| ops.destroy) {
                // SAFETY: the op was declared sound at registration, and no CPU uses the id any more.
                unsafe { destroy(provider.arg.0, number(at), probe.parg.0) };
            }
            tables.probes[at] = Probe::FREE;
        }
        count
    }
}
