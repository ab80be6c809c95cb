//! The records that inline assembly emits at a site: of the site, and of its arguments.

use core::cell::UnsafeCell;
use core::sync::atomic::AtomicPtr;

use static_assertions::const_assert_eq;

use super::{Args, Probe};

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

// Targets with patched sites have 64-bit words.
const_assert_eq!(size_of::<Site>(), 4 * size_of::<usize>());

impl Site {
    /// Returns the probe that the site fires: the primary one of its records.
    pub fn probe(&self) -> &'static Probe {
        // SAFETY: safe code gets a `Site` only from `site::all` and `Probe::sites`, after `attach` has checked that this
        // field is the address of a probe record of this image (`link_sites`), which is a static.
        unsafe { &*self.probe }.primary()
    }

    /// Returns the address of the probe record that this site record contains. It can be any address until `attach` has
    /// checked it.
    #[doc(hidden)]
    pub const fn record(&self) -> *const Probe {
        self.probe
    }

    /// Returns the address of the nop.
    pub const fn patchpoint(&self) -> usize {
        self.patchpoint
    }

    /// Returns the address of the cold block.
    pub const fn target(&self) -> usize {
        self.target
    }

    pub(super) fn link(&self) -> &AtomicPtr<Site> {
        // SAFETY: the field is a pointer, aligned, alive as long as `self`, and every access to it
        // goes through this function.
        unsafe { AtomicPtr::from_ptr(self.link.get()) }
    }
}

/// The arguments of one site of an open provider's probe. Two words.
///
/// The functions, not the data, are in the record: they are generic over the arguments' types, which
/// only the compiler's type inference knows.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ArgList {
    /// The site's probe record.
    pub probe: extern "C" fn() -> &'static Probe,
    /// The site's arguments.
    pub args: extern "C" fn() -> &'static Args,
}

const_assert_eq!(size_of::<ArgList>(), 2 * size_of::<usize>());

/// Returns the site with this patchpoint among linked sites. Probe context.
pub fn find(sites: &[Site], patchpoint: usize) -> Option<&Site> {
    let at = sites.binary_search_by_key(&patchpoint, Site::patchpoint).ok()?;
    sites.get(at)
}
