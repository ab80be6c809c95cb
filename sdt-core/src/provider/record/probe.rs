//! A probe's record.

use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, Ordering};

use super::{ArgTypes, Provider, Site};
use crate::arg::ArgType;
use crate::atomic;
use crate::ops::ProbeId;
use crate::record::is_linked;
use crate::route::mode::Mode;

/// A probe, as a declaration or a firing site in an open provider describes it.
///
/// All records of one provider and name are one logical probe: the first of them in the set is its
/// *primary*, which carries the id and the count of enablings for all.
#[derive(Debug)]
#[repr(C)]
pub struct Probe {
    version: u32,
    /// The framework's id; 0 while the framework does not know the probe. On the primary.
    id: AtomicU32,
    provider: &'static Provider,
    pub(super) name: &'static CStr,
    /// Types of the arguments; null until known (an open provider's come from [`ArgList`]s).
    args: AtomicPtr<ArgTypes>,
    /// The logical probe's first record; null until it has been linked.
    primary: AtomicPtr<Probe>,
    /// First of the logical probe's sites. On the primary.
    sites: AtomicPtr<Site>,
    /// How many enablings hold the probe. On the primary.
    enablings: atomic::AtomicU32,
    /// Whether sites of this record fire that are not patched. On every record.
    gate: AtomicU32,
    /// A [`Mode`] of the probe's own: its number and 1, or 0 for the attachment's. On the primary.
    mode: AtomicU8,
    /// Its sites stay as they are in the change that is being made. On the primary.
    left: AtomicBool,
    /// The framework's id while the probe is enabled, otherwise 0 (`id` of FreeBSD's `struct sdt_probe`). On
    /// the primary.
    enabled_id: AtomicU32,
    /// Of a primary, the next one of the provider; of another record, the next one of the logical probe. While
    /// records are linked, the next one in order of provider and name.
    pub(super) next: AtomicPtr<Probe>,
    /// The logical probe's second record. On the primary.
    others: AtomicPtr<Probe>,
}

impl Probe {
    /// Offset of the pointer to the primary record in a record.
    #[doc(hidden)]
    pub const PRIMARY: usize = core::mem::offset_of!(Self, primary);

    /// A probe with declared arguments. `name` is what DTrace lists.
    #[doc(hidden)]
    pub const fn declared(
        provider: &'static Provider,
        name: &'static CStr,
        args: &'static ArgTypes,
    ) -> Self {
        Self::with(provider, name, core::ptr::from_ref(args).cast_mut())
    }

    /// A probe whose arguments are those of the sites that fire it.
    #[doc(hidden)]
    pub const fn open(provider: &'static Provider, name: &'static CStr) -> Self {
        Self::with(provider, name, core::ptr::null_mut())
    }

    const fn with(provider: &'static Provider, name: &'static CStr, args: *mut ArgTypes) -> Self {
        Self {
            version: size_of::<Self>() as u32,
            id: AtomicU32::new(0),
            provider,
            name,
            args: AtomicPtr::new(args),
            primary: AtomicPtr::new(core::ptr::null_mut()),
            sites: AtomicPtr::new(core::ptr::null_mut()),
            enablings: atomic::AtomicU32::new(0),
            gate: AtomicU32::new(0),
            mode: AtomicU8::new(0),
            left: AtomicBool::new(false),
            enabled_id: AtomicU32::new(0),
            next: AtomicPtr::new(core::ptr::null_mut()),
            others: AtomicPtr::new(core::ptr::null_mut()),
        }
    }

