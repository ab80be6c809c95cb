//! The provider `dtrace`: registers BEGIN, END and ERROR.

use sdt_core::ops::{
    Attribute, Class, FrameworkError, Privileges, ProviderAttr, ProviderOps, Stability,
};

use crate::base::host::Host;
use crate::control::Control;

const STABLE: Attribute = Attribute::new(Stability::Stable, Stability::Stable, Class::Common);
const PRIVATE: Attribute = Attribute::new(Stability::Private, Stability::Private, Class::Unknown);

/// The attributes that dtrace.c has (`dtrace_provider_attr`).
const ATTRIBUTES: ProviderAttr = ProviderAttr {
    provider: STABLE,
    module: PRIVATE,
    function: PRIVATE,
    name: STABLE,
    args: STABLE,
};

impl<H: Host> Control<H> {
    /// [`Dtrace::register_own`](crate::Dtrace::register_own).
    pub(crate) fn register_own(&self) -> Result<(), FrameworkError> {
        if !self.hits.own.claim() {
            return Err(FrameworkError::Busy);
        }
        let first = self.create_own();
        self.hits.own.set(first.as_ref().ok().copied());
        first.map(drop)
    }

    /// Creates the probes. Returns the number of the first.
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
                self.invalidate(provider);
                self.unregister(provider)?;
                Err(created.into_iter().find_map(Result::err).unwrap_or(FrameworkError::Full))
            }
        }
    }
}
