//! What a host supplies so that the text of sites can change.

use core::fmt;

use crate::ops::{FUNCTION_NAME_LEN, Name};
use crate::record::Probe;

/// How the host kernel writes to text.
///
/// # Safety
/// [`store`](Self::store) must store the given bytes at the given address and nothing else, in one store if
/// they are 1, 2 or 4 bytes at a multiple of their number. [`synchronise`](Self::synchronise) must do what its
/// documentation says.
pub unsafe trait Patcher: Sync {
    /// Stores a few bytes of text, at most 4.
    ///
    /// Called with interrupts on or off, the framework's lock held or not, never in probe context. Text is
    /// not writable as a rule, so this lifts the protection for this CPU or writes through an alias;
    /// other CPUs execute the text meanwhile.
    ///
    /// # Safety
    /// The bytes are those of a site in this image's text, and other CPUs may execute what it holds
    /// then. [`is_writable`](Self::is_writable) has said yes to them in this change, or since the [`batch`](super::batch) began.
    unsafe fn store(&self, address: usize, bytes: &[u8]);

    /// Returns when every CPU has fetched anew what it executes: none executes text as it was before
    /// earlier [`store`](Self::store)s. An interrupt on each CPU that returns by a synchronising
    /// instruction does it on x86_64; elsewhere instruction caches have to be seen to.
    fn synchronise(&self);

    /// Runs `change`, which brings the sites of a probe where they are to be, by [`store`](Self::store) and
    /// [`synchronise`](Self::synchronise). Sites hold breakpoints meanwhile; a host whose breakpoint handler does not
    /// know of them sees to it that nothing else is executed.
    fn exclusively(&self, change: &mut dyn FnMut()) {
        change();
    }

    /// Whether all of these bytes are text of this image, for hosts that can tell. Attaching refuses sites
    /// elsewhere before it reads anything there. If the host cannot tell, attaching trusts the addresses of the records.
    ///
    /// Not in probe context.
    fn is_text(&self, _address: usize, _length: usize) -> bool {
        true
    }

    /// The function that a site is in, as descriptions are to have it, for hosts that can tell (by symbols, demangled). It
    /// is the third part of the description of a probe whose sites are all in that one. A probe that fires in several
    /// functions, or on a host that cannot tell, has `none`, as FreeBSD's sdt has it; a probe for each function, as
    /// illumos's sdt has it, is not possible, as all sites of a probe hand over the same record.
    ///
    /// Called by [`attach`](crate::attach::attach), for each site.
    fn function(&self, _address: usize) -> Option<Name<FUNCTION_NAME_LEN>> {
        None
    }

    /// Whether [`store`](Self::store) can store to these bytes of a site. All sites of a probe are asked about before the
    /// first of them changes, and not again until they all have, so a change is made as a whole or not at all. Called as
    /// `store`.
    fn is_writable(&self, _address: usize, _length: usize) -> bool {
        true
    }

    /// Called repeatedly by a thread that waits while another one changes sites, on hosts whose locks spin. A kernel
    /// without time slices lets other threads run here. Called as `store`, with interrupts on.
    fn relax(&self) {
        core::hint::spin_loop();
    }

    /// Reports that a probe could not be enabled or disabled. The framework gets an error as well, but FreeBSD's ignores it;
    /// a host with a console prints it. Called as `store`.
    fn refused(&self, _probe: &Probe, _why: PatchError) {}
}

/// The patcher of hosts that patch nothing: their sites are in gate mode.
#[derive(Clone, Copy, Debug)]
pub struct NoText;

// SAFETY: `is_writable` is false, so `store` is never called.
unsafe impl Patcher for NoText {
    unsafe fn store(&self, _: usize, _: &[u8]) {}

    fn synchronise(&self) {}

    fn is_writable(&self, _: usize, _: usize) -> bool {
        false
    }
}

/// Why sites were not changed. They are as they were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PatchError {
    /// The image is not attached.
    NotAttached,
    /// The host cannot write to a site.
    ReadOnly {
        /// Address of the site.
        patchpoint: usize,
    },
}

impl PatchError {
    /// The number by which the kernels know it: ENXIO or EACCES, the same on FreeBSD, illumos and Linux.
    pub const fn errno(self) -> i32 {
        match self {
            Self::NotAttached => 6,
            Self::ReadOnly { .. } => 13,
        }
    }
}

impl fmt::Display for PatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAttached => f.write_str("its image is not attached to a framework"),
            Self::ReadOnly { patchpoint } => {
                write!(f, "the site at {patchpoint:#x} is in text that cannot be written to")
            }
        }
    }
}

impl core::error::Error for PatchError {}