    /// Its provider.
    pub const fn provider(&self) -> &'static Provider {
        self.provider
    }

    /// Its name, as DTrace lists it: `exec-success`.
    pub const fn name(&self) -> &'static CStr {
        self.name
    }

    /// The types of its arguments, as D counts them, as far as they are known.
    pub fn args(&self) -> Option<impl Iterator<Item = &'static ArgType> + Clone> {
        self.arg_types().map(|args| args.iter().copied().flatten())
    }

    /// The types of each of its arguments, as far as they are known.
    #[doc(hidden)]
    pub fn arg_types(&self) -> Option<ArgTypes> {
        let args = self.args.load(Ordering::Acquire);
        // SAFETY: `args` is null or comes from a `&'static ArgTypes` (`declared`, `set_args`).
        unsafe { args.as_ref() }.copied()
    }

    /// The types this very record was declared with.
    pub(crate) fn declared_args(&self) -> Option<&'static ArgTypes> {
        // SAFETY: `args` is null or comes from a `&'static ArgTypes` (`declared`, `set_args`).
        unsafe { self.args.load(Ordering::Acquire).as_ref() }
    }

    pub(crate) fn set_args(&self, args: &'static ArgTypes) {
        self.args.store(core::ptr::from_ref(args).cast_mut(), Ordering::Release);
    }

    /// Its id in the framework, while the framework knows it.
    pub fn id(&self) -> Option<ProbeId> {
        ProbeId::new(self.primary().id.load(Ordering::Acquire))
    }

    pub(crate) fn set_id(&self, id: Option<ProbeId>) {
        self.primary().id.store(id.map_or(0, ProbeId::get), Ordering::Release);
    }

    /// Where the id is while the probe is enabled.
    pub(crate) fn enabled_id(&self) -> &AtomicU32 {
        &self.primary().enabled_id
    }

    /// All records of the logical probe, in the order of the set.
    pub(crate) fn records(&self) -> impl Iterator<Item = &Self> {
        let primary = self.primary();
        // SAFETY: `others` and every `next` of those there are null or were set by `push_record` from
        // records in the set, statics.
        let others = core::iter::successors(
            unsafe { primary.others.load(Ordering::Acquire).as_ref() },
            |record| unsafe { record.next.load(Ordering::Acquire).as_ref() },
        );
        core::iter::once(primary).chain(others)
    }

    /// Puts a record that is not the primary behind it.
    pub(crate) fn push_record(&self, record: &'static Self) {
        let others = &self.primary().others;
        record.next.store(others.load(Ordering::Acquire), Ordering::Release);
        others.store(core::ptr::from_ref(record).cast_mut(), Ordering::Release);
    }

    pub(crate) const fn link(&self) -> &AtomicPtr<Self> {
        &self.next
    }

    /// The record that stands for the logical probe.
    pub fn primary(&self) -> &Self {
        let primary = self.primary.load(Ordering::Acquire);
        // SAFETY: `primary` is null or was set by `set_primary` from a record in the set, a static.
        unsafe { primary.as_ref() }.unwrap_or(self)
    }

    pub(crate) fn set_primary(&self, primary: &'static Self) {
        self.primary.store(core::ptr::from_ref(primary).cast_mut(), Ordering::Release);
    }

    /// Whether a site that is not patched has to fire: gate mode's only test. Probe context.
    #[doc(hidden)]
    #[inline(always)]
    pub fn gate(&self) -> bool {
        // Relaxed: what a hit needs it loads with acquire on its way.
        self.gate.load(Ordering::Relaxed) != 0
    }

    pub(crate) fn set_gate(&self, open: bool) {
        self.gate.store(open.into(), Ordering::Relaxed);
    }

    /// The mode that was chosen for this probe. On the primary.
    pub(crate) fn mode(&self) -> Option<Mode> {
        match self.mode.load(Ordering::Relaxed) {
            0 => None,
            mode if mode == Mode::Jump as u8 + 1 => Some(Mode::Jump),
            _ => Some(Mode::Trap),
        }
    }

    #[cfg(not(target_os = "illumos"))]
    pub(crate) fn set_mode(&self, mode: Option<Mode>) {
        // Relaxed: both are called under the lock of `patch`.
        self.mode.store(mode.map_or(0, |mode| mode as u8 + 1), Ordering::Relaxed);
    }

    /// Whether this change leaves the probe out. On the primary.
    pub(crate) fn is_left(&self) -> bool {
        // Relaxed: both are called under the lock of `patch`.
        self.left.load(Ordering::Relaxed)
    }

    pub(crate) fn set_left(&self, left: bool) {
        self.left.store(left, Ordering::Relaxed);
    }

    pub(crate) const fn enablings(&self) -> &atomic::AtomicU32 {
        &self.enablings
    }

    /// The logical probe's sites, in order of address; none before [attaching](crate::attach::attach) has checked them, as until
    /// then it may still be sorting them.
    #[doc(hidden)]
    pub fn sites(&self) -> impl Iterator<Item = &'static Site> + Clone {
        // SAFETY: they have been linked, and are not linked again.
        is_linked().then(|| unsafe { self.linked_sites() }).into_iter().flatten()
    }

    /// The logical probe's sites, in order of address.
    ///
    /// # Safety
    /// The records have been [linked](crate::attach::link::link), and are not linked again while what this returns is in
    /// use: linking moves them.
    #[doc(hidden)]
    pub unsafe fn linked_sites(&self) -> impl Iterator<Item = &'static Site> + Clone {
        let first = self.primary().sites.load(Ordering::Acquire);
        // SAFETY: `first` and every `link` are null or were set by `push_site` from elements of the
        // set of sites, which are statics.
        core::iter::successors(unsafe { first.as_ref() }, |site| unsafe {
            site.link().load(Ordering::Acquire).as_ref()
        })
    }

    /// Puts `site` at the front of the list of sites.
    pub(crate) fn push_site(&self, site: &'static Site) {
        let sites = &self.primary().sites;
        site.link().store(sites.load(Ordering::Acquire), Ordering::Release);
        sites.store(core::ptr::from_ref(site).cast_mut(), Ordering::Release);
    }

    /// Forgets what the records were tied to.
    pub(crate) fn clear_links(&self) {
        self.primary.store(core::ptr::null_mut(), Ordering::Release);
        self.others.store(core::ptr::null_mut(), Ordering::Release);
        self.sites.store(core::ptr::null_mut(), Ordering::Release);
    }

    /// Whether the record was made by this version of the crate.
    #[doc(hidden)]
    pub const fn is_current(&self) -> bool {
        self.version as usize == size_of::<Self>()
    }
}
