//! What the framework knows of providers and probes, apart from what probe context reads. All of it is
//! behind the framework's lock.

use core::ffi::{CStr, c_void};

use sdt_core::ops::{
    Attribute, Class, FUNCTION_NAME_LEN, MODULE_NAME_LEN, PROBE_NAME_LEN, PROVIDER_NAME_LEN,
    Privileges, ProviderAttr, ProviderId, ProviderOps, Stability,
};

use crate::name::Name;
use crate::spec::Spec;

/// A pointer of the provider's, which the framework hands back and never follows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opaque(pub(crate) *mut c_void);

impl Opaque {
    pub(crate) const NULL: Self = Self(core::ptr::null_mut());
}

// SAFETY: it is never dereferenced here; whoever registered it declared its ops fit to be called with
// it in the contexts stated for them, that is from any thread.
unsafe impl Send for Opaque {}

#[derive(Debug)]
pub(crate) struct Provider {
    /// Which registration this is, from 1 and never used twice; 0 when the entry is free.
    pub(crate) serial: usize,
    pub(crate) name: Name<PROVIDER_NAME_LEN>,
    pub(crate) attr: ProviderAttr,
    pub(crate) privileges: Privileges,
    pub(crate) ops: ProviderOps,
    pub(crate) arg: Opaque,
    /// Invalidated: its ops are not called any more and its probes match nothing.
    pub(crate) defunct: bool,
}

impl Provider {
    pub(crate) const FREE: Self = {
        let nothing = Attribute::new(Stability::Internal, Stability::Internal, Class::Unknown);
        Self {
            serial: 0,
            name: Name::EMPTY,
            attr: ProviderAttr {
                provider: nothing,
                module: nothing,
                function: nothing,
                name: nothing,
                args: nothing,
            },
            privileges: Privileges::empty(),
            ops: ProviderOps {
                provide: None,
                provide_module: None,
                enable: None,
                disable: None,
                suspend: None,
                resume: None,
                getargdesc: None,
                getargval: None,
                usermode: None,
                destroy: None,
            },
            arg: Opaque::NULL,
            defunct: false,
        }
    };

    /// The ops, unless they are not to be called any more.
    pub(crate) fn live_ops(&self) -> Option<&ProviderOps> {
        (self.serial != 0 && !self.defunct).then_some(&self.ops)
    }
}

#[derive(Debug)]
pub(crate) struct Probe {
    pub(crate) used: bool,
    /// Index of its provider.
    pub(crate) provider: usize,
    /// How many ECBs are on its chain.
    pub(crate) ecbs: usize,
    pub(crate) module: Name<MODULE_NAME_LEN>,
    pub(crate) function: Name<FUNCTION_NAME_LEN>,
    pub(crate) name: Name<PROBE_NAME_LEN>,
    pub(crate) parg: Opaque,
}

impl Probe {
    pub(crate) const FREE: Self = Self {
        used: false,
        provider: 0,
        ecbs: 0,
        module: Name::EMPTY,
        function: Name::EMPTY,
        name: Name::EMPTY,
        parg: Opaque::NULL,
    };
}

/// Which ECBs are free, which in use, and which unlinked but perhaps still being looked at.
#[derive(Debug)]
pub(crate) struct EcbPool<const ECBS: usize> {
    /// From each ECB that is free or retired to the next one: its index and one, 0 at the end.
    links: [usize; ECBS],
    free: usize,
    retired: usize,
    /// From this index on no ECB has ever been used.
    fresh: usize,
    /// How many are in use or retired.
    taken: usize,
}

impl<const ECBS: usize> EcbPool<ECBS> {
    const fn new() -> Self {
        Self { links: [0; ECBS], free: 0, retired: 0, fresh: 0, taken: 0 }
    }

    pub(crate) fn available(&self) -> usize {
        ECBS - self.taken
    }

    /// The index of an ECB that nobody looks at.
    pub(crate) fn take(&mut self) -> Option<usize> {
        let index = match self.free.checked_sub(1) {
            Some(index) => {
                self.free = self.links[index];
                index
            }
            None if self.fresh < ECBS => {
                self.fresh += 1;
                self.fresh - 1
            }
            None => return None,
        };
        self.taken += 1;
        Some(index)
    }

    /// An ECB has been unlinked.
    pub(crate) fn retire(&mut self, index: usize) {
        self.links[index] = self.retired;
        self.retired = index + 1;
    }

    pub(crate) fn has_retired(&self) -> bool {
        self.retired != 0
    }

    /// Since the last `retire` every CPU has been outside probe context.
    pub(crate) fn reclaim(&mut self) {
        while let Some(index) = self.retired.checked_sub(1) {
            self.retired = self.links[index];
            self.links[index] = self.free;
            self.free = index + 1;
            self.taken -= 1;
        }
    }
}

#[derive(Debug)]
pub(crate) struct Tables<const PROBES: usize, const ECBS: usize, const PROVIDERS: usize> {
    pub(crate) providers: [Provider; PROVIDERS],
    pub(crate) probes: [Probe; PROBES],
    pub(crate) ecbs: EcbPool<ECBS>,
    /// Providers ever registered.
    registered: usize,
    /// Where the search for a free probe starts: an id is used again as late as possible, so that one
    /// that was destroyed is told apart from its successor.
    next_probe: usize,
    /// The number last given to a consumer.
    pub(crate) last_consumer: u32,
}

impl<const PROBES: usize, const ECBS: usize, const PROVIDERS: usize>
    Tables<PROBES, ECBS, PROVIDERS>
{
    /// Empty tables; all zeros.
    pub(crate) const fn new() -> Self {
        Self {
            providers: [const { Provider::FREE }; PROVIDERS],
            probes: [const { Probe::FREE }; PROBES],
            ecbs: EcbPool::new(),
            registered: 0,
            next_probe: 0,
            last_consumer: 0,
        }
    }

    pub(crate) fn add_provider(&mut self, provider: Provider) -> Option<ProviderId> {
        let entry = self.providers.iter_mut().find(|entry| entry.serial == 0)?;
        self.registered += 1;
        *entry = Provider { serial: self.registered, ..provider };
        Some(ProviderId(self.registered))
    }

    /// The index of a registered provider.
    pub(crate) fn provider(&self, id: ProviderId) -> Option<usize> {
        self.providers.iter().position(|provider| provider.serial == id.0 && id.0 != 0)
    }

    /// Puts a probe into the table and returns its index.
    pub(crate) fn add_probe(&mut self, probe: Probe) -> Option<usize> {
        let index = (self.next_probe..PROBES)
            .chain(0..self.next_probe)
            .find(|&index| !self.probes[index].used)?;
        self.probes[index] = probe;
        self.next_probe = index + 1;
        Some(index)
    }

    /// The index of the first probe of the provider with exactly these names.
    pub(crate) fn find_probe(
        &self,
        provider: usize,
        module: &CStr,
        function: &CStr,
        name: &CStr,
    ) -> Option<usize> {
        self.probes.iter().position(|probe| {
            probe.used
                && probe.provider == provider
                && probe.name.as_bytes() == name.to_bytes()
                && probe.function.as_bytes() == function.to_bytes()
                && probe.module.as_bytes() == module.to_bytes()
        })
    }

    /// Whether a description means this probe. Those of an invalidated provider are never meant.
    pub(crate) fn matches(&self, index: usize, spec: &Spec) -> bool {
        let probe = &self.probes[index];
        probe.used && {
            let provider = &self.providers[probe.provider];
            !provider.defunct
                && spec.matches(&provider.name, &probe.module, &probe.function, &probe.name)
        }
    }
}
