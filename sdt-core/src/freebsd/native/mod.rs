//! The native route: the kernel's own sdt finds the module's probes in its file.
//!
//! What C's `SDT_PROVIDER_DEFINE`, `SDT_PROBE_DEFINEn` and `SDT_PROBEn` emit (`sys/sys/sdt.h`), the macros emit
//! here: [records](record) in the kernel's linker sets, and firing sites. `sdt.ko` registers the probes when the
//! module has been loaded, patches their sites (15) or tells them their ids (before), and refuses to unload the
//! module while one is enabled. The module does not depend on `dtrace`: it loads, and runs at the cost of its
//! sites, where there is no DTrace.
//!
//! | FreeBSD | a site | while enabled |
//! |---|---|---|
//! | 15 | one nop, recorded in `set_sdt_tracepoint_set` | the kernel has patched a jump over it |
//! | 12 to 14 | a test of `sdt_probes_enabled` | the probe has an id |
//! | 10, 11 | a test of the probe's id | the probe has an id |

pub(crate) mod fire;
pub(crate) mod open;
pub(crate) mod record;

use core::convert::Infallible;
use core::ffi::CStr;

use crate::freebsd::Errno;

/// A module's probes, which are the kernel's business.
#[derive(Debug)]
pub struct Probes;

impl Probes {
    /// The probes of a module.
    pub const fn new(_: &'static CStr) -> Self {
        Self
    }

    /// Nothing: the kernel finds the probes after it has loaded the module.
    ///
    /// # Safety
    /// Any time.
    ///
    /// # Errors
    /// None.
    pub unsafe fn attach(&'static self) -> Result<(), Infallible> {
        Ok(())
    }

    /// Nothing: the kernel has taken the probes away before it asks the module.
    ///
    /// # Errors
    /// None.
    pub fn detach(&self) -> Result<(), Errno> {
        Ok(())
    }
}

/// Metadata: the module needs nothing besides the kernel.
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_module_needs {
    () => {};
}
