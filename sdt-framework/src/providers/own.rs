//! The provider `dtrace`: the probes BEGIN, END and ERROR, which fire for one consumer at a time.

use core::sync::atomic::{AtomicU32, Ordering};

use sdt_core::ops::{
    Attribute, Class, Framework as _, FrameworkError, Privileges, ProviderAttr, ProviderOps,
    Stability,
};

use crate::dtrace::Dtrace;
use crate::host::Host;

/// One of the probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Own {
    Begin,
    End,
    Error,
}

/// Their numbers, which follow each other.
pub(crate) struct OwnProbes(AtomicU32);

/// Nobody has registered them: no number of a probe's is one of three from here.
const NONE: u32 = u32::MAX - 3;

impl OwnProbes {
    pub(crate) const fn new() -> Self {
        Self(AtomicU32::new(NONE))
    }

    /// The number of one, if it is there. Probe context.
    pub(crate) fn id(&self, own: Own) -> Option<u32> {
        let first = Some(self.0.load(Ordering::Relaxed)).filter(|first| *first != NONE)?;
        Some(first + own as u32)
    }

    /// Whether this is the number of one. Probe context.
    pub(crate) fn is(&self, id: u32) -> bool {
        id.wrapping_sub(self.0.load(Ordering::Relaxed)) < 3
    }
}

const STABLE: Attribute = Attribute::new(Stability::Stable, Stability::Stable, Class::Common);
const PRIVATE: Attribute = Attribute::new(Stability::Private, Stability::Private, Class::Unknown);

/// As in dtrace.c (`dtrace_provider_attr`).
const ATTRIBUTES: ProviderAttr = ProviderAttr {
    provider: STABLE,
    module: PRIVATE,
    function: PRIVATE,
    name: STABLE,
    args: STABLE,
};

/// # The provider `dtrace`
///
/// `BEGIN`, `END` and `ERROR`, for kernels whose consumers send programs.
impl<H: Host> Dtrace<H> {
    /// Registers the provider `dtrace`: `BEGIN` fires when a consumer goes, `END` when it stops, `ERROR` when a program of
    /// its is given up. Called right after [`init`](Self::init) their numbers are 1, 2 and 3, as in DTrace. A kernel
    /// whose consumers send programs calls it; that of others has no use for them.
    ///
    /// # Errors
    /// [`FrameworkError::Busy`] if they are there; [`FrameworkError::Full`] if there is no room for them, or not for three
    /// with numbers that follow each other; [`FrameworkError::NotReady`].
    pub fn register_own(&self) -> Result<(), FrameworkError> {
        if self.own.0.load(Ordering::Relaxed) != NONE {
            return Err(FrameworkError::Busy);
        }
        let (none, arg) = (Privileges::empty(), core::ptr::null_mut());
        // SAFETY: the ops do nothing.
        let provider =
            unsafe { self.register(c"dtrace", &ATTRIBUTES, none, &ProviderOps::INERT, arg) }?;
        let mut first = None;
        for (name, offset) in [(c"BEGIN", 0), (c"END", 1), (c"ERROR", 2)] {
            let created = self.find_or_create(provider, [c"", c"", name], 0, arg);
            let id = created.map(|id| id.get());
            let first = *first.get_or_insert(id.unwrap_or(0));
            if id != Ok(first + offset) {
                self.invalidate(provider);
                self.unregister(provider)?;
                return Err(id.err().unwrap_or(FrameworkError::Full));
            }
        }
        self.own.0.store(first.unwrap_or(NONE), Ordering::Relaxed);
        Ok(())
    }
}
