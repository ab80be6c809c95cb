//! The records that firing sites and declarations leave in the linker sets.
//!
//! | set | section | element |
//! |---|---|---|
//! | [`PROVIDERS`] | `linkme_SDT_PROVIDERS` | [`Provider`] |
//! | [`PROBES`] | `linkme_SDT_PROBES` | [`Probe`] |
//! | [`sites`] | `sdt_sites` | [`Site`] |
//! | [`arg_lists`] | `sdt_arg_lists` | [`ArgList`] |
//!
//! The first two are linkme's. Sites and argument lists are emitted from inline assembly, where the
//! addresses they hold are known, into sections of their own; both are kept through
//! `--gc-sections` by the retain flag and found by the linker's `__start_` and `__stop_` symbols.

use core::cell::UnsafeCell;
use core::ffi::CStr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use linkme::distributed_slice;
use static_assertions::const_assert_eq;

use crate::arg::ArgType;
use crate::atomic;
use crate::attach;
use crate::attach::link::Records;
use crate::ops::{Privileges, ProbeId, ProviderAttr, ProviderId};
use crate::patch::Mode;
use crate::route::group;

/// All providers of this image.
#[distributed_slice]
pub static SDT_PROVIDERS: [Provider];

/// All probe records of this image. Several may stand for one logical probe.
#[distributed_slice]
pub static SDT_PROBES: [Probe];

pub use {SDT_PROBES as PROBES, SDT_PROVIDERS as PROVIDERS};

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
    name: &'static CStr,
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
    mode: AtomicU32,
    /// The framework's id while the probe is enabled, otherwise 0 (`id` of FreeBSD's `struct sdt_probe`). On
    /// the primary.
    enabled_id: AtomicU32,
    /// Of a primary, the next one of the provider; of another record, the next one of the logical probe. While
    /// records are linked, the next one in order of provider and name.
    next: AtomicPtr<Probe>,
    /// The logical probe's second record. On the primary.
    others: AtomicPtr<Probe>,
}

pub use crate::arg::ArgTypes;

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
            mode: AtomicU32::new(0),
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
        // SAFETY: as in `args`.
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
            mode if mode == Mode::Jump as u32 + 1 => Some(Mode::Jump),
            _ => Some(Mode::Trap),
        }
    }

    #[cfg(not(target_os = "illumos"))]
    pub(crate) fn set_mode(&self, mode: Option<Mode>) {
        // Relaxed: both are called under the lock of `patch`.
        self.mode.store(mode.map_or(0, |mode| mode as u32 + 1), Ordering::Relaxed);
    }

    pub(crate) const fn enablings(&self) -> &atomic::AtomicU32 {
        &self.enablings
    }

    /// The logical probe's sites, in order of address; none before [attaching](attach::attach) has checked them, as until
    /// then it may still be sorting them.
    #[doc(hidden)]
    pub fn sites(&self) -> impl Iterator<Item = &'static Site> + Clone {
        // SAFETY: they have been linked, and are not linked again.
        attach::is_linked().then(|| unsafe { self.linked_sites() }).into_iter().flatten()
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

/// A firing site: one patchable nop in the text, and the cold block it jumps to when enabled.
///
/// 32 bytes, the layout of FreeBSD 15's `struct sdt_tracepoint` (`sys/sys/sdt.h`) on every target.
#[derive(Debug)]
#[repr(C)]
pub struct Site {
    probe: *const Probe,
    patchpoint: usize,
    target: usize,
    link: UnsafeCell<*mut Site>,
}

// SAFETY: `probe`, `patchpoint` and `target` are never written while sites are shared, and `link` is
// only reached as an atomic.
unsafe impl Sync for Site {}

// Where there are sites, words have 64 bits.
const_assert_eq!(size_of::<Site>(), 4 * size_of::<usize>());

impl Site {
    /// The probe record the site names. Null only in a record nobody should trust.
    pub const fn probe(&self) -> *const Probe {
        self.probe
    }

    /// Address of the nop.
    pub const fn patchpoint(&self) -> usize {
        self.patchpoint
    }

