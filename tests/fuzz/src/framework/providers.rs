//! Providers register, create probes, and unregister.

use sdt_core::ops::{Framework as _, FrameworkError, Privileges, ProviderAttr, ProviderId};
use sdt_framework::ConsumerId;

use super::host::{Call, OPS};
use super::steps::Name;
use super::{ECBS, Model, PROBES, PROVIDERS, Probe, Provider};

impl Model<'_> {
    pub(super) fn register(&mut self, name: Name) {
        let arg = std::ptr::from_ref(self.session).cast_mut().cast();
        let (attr, privileges) = (&ProviderAttr::SDT, Privileges::USER);
        // SAFETY: the session lives as long as the framework.
        let result = unsafe { self.dtrace.register(&name.c(), attr, privileges, &OPS, arg) };
        if self.providers.len() == PROVIDERS {
            assert_eq!(result, Err(FrameworkError::Full));
            return;
        }
        let id = result.expect("there is room");
        assert!(self.known(id).is_none());
        self.providers.push(Provider { id, name, defunct: false });
    }

    pub(super) fn unregister(&mut self, id: ProviderId) {
        let enabled =
            self.probes.values().any(|probe| probe.provider == id && !probe.enabled.is_empty());
        let expected = match self.known(id).map(|provider| provider.defunct) {
            None => Err(FrameworkError::NotFound),
            Some(true) if enabled => Err(FrameworkError::Again),
            Some(false) if !self.consumers.is_empty() => Err(FrameworkError::Busy),
            Some(_) => Ok(()),
        };
        assert_eq!(self.dtrace.unregister(id), expected);
        if expected.is_ok() {
            self.destroy(|probe| probe.provider == id);
            self.providers.retain(|provider| provider.id != id);
        }
    }

    pub(super) fn create(&mut self, provider: ProviderId, module: Name, name: Name) {
        let (parg, names) = (std::ptr::null_mut(), (module.c(), name.c()));
        // SAFETY: the ops do not look at the pointer.
        let result =
            unsafe { self.dtrace.probe_create(provider, &names.0, c"none", &names.1, 3, parg) };
        if self.known(provider).is_none() {
            assert_eq!(result, Err(FrameworkError::NotFound));
        } else if self.probes.len() == PROBES {
            assert_eq!(result, Err(FrameworkError::Full));
        } else {
            let id = result.expect("there is room").get();
            let enabled = self.enabled_at_creation(provider, module, name);
            if !enabled.is_empty() {
                self.calls.push(Call::Enable(id));
            }
            let probe = Probe { provider, module, name, enabled };
            assert!(self.probes.insert(id, probe).is_none());
        }
    }

    /// Returns the consumers that enable a new probe, with their epids.
    fn enabled_at_creation(
        &mut self,
        id: ProviderId,
        module: Name,
        name: Name,
    ) -> Vec<(ConsumerId, u32)> {
        let provider = self.known(id).expect("it has been looked up");
        if provider.defunct {
            return Vec::new();
        }
        let names = [provider.name.text(), module.text(), "none", name.text()].map(str::as_bytes);
        let meant = self.retained.iter().rev().filter(|(_, spec)| spec.matches(names));
        let mut meant: Vec<_> = meant.map(|(consumer, _)| *consumer).collect();
        let taken: usize = self.probes.values().map(|probe| probe.enabled.len()).sum();
        let missed = meant.len().saturating_sub(ECBS - taken);
        meant.truncate(ECBS - taken);
        self.counters.missed += missed as u64;
        meant.into_iter().map(|consumer| (consumer, self.next_epid(consumer))).collect()
    }

    /// Destroys probes; returns how many.
    pub(super) fn destroy(&mut self, which: impl Fn(&Probe) -> bool) -> usize {
        let gone: Vec<_> =
            self.probes.iter().filter(|(_, probe)| which(probe)).map(|(&id, _)| id).collect();
        for id in &gone {
            self.calls.push(Call::Destroy(*id));
            self.probes.remove(id);
        }
        gone.len()
    }
}
