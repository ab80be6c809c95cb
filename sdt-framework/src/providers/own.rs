//! The provider `dtrace`: the probes BEGIN, END and ERROR, which fire for one consumer at a time.

use core::sync::atomic::Ordering;

use sdt_core::ops::{
    Attribute, Class, Framework as _, FrameworkError, Privileges, ProviderAttr, ProviderOps,
    Stability,
};

use crate::dtrace::Dtrace;
use crate::host::Host;
use crate::sync::AtomicU32;

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
/// Somebody is registering them; as [`NONE`] otherwise.
const REGISTERING: u32 = NONE - 3;

impl OwnProbes {
    pub(crate) const fn new() -> Self {
        Self(AtomicU32::new(NONE))
    }

    /// The number of one, if it is there. Probe context.
    pub(crate) fn id(&self, own: Own) -> Option<u32> {
        let first = Some(self.0.load(Ordering::Relaxed)).filter(|first| *first < REGISTERING)?;
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
    /// [`FrameworkError::Busy`] if they are there, or another thread is registering them; [`FrameworkError::Full`] if there is
    /// no room for them, or not for three with numbers that follow each other; [`FrameworkError::NotReady`];
    /// [`FrameworkError::ProbeContext`].
    pub fn register_own(&self) -> Result<(), FrameworkError> {
        self.need_thread()?;
        let own = &self.own.0;
        own.compare_exchange(NONE, REGISTERING, Ordering::Relaxed, Ordering::Relaxed)
            .map_err(|_| FrameworkError::Busy)?;
        let first = self.create_own();
        own.store(*first.as_ref().unwrap_or(&NONE), Ordering::Relaxed);
        first.map(drop)
    }

    /// Returns the number of the first.
    fn create_own(&self) -> Result<u32, FrameworkError> {
        let (none, arg) = (Privileges::empty(), core::ptr::null_mut());
        // SAFETY: the ops do nothing.
        let provider =
            unsafe { self.register(c"dtrace", &ATTRIBUTES, none, &ProviderOps::INERT, arg) }?;
        let create = |name| Ok(self.find_or_create(provider, [c"", c"", name], 0, arg)?.get());
        let created = [c"BEGIN", c"END", c"ERROR"].map(create);
        match created {
            [Ok(begin), Ok(end), Ok(error)] if [end, error] == [begin + 1, begin + 2] => Ok(begin),
            _ => {
                self.invalidate(provider)?;
                self.unregister(provider)?;
                Err(created.into_iter().find_map(Result::err).unwrap_or(FrameworkError::Full))
            }
        }
    }
}