    /// Address of the cold block.
    pub const fn target(&self) -> usize {
        self.target
    }

    fn link(&self) -> &AtomicPtr<Site> {
        // SAFETY: the field is a pointer, aligned, alive as long as `self`, and every access to it
        // goes through this function.
        unsafe { AtomicPtr::from_ptr(self.link.get()) }
    }
}

/// What the arguments at one site of an open provider's probe are. Two words.
///
/// The functions, not the data, are in the record: they are generic over the arguments' types, which
/// only the compiler's type inference knows.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ArgList {
    /// The site's probe record.
    pub probe: extern "C" fn() -> &'static Probe,
    /// The site's argument types.
    pub types: extern "C" fn() -> &'static ArgTypes,
}

const_assert_eq!(size_of::<ArgList>(), 2 * size_of::<usize>());

/// The assembler's directive for words as long as a pointer.
#[cfg(target_pointer_width = "64")]
macro_rules! word {
    ($($words:literal)*) => { concat!(".quad", $($words)*) };
}

/// See the variant for 64 bits.
#[cfg(target_pointer_width = "32")]
macro_rules! word {
    ($($words:literal)*) => { concat!(".long", $($words)*) };
}

pub(crate) use word;

/// Bounds of the sets that inline assembly fills.
///
/// Weak, because an image need not have a site or an argument list, and then there is no section: the
/// bounds are 0 then, and the set is empty. (FreeBSD's module loader passes over empty sections, so
/// an empty piece of each would not do.)
///
/// Hidden, because a kernel that loads shared objects would take another module's bounds for those of a set
/// that this one does not have.
mod bounds {
    core::arch::global_asm!(
        ".weak __start_sdt_sites, __stop_sdt_sites",
        ".weak __start_sdt_arg_lists, __stop_sdt_arg_lists",
        ".hidden __start_sdt_sites, __stop_sdt_sites",
        ".hidden __start_sdt_arg_lists, __stop_sdt_arg_lists",
        ".pushsection .data.__sdt_bounds, \"aw\", %progbits",
        ".balign 8",
        ".globl __sdt_bounds",
        ".hidden __sdt_bounds",
        "__sdt_bounds:",
        super::word!(" __start_sdt_sites, __stop_sdt_sites"),
        super::word!(" __start_sdt_arg_lists, __stop_sdt_arg_lists"),
        ".popsection",
    );

    unsafe extern "C" {
        // Only the linker and the loader write to it.
        #[link_name = "__sdt_bounds"]
        pub(super) safe static BOUNDS: [[usize; 2]; 2];
    }
}

const SITES: usize = 0;
const ARG_LISTS: usize = 1;

/// A linker set does not hold a whole number of records: the image was linked wrongly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RaggedSet {
    /// Name of the section.
    pub section: &'static str,
    /// Its size in bytes.
    pub bytes: usize,
    /// Size of one record in bytes.
    pub record: usize,
}

/// Start and length of a set.
fn set<T>(section: &'static str, index: usize) -> Result<(*const T, usize), RaggedSet> {
    // Volatile: for all the compiler knows the table is constant, but it is relocated.
    // SAFETY: a reference to a static.
    let [start, stop] = unsafe { core::ptr::from_ref(&bounds::BOUNDS[index]).read_volatile() };
    let bytes = stop.wrapping_sub(start);
    if !bytes.is_multiple_of(size_of::<T>()) || !start.is_multiple_of(align_of::<T>()) {
        return Err(RaggedSet { section, bytes, record: size_of::<T>() });
    }
    let start =
        if bytes == 0 { core::ptr::dangling() } else { core::ptr::with_exposed_provenance(start) };
    Ok((start, bytes / size_of::<T>()))
}

/// All sites of this image.
///
/// # Safety
/// Nobody is [linking](crate::attach::link::link) them, nor does while what this returns is in use: linking sorts them in
/// place.
///
/// # Errors
/// [`RaggedSet`] when the section is not a whole number of records.
pub unsafe fn sites() -> Result<&'static [Site], RaggedSet> {
    let (start, len) = set::<Site>("sdt_sites", SITES)?;
    // SAFETY: the linker's symbols bound the section, which is `len` aligned records long; by contract nobody moves them,
    // and else they are only changed through atomics.
    Ok(unsafe { core::slice::from_raw_parts(start, len) })
}

