//! All arguments of the hit that is being recorded, for frameworks whose `probe` function drops some: FreeBSD's and illumos's
//! `dtrace_probe` carry five, and call the provider's `getargval` for the others.
//!
//! They are further up on the stack of the hit, after a mark that nothing else on the stack has. There is no state per
//! CPU or thread, so an interrupt that fires a probe in between cannot disturb it.

use core::ffi::{c_int, c_void};

use crate::ops::ARGS;

/// The mark is this number exclusive-or its own address.
const MARK: usize = 0x7361_7665_6420_6172_u64 as usize;

/// The greatest number of words on a kernel's stack between the hit and the caller of `getargval`.
const FAR: usize = 8192;

/// The arguments of a hit, which [`getargval`] finds until this is dropped. Dropping erases the mark, because the next
/// use of this memory need not overwrite it.
#[repr(C)]
pub(super) struct Saved {
    mark: usize,
    words: [u64; ARGS],
}

impl Saved {
    /// Returns a value without arguments and without a mark. It must not move after [`mark`](Self::mark).
    #[inline(always)]
    pub(super) const fn new() -> Self {
        Self { mark: 0, words: [0; ARGS] }
    }

    /// Returns the address of the arguments.
    #[inline(always)]
    pub(super) const fn words(&mut self) -> &mut [u64; ARGS] {
        &mut self.words
    }

    /// Marks the words, so that [`getargval`] finds them if they are on the stack. The address is exposed, because
    /// `getargval` makes a pointer of an address.
    #[inline(always)]
    pub(super) fn mark(&mut self) -> &[u64; ARGS] {
        let place = (&raw mut *self).expose_provenance();
        // SAFETY: the pointer is to a field of `self`. Volatile, because `getargval` finds it on the stack, which the
        // compiler cannot see.
        unsafe { (&raw mut self.mark).write_volatile(MARK ^ place) };
        &self.words
    }
}

impl Drop for Saved {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the pointer is to a field of `self`. Volatile, as in `mark`.
        unsafe { (&raw mut self.mark).write_volatile(0) };
    }
}

/// The op `getargval`: returns an argument of the hit that is being recorded. Probe context.
///
/// fbt must skip this function, because `dtrace_probe` calls it. illumos's fbt skips functions named `dtrace_...`,
/// FreeBSD's skips modules that depend on `dtrace`.
///
/// # Safety
/// The framework's `probe` calls it, directly or through other functions, for a probe of a [`Provider`](super::Provider).
#[cfg_attr(target_os = "illumos", unsafe(export_name = "dtrace_sdt_getargval_saved"))]
pub(super) unsafe extern "C" fn getargval(
    _: *mut c_void,
    _: u32,
    _: *mut c_void,
    argno: c_int,
    _: c_int,
) -> u64 {
    let Some(index) = usize::try_from(argno).ok().filter(|index| *index < ARGS) else {
        return 0;
    };
    let here = 0_usize;
    let mut place = (&raw const here).expose_provenance();
    for _ in 0..FAR {
        let word = core::ptr::with_exposed_provenance::<usize>(place);
        // SAFETY: the word is on this stack: by the contract of this function the mark is further up, and the search
        // ends there.
        if unsafe { word.read_volatile() } == MARK ^ place {
            let saved = word.cast::<Saved>();
            // SAFETY: the mark is the first field of a `Saved` that still exists: dropping it erases the mark. No reference,
            // because only the words may be read.
            return unsafe { (&raw const (*saved).words).cast::<u64>().add(index).read_volatile() };
        }
        place += size_of::<usize>();
    }
    0
}
