//! A provider's record.

use core::ffi::CStr;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::Probe;
use crate::ops::{Privileges, ProviderAttr, ProviderId};
use crate::route::group;

/// A provider, as `sdt_provider!` declares it.
#[derive(Debug)]
#[repr(C)]
pub struct Provider {
    version: u32,
    name: &'static CStr,
    attr: ProviderAttr,
    privileges: u32,
    /// The framework's id, while registered. On the primary: the first record of this name.
    id: AtomicUsize,
    /// This name's first record; null until the records have been linked.
    primary: AtomicPtr<Provider>,
    /// The primary of the first of its probes, in the order of the set. On the primary.
    probes: AtomicPtr<Probe>,
    /// While records are linked, the next one in order of name.
    link: AtomicPtr<Provider>,
}

impl Provider {
    /// A provider of this name with the stability FreeBSD gives every SDT provider, for those for whom the kernel's own
    /// SDT providers are.
    #[doc(hidden)]
    pub const fn new(name: &'static CStr) -> Self {
        Self {
            version: size_of::<Self>() as u32,
            name,
            attr: ProviderAttr::SDT,
            privileges: Privileges::SDT.bits(),
            id: AtomicUsize::new(0),
            primary: AtomicPtr::new(core::ptr::null_mut()),
            probes: AtomicPtr::new(core::ptr::null_mut()),
            link: AtomicPtr::new(core::ptr::null_mut()),
        }
    }

    /// This provider, with another stability.
    #[doc(hidden)]
    #[must_use]
    pub const fn with_stability(mut self, attr: ProviderAttr) -> Self {
        self.attr = attr;
        self
    }

    /// This provider, for those with other privileges.
    #[doc(hidden)]
    #[must_use]
    pub const fn with_privileges(mut self, privileges: Privileges) -> Self {
        self.privileges = privileges.bits();
        self
    }

    /// Its name, as DTrace lists it.
    pub const fn name(&self) -> &'static CStr {
        self.name
    }

    /// Stability of its probes.
    pub const fn attr(&self) -> &ProviderAttr {
        &self.attr
    }

    /// Who may use its probes.
    pub const fn privileges(&self) -> Privileges {
        Privileges::from_bits_truncate(self.privileges)
    }

    /// Its id in the framework, while it is registered.
    pub(crate) fn id(&self) -> Option<ProviderId> {
        match self.id.load(Ordering::Acquire) {
            0 => None,
            id => Some(ProviderId::new(id)),
        }
    }

    pub(crate) fn set_id(&self, id: Option<ProviderId>) {
        self.id.store(id.map_or(0, ProviderId::get), Ordering::Release);
    }

    /// The record that stands for all of its name.
    pub(crate) fn primary(&self) -> &Self {
        // SAFETY: null, or set by `set_primary` from a record in the set, a static.
        unsafe { self.primary.load(Ordering::Acquire).as_ref() }.unwrap_or(self)
    }

    pub(crate) fn set_primary(&self, primary: &'static Self) {
        self.primary.store(core::ptr::from_ref(primary).cast_mut(), Ordering::Release);
    }

    /// The primaries of its probes, in the order of the set. Of a primary.
    pub(crate) fn probes(&self) -> impl Iterator<Item = &'static Probe> {
        self.primaries().filter(|probe| !group::is_group(probe.name))
    }

    /// The primaries of the groups that mean a probe. Of a primary.
    pub(crate) fn groups_of(&self, probe: &Probe) -> impl Iterator<Item = &'static Probe> {
        self.primaries().filter(|of| group::is_group(of.name) && group::means(of.name, probe.name))
    }

    fn primaries(&self) -> impl Iterator<Item = &'static Probe> {
        // SAFETY: `probes` and every `next` are null or were set by `push_probe` from records in the set.
        core::iter::successors(
            unsafe { self.probes.load(Ordering::Acquire).as_ref() },
            |probe| unsafe { probe.next.load(Ordering::Acquire).as_ref() },
        )
    }

    /// Puts a primary at the front of the list of probes.
    pub(crate) fn push_probe(&self, probe: &'static Probe) {
        probe.next.store(self.probes.load(Ordering::Acquire), Ordering::Release);
        self.probes.store(core::ptr::from_ref(probe).cast_mut(), Ordering::Release);
    }

    /// Forgets what the records were tied to.
    pub(crate) fn clear_links(&self) {
        self.primary.store(core::ptr::null_mut(), Ordering::Release);
        self.probes.store(core::ptr::null_mut(), Ordering::Release);
    }

    pub(crate) const fn link(&self) -> &AtomicPtr<Self> {
        &self.link
    }

    /// Whether the record was made by this version of the crate.
    pub(crate) const fn is_current(&self) -> bool {
        self.version as usize == size_of::<Self>()
    }
}