/// All records of this image.
///
/// # Safety
/// Nobody else looks at the sites while they are held: no probe of this image is enabled, no breakpoint
/// handler runs for it, and no reference from [`sites`] or [`Probe::sites`] is held.
///
/// # Errors
/// [`RaggedSet`] when a section is not a whole number of records.
pub(crate) unsafe fn all() -> Result<Records, RaggedSet> {
    let (start, len) = set::<Site>("sdt_sites", SITES)?;
    // SAFETY: as in `sites`; the section is writable ("aw") and the caller has it to itself.
    let sites = unsafe { core::slice::from_raw_parts_mut(start.cast_mut(), len) };
    Ok(Records { providers: &PROVIDERS, probes: &PROBES, sites, arg_lists: arg_lists()? })
}

/// The argument lists of all sites of open providers in this image.
///
/// # Errors
/// [`RaggedSet`] when the section is not a whole number of records.
pub fn arg_lists() -> Result<&'static [ArgList], RaggedSet> {
    let (start, len) = set::<ArgList>("sdt_arg_lists", ARG_LISTS)?;
    // SAFETY: the linker's symbols bound the section, which is `len` aligned records long and never
    // written.
    Ok(unsafe { core::slice::from_raw_parts(start, len) })
}

/// The record of a provider, in its set.
#[cfg(not(sdt_off))]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_provider_record {
    ($record:ident, $name:literal $(, $with:ident = $own:expr)*) => {
        #[doc(hidden)]
        #[$crate::__private::linkme::distributed_slice($crate::__private::record::SDT_PROVIDERS)]
        #[linkme(crate = $crate::__private::linkme)]
        pub static $record: $crate::__private::record::Provider =
            $crate::__private::record::Provider::new($name)$(.$with($own))*;
    };
}

/// Puts the record of a probe into its set, by the macro that linkme makes for the set, to which its attribute leads.
/// The attribute adds a function and two closures to each element, by which the compiler checks the element's type:
/// half of the time that it takes to compile a declaration. Here the type is written down.
#[cfg(not(sdt_off))]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_into_probes {
    ($(#[$attr:meta])* $visibility:vis $record:ident = $init:expr) => {
        $crate::__private::record::SDT_PROBES! {
            #![linkme_macro = $crate::__private::record::SDT_PROBES]
            $(#[$attr])*
            $visibility static $record: $crate::__private::record::Probe = $init;
        }
    };
}

/// The record of a provider, in no set.
#[cfg(sdt_off)]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_provider_record {
    ($record:ident, $name:literal $(, $with:ident = $own:expr)*) => {
        #[doc(hidden)]
        pub static $record: $crate::__private::record::Provider =
            $crate::__private::record::Provider::new($name)$(.$with($own))*;
    };
}

/// The record of a probe, in no set.
#[cfg(sdt_off)]
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_into_probes {
    ($(#[$attr:meta])* $visibility:vis $record:ident = $init:expr) => {
        $(#[$attr])*
        $visibility static $record: $crate::__private::record::Probe = $init;
    };
}

/// The record of a declared probe, in its set.
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_declared_probe {
    (
        $sound:expr, $(#[$attr:meta])* $record:ident, $provider:path, $listed:literal, $name:literal, $symbol:literal,
        $types:expr
    ) => {
        $crate::__sdt_into_probes! {
            $(#[$attr])*
            #[allow(non_upper_case_globals)]
            pub $record = $crate::__private::record::Probe::declared(
                &$provider,
                $listed,
                const { &$types },
            )
        }
    };
}

/// The record of an open provider's probe at one site, in its set.
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_open_probe {
    ($sound:expr, $record:ident, $provider:path, $listed:literal, $name:literal, $symbol:literal) => {
        $crate::__sdt_into_probes! {
            $record = $crate::__private::record::Probe::open(&$provider, $listed)
        }
    };
}
