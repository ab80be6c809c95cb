//! All arguments of the hit that is being recorded, for frameworks whose `probe` function drops some: FreeBSD's and illumos's
//! `dtrace_probe` carry five, and ask the provider's `getargval` for the others.
//!
//! They are on the stack of the hit, further up, behind a word by which they are told from all else there: no state per CPU or
//! thread, so nothing to go wrong when an interrupt fires a probe in between.

use core::ffi::{c_int, c_void};

use crate::ops::ARGS;

/// The word is this exclusive-or its own address.
const MARK: usize = 0x7361_7665_6420_6172_u64 as usize;

/// Most words of a kernel's stack between the hit and who asks.
const FAR: usize = 8192;

/// The arguments of a hit, which [`getargval`] finds until this is dropped. Then the mark is erased: its place is soon
/// another's, which need not overwrite it.
#[repr(C)]
pub(super) struct Saved {
    mark: usize,
    words: [u64; ARGS],
}

impl Saved {
    /// None, and not to be found. Moved until [`mark`](Self::mark) only.
    #[inline(always)]
    pub(super) const fn new() -> Self {
        Self { mark: 0, words: [0; ARGS] }
    }

    /// Where the arguments are.
    #[inline(always)]
    pub(super) const fn words(&mut self) -> &mut [u64; ARGS] {
        &mut self.words
    }

    /// From here on they are found, if they are on the stack. Exposed: who looks for them makes a pointer of an address.
    #[inline(always)]
    pub(super) fn mark(&mut self) -> &[u64; ARGS] {
        let place = (&raw mut *self).expose_provenance();
        // SAFETY: a field. Volatile, as nobody who is known reads it.
        unsafe { (&raw mut self.mark).write_volatile(MARK ^ place) };
        &self.words
    }
}

impl Drop for Saved {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: as in `mark`.
        unsafe { (&raw mut self.mark).write_volatile(0) };
    }
}

/// The op: an argument of the hit that is being recorded. Probe context.
///
/// illumos's fbt passes over functions that are called `dtrace_...`, and it must pass over this one, which
/// `dtrace_probe` calls. FreeBSD's passes over modules that depend on `dtrace`.
///
/// # Safety
/// Called, however deeply, by the framework's `probe`, for a probe of a [`Provider`](super::Provider).
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
        // SAFETY: on this stack: by contract the mark is further up, where the search ends.
        if unsafe { word.read_volatile() } == MARK ^ place {
            let saved = word.cast::<Saved>();
            // SAFETY: a mark is in front of the arguments, which are there until it is erased. No reference, as nothing
            // but the words is to be read.
            return unsafe { (&raw const (*saved).words).cast::<u64>().add(index).read_volatile() };
        }
        place += size_of::<usize>();
    }
    0
}
