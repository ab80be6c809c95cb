//! A probe's record.

use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, Ordering};

use super::{ArgTypes, Args, Provider, Site};
use crate::arg::{ArgType, Borrows};
use crate::atomic;
use crate::ops::ProbeId;
use crate::record::is_linked;
use crate::route::mode::Mode;

/// A probe, described by a declaration or by a firing site of an open provider.
///
/// All records of one provider and name are one logical probe: the first of them in the set is its
/// *primary*, which carries the id and the count of enablings for all.
#[derive(Debug)]
#[repr(C)]
pub struct Probe {
    version: u32,
    /// The framework's id; 0 while the framework does not know the probe. Valid in the primary.
    id: AtomicU32,
    provider: &'static Provider,
    pub(super) name: &'static CStr,
    /// The arguments; null until known (an open provider's come from [`ArgList`]s).
    args: AtomicPtr<Args>,
    /// The first record of the logical probe; null until the records are linked.
    primary: AtomicPtr<Probe>,
    /// The first site of the logical probe. Valid in the primary.
    sites: AtomicPtr<Site>,
    /// The number of enablings of the probe. Valid in the primary.
    enablings: atomic::AtomicU32,
    /// The borrows that the words of all sites have, as [`Borrows::to_bits`] returns them. Valid in the primary.
    borrows: AtomicU32,
    /// Whether unpatched sites of this record fire. Valid in every record.
    gate: AtomicBool,
    /// The [`Mode`] of this probe: its number plus 1, or 0 for that of the attachment. Valid in the primary.
    mode: AtomicU8,
    /// Whether the current change skips its sites. Valid in the primary.
    left: AtomicBool,
    /// The framework's id while the probe is enabled, otherwise 0 (`id` of FreeBSD's `struct sdt_probe`). Valid in the
    /// primary.
    enabled_id: AtomicU32,
    /// In a primary, the next primary of the provider; in another record, the next record of the logical probe. While
    /// the records are being linked, the next record in the order of provider and name.
    pub(super) next: AtomicPtr<Probe>,
    /// The second record of the logical probe. Valid in the primary.
    others: AtomicPtr<Probe>,
}

impl Probe {
    /// Offset of the pointer to the primary record in a record.
    #[doc(hidden)]
    pub const PRIMARY: usize = core::mem::offset_of!(Self, primary);

    /// Returns a probe with declared arguments. `name` is the name in DTrace.
    #[doc(hidden)]
    pub const fn declared(
        provider: &'static Provider,
        name: &'static CStr,
        args: &'static Args,
    ) -> Self {
        Self::with(provider, name, core::ptr::from_ref(args).cast_mut())
    }

    /// Returns a probe whose sites define its arguments.
    #[doc(hidden)]
    pub const fn open(provider: &'static Provider, name: &'static CStr) -> Self {
        Self::with(provider, name, core::ptr::null_mut())
    }

    const fn with(provider: &'static Provider, name: &'static CStr, args: *mut Args) -> Self {
        Self {
            version: size_of::<Self>() as u32,
            id: AtomicU32::new(0),
            provider,
            name,
            args: AtomicPtr::new(args),
            primary: AtomicPtr::new(core::ptr::null_mut()),
            sites: AtomicPtr::new(core::ptr::null_mut()),
            enablings: atomic::AtomicU32::new(0),
            borrows: AtomicU32::new(0),
            gate: AtomicBool::new(false),
            mode: AtomicU8::new(0),
            left: AtomicBool::new(false),
            enabled_id: AtomicU32::new(0),
            next: AtomicPtr::new(core::ptr::null_mut()),
            others: AtomicPtr::new(core::ptr::null_mut()),
        }
    }

