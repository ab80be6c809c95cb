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
    /// The framework's id while registered. Valid in the primary, the first record of this name.
    id: AtomicUsize,
    /// This name's first record; null until the records have been linked.
    primary: AtomicPtr<Provider>,
    /// The primary of its first probe, in the order of the set. Valid in the primary.
    probes: AtomicPtr<Probe>,
    /// While the records are being linked, the next record in the order of names.
    link: AtomicPtr<Provider>,
}

impl Provider {
    /// Returns a provider of this name, with the stability and the privileges that FreeBSD gives every SDT provider.
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

    /// Returns this provider with another stability.
    #[doc(hidden)]
    #[must_use]
    pub const fn with_stability(mut self, attr: ProviderAttr) -> Self {
        self.attr = attr;
        self
    }

    /// Returns this provider with other privileges.
    #[doc(hidden)]
    #[must_use]
    pub const fn with_privileges(mut self, privileges: Privileges) -> Self {
        self.privileges = privileges.bits();
        self
    }

    /// Returns the name in DTrace.
    pub const fn name(&self) -> &'static CStr {
        self.name
    }

    /// Stability of its probes.
    pub const fn attr(&self) -> &ProviderAttr {
        &self.attr
    }

    /// The privileges that a user of its probes needs.
    pub const fn privileges(&self) -> Privileges {
        Privileges::from_bits_truncate(self.privileges)
    }

    /// Returns the id in the framework while it is registered.
    pub(crate) fn id(&self) -> Option<ProviderId> {
        match self.id.load(Ordering::Acquire) {
            0 => None,
            id => Some(ProviderId::new(id)),
        }
    }

    pub(crate) fn set_id(&self, id: Option<ProviderId>) {
        self.id.store(id.map_or(0, ProviderId::get), Ordering::Release);
    }

    /// Returns the primary: the record that represents all records of this name.
    pub(crate) fn primary(&self) -> &Self {
        // SAFETY: null, or `set_primary` set it from a record in the set, which is a static.
        unsafe { self.primary.load(Ordering::Acquire).as_ref() }.unwrap_or(self)
    }

    pub(crate) fn set_primary(&self, primary: &'static Self) {
        self.primary.store(core::ptr::from_ref(primary).cast_mut(), Ordering::Release);
    }

    /// Returns the primaries of its probes in the order of the set. Only for a primary.
    pub(crate) fn probes(&self) -> impl Iterator<Item = &'static Probe> {
        self.primaries().filter(|probe| !group::is_group(probe.name))
    }

    /// Returns the primaries of the groups that contain a probe. Only for a primary.
    pub(crate) fn groups_of(&self, probe: &Probe) -> impl Iterator<Item = &'static Probe> {
        self.primaries().filter(|of| group::is_group(of.name) && group::means(of.name, probe.name))
    }

    fn primaries(&self) -> impl Iterator<Item = &'static Probe> {
        // SAFETY: `probes` and every `next` are null, or `push_probe` set them from records in the set, which are
        // statics.
        core::iter::successors(
            unsafe { self.probes.load(Ordering::Acquire).as_ref() },
            |probe| unsafe { probe.next.load(Ordering::Acquire).as_ref() },
        )
    }

    /// Adds a primary at the front of the list of probes.
    pub(crate) fn push_probe(&self, probe: &'static Probe) {
        probe.next.store(self.probes.load(Ordering::Acquire), Ordering::Release);
        self.probes.store(core::ptr::from_ref(probe).cast_mut(), Ordering::Release);
    }

    /// Resets the links to other records.
    pub(crate) fn clear_links(&self) {
        self.primary.store(core::ptr::null_mut(), Ordering::Release);
        self.probes.store(core::ptr::null_mut(), Ordering::Release);
    }

    pub(crate) const fn link(&self) -> &AtomicPtr<Self> {
        &self.link
    }

    /// Returns whether this version of the crate made the record.
    pub(crate) const fn is_current(&self) -> bool {
        self.version as usize == size_of::<Self>()
    }
}
