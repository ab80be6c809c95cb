//! The functions of a host for changing the text of sites.

use core::fmt;

use crate::ops::{FUNCTION_NAME_LEN, Name};
use crate::record::Probe;

/// Writes to the text of the host kernel.
///
/// # Safety
/// [`store`](Self::store) must store the given bytes at the given address and nothing else, in one store if they are 1, 2 or 4
/// bytes at a multiple of their number. [`synchronise`](Self::synchronise) must fulfil its documentation.
pub unsafe trait Patcher: Sync {
    /// Stores a few bytes of text, at most 4.
    ///
    /// Called with interrupts on or off, the framework's lock held or not, never in probe context. Text is usually not
    /// writable, so this disables the protection on this CPU or writes through an alias. Other CPUs execute the text
    /// meanwhile.
    ///
    /// # Safety
    /// The bytes belong to a site in this image's text, and the result is valid code for CPUs that execute it.
    /// [`is_writable`](Self::is_writable) returned true for them in this change, or since the [`batch`](super::batch)
    /// began.
    unsafe fn store(&self, address: usize, bytes: &[u8]);

    /// Waits until no CPU executes old text, which an earlier [`store`](Self::store) has replaced. On x86_64, an interrupt on
    /// each CPU that returns with a serialising instruction is enough; other architectures also need cache maintenance.
    fn synchronise(&self);

    /// Runs `change`, which changes the sites of a probe with [`store`](Self::store) and
    /// [`synchronise`](Self::synchronise). Sites contain breakpoints meanwhile: a host whose breakpoint handler does
    /// not handle them must ensure that no other code runs.
    fn exclusively(&self, change: &mut dyn FnMut()) {
        change();
    }

    /// Returns whether all of these bytes are text of this image. Attaching refuses other sites before it reads their
    /// memory. A host that cannot tell returns true, and attaching trusts the addresses in the records.
    ///
    /// Not in probe context.
    fn is_text(&self, _address: usize, _length: usize) -> bool {
        true
    }

    /// Returns the demangled name of the function that contains a site, if the host has symbols. It is the third part
    /// of the description of a probe whose sites are all in this function. Other probes have `none`, as with FreeBSD's
    /// sdt. One probe for each function, as with illumos's sdt, is not possible, because all sites of a probe pass the
    /// same record.
    ///
    /// Called by [`attach`](crate::attach::attach), for each site.
    fn function(&self, _address: usize) -> Option<Name<FUNCTION_NAME_LEN>> {
        None
    }

    /// Returns whether [`store`](Self::store) can store to these bytes of a site. This is called for all sites of a
    /// probe before the first of them changes, so a change is made completely or not at all. Called as `store`.
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

/// The patcher of hosts in gate mode, which patch nothing.
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

/// The reason why sites were not changed. No site was changed.
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
    /// Returns the error number: ENXIO or EACCES, the same on FreeBSD, illumos and Linux.
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
            Self::NotAttached => {
                f.write_str("the image of the site is not attached to a framework")
            }
            Self::ReadOnly { patchpoint } => {
                write!(f, "the text of the site at {patchpoint:#x} cannot be written")
            }
        }
    }
}

impl core::error::Error for PatchError {}