    /// Returns the provider.
    pub const fn provider(&self) -> &'static Provider {
        self.provider
    }

    /// Returns the name in DTrace: `exec-success`.
    pub const fn name(&self) -> &'static CStr {
        self.name
    }

    /// Returns the types of the arguments as D counts them, if they are known.
    pub fn args(&self) -> Option<impl Iterator<Item = &'static ArgType> + Clone> {
        self.arg_types().map(|args| args.iter().copied().flatten())
    }

    /// Returns the types of each argument, if they are known.
    #[doc(hidden)]
    pub fn arg_types(&self) -> Option<ArgTypes> {
        self.declared_args().map(|args| args.types)
    }

    /// Returns the arguments in the declaration of this record.
    pub(crate) fn declared_args(&self) -> Option<&'static Args> {
        // SAFETY: `args` is null or comes from a `&'static Args` (`declared`, `set_args`).
        unsafe { self.args.load(Ordering::Acquire).as_ref() }
    }

    pub(crate) fn set_args(&self, args: &'static Args) {
        self.args.store(core::ptr::from_ref(args).cast_mut(), Ordering::Release);
    }

    /// Returns the borrows that the words of every hit of the logical probe have; [`Borrows::NOTHING`] before
    /// [attaching](crate::attach::attach) has linked the records. Probe context.
    pub(crate) fn borrows(&self) -> Borrows {
        // Relaxed: set before the probe can be enabled.
        Borrows::from_bits(self.primary().borrows.load(Ordering::Relaxed))
    }

    pub(crate) fn set_borrows(&self, borrows: Borrows) {
        self.primary().borrows.store(borrows.to_bits(), Ordering::Relaxed);
    }

    /// Returns the id in the framework while the framework knows the probe.
    pub fn id(&self) -> Option<ProbeId> {
        ProbeId::new(self.primary().id.load(Ordering::Acquire))
    }

    pub(crate) fn set_id(&self, id: Option<ProbeId>) {
        self.primary().id.store(id.map_or(0, ProbeId::get), Ordering::Release);
    }

    /// Returns the variable that contains the framework's id while the probe is enabled, otherwise 0.
    pub(crate) fn enabled_id(&self) -> &AtomicU32 {
        &self.primary().enabled_id
    }

    /// Returns all records of the logical probe in the order of the set.
    pub(crate) fn records(&self) -> impl Iterator<Item = &Self> {
        let primary = self.primary();
        // SAFETY: `others` and every `next` in that list are null, or `push_record` set them from records in the set,
        // which are statics.
        let others = core::iter::successors(
            unsafe { primary.others.load(Ordering::Acquire).as_ref() },
            |record| unsafe { record.next.load(Ordering::Acquire).as_ref() },
        );
        core::iter::once(primary).chain(others)
    }

    /// Adds a record to the list of the primary.
    pub(crate) fn push_record(&self, record: &'static Self) {
        let others = &self.primary().others;
        record.next.store(others.load(Ordering::Acquire), Ordering::Release);
        others.store(core::ptr::from_ref(record).cast_mut(), Ordering::Release);
    }

    pub(crate) const fn link(&self) -> &AtomicPtr<Self> {
        &self.next
    }

    /// Returns the primary of the logical probe.
    pub fn primary(&self) -> &Self {
        let primary = self.primary.load(Ordering::Acquire);
        // SAFETY: `primary` is null or was set by `set_primary` from a record in the set, a static.
        unsafe { primary.as_ref() }.unwrap_or(self)
    }

    pub(crate) fn set_primary(&self, primary: &'static Self) {
        self.primary.store(core::ptr::from_ref(primary).cast_mut(), Ordering::Release);
    }

    /// Returns whether an unpatched site must fire: the only test in gate mode. Probe context.
    #[doc(hidden)]
    #[inline(always)]
    pub fn gate(&self) -> bool {
        // Relaxed, because the hit later loads its data with acquire.
        self.gate.load(Ordering::Relaxed)
    }

    pub(crate) fn set_gate(&self, open: bool) {
        self.gate.store(open, Ordering::Relaxed);
    }

    /// Returns the mode that was set for this probe. Valid in the primary.
    pub(crate) fn mode(&self) -> Option<Mode> {
        match self.mode.load(Ordering::Relaxed) {
            0 => None,
            mode if mode == Mode::Jump as u8 + 1 => Some(Mode::Jump),
            _ => Some(Mode::Trap),
        }
    }

    #[cfg(not(target_os = "illumos"))]
    pub(crate) fn set_mode(&self, mode: Option<Mode>) {
        // Relaxed: this and `mode` are called with the lock of patching.
        self.mode.store(mode.map_or(0, |mode| mode as u8 + 1), Ordering::Relaxed);
    }

    /// Returns whether the current change skips the probe. Valid in the primary.
    pub(crate) fn is_left(&self) -> bool {
        // Relaxed: this and `set_left` are called with the lock of patching.
        self.left.load(Ordering::Relaxed)
    }

    pub(crate) fn set_left(&self, left: bool) {
        self.left.store(left, Ordering::Relaxed);
    }

    pub(crate) const fn enablings(&self) -> &atomic::AtomicU32 {
        &self.enablings
    }

    /// Returns the sites of the logical probe in the order of their addresses; none before
    /// [attaching](crate::attach::attach) has checked and sorted them.
    #[doc(hidden)]
    pub fn sites(&self) -> impl Iterator<Item = &'static Site> + Clone {
        // SAFETY: `is_linked` returned true, and linked records are not linked again.
        is_linked().then(|| unsafe { self.linked_sites() }).into_iter().flatten()
    }

    /// Returns the sites of the logical probe in the order of their addresses.
    ///
    /// # Safety
    /// The records have been [linked](crate::attach::link::link), and are not linked again while the result is in use,
    /// because linking moves them.
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

    /// Resets the links to other records.
    pub(crate) fn clear_links(&self) {
        self.primary.store(core::ptr::null_mut(), Ordering::Release);
        self.others.store(core::ptr::null_mut(), Ordering::Release);
        self.sites.store(core::ptr::null_mut(), Ordering::Release);
    }

    /// Returns whether this version of the crate made the record.
    #[doc(hidden)]
    pub const fn is_current(&self) -> bool {
        self.version as usize == size_of::<Self>()
    }
}
