//! The linker sets.

use linkme::distributed_slice;

use super::{ArgList, Probe, Provider, Site};

/// All providers of this image.
#[distributed_slice]
pub static SDT_PROVIDERS: [Provider];

/// All probe records of this image. Several may stand for one logical probe.
#[distributed_slice]
pub static SDT_PROBES: [Probe];

/// Bounds of the sets that inline assembly fills.
///
/// Weak, because an image without sites or argument lists has no such section: then the bounds are 0, and the set is
/// empty. (An empty section would not help, because FreeBSD's module loader skips empty sections.)
///
/// Hidden, because otherwise a kernel that loads shared objects would resolve missing bounds to those of another
/// module.
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
        crate::record::word!(" __start_sdt_sites, __stop_sdt_sites"),
        crate::record::word!(" __start_sdt_arg_lists, __stop_sdt_arg_lists"),
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

/// The size of a linker set is not a multiple of the record size: the image is linked incorrectly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RaggedSet {
    /// Name of the section.
    pub section: &'static str,
    /// Its size in bytes.
    pub bytes: usize,
    /// Size of one record in bytes.
    pub record: usize,
}

/// All records of an image.
#[derive(Debug)]
pub struct Records {
    /// Its providers.
    pub providers: &'static [Provider],
    /// Its probes.
    pub probes: &'static [Probe],
    /// Its sites, in any order.
    pub sites: &'static mut [Site],
    /// The argument types of sites of open providers.
    pub arg_lists: &'static [ArgList],
}

/// Returns the start and the length of a set.
fn set<T>(section: &'static str, index: usize) -> Result<(*const T, usize), RaggedSet> {
    // Volatile, because the compiler would take the table as constant, but the loader relocates it.
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
/// No thread [links](crate::attach::link::link) the sites now or while the result is in use: linking sorts them in place.
///
/// # Errors
/// [`RaggedSet`] if the size of the section is not a multiple of the record size.
pub unsafe fn sites() -> Result<&'static [Site], RaggedSet> {
    let (start, len) = set::<Site>("sdt_sites", SITES)?;
    // SAFETY: the linker's symbols bound the section, which is `len` aligned records long (`set` has checked both). By the
    // contract of this function no thread sorts them; all other changes of them are atomic.
    Ok(unsafe { core::slice::from_raw_parts(start, len) })
}

/// All records of this image.
///
/// # Safety
/// No other thread uses the sites while the result is in use: no probe of this image is enabled, no breakpoint
/// handler runs for it, and no reference from [`sites`] or [`Probe::sites`] is held.
///
/// # Errors
/// [`RaggedSet`] if the size of a section is not a multiple of the record size.
pub(crate) unsafe fn all() -> Result<Records, RaggedSet> {
    let (start, len) = set::<Site>("sdt_sites", SITES)?;
    // SAFETY: the linker's symbols bound the section, which is `len` aligned records long (`set` has checked both). It
    // is writable ("aw"), and no other thread uses it, by the contract of this function.
    let sites = unsafe { core::slice::from_raw_parts_mut(start.cast_mut(), len) };
    Ok(Records { providers: &SDT_PROVIDERS, probes: &SDT_PROBES, sites, arg_lists: arg_lists()? })
}

/// The argument lists of all sites of open providers in this image.
///
/// # Errors
/// [`RaggedSet`] if the size of the section is not a multiple of the record size.
pub fn arg_lists() -> Result<&'static [ArgList], RaggedSet> {
    let (start, len) = set::<ArgList>("sdt_arg_lists", ARG_LISTS)?;
    // SAFETY: the linker's symbols bound the section, which is `len` aligned records long and never
    // written.
    Ok(unsafe { core::slice::from_raw_parts(start, len) })
}
