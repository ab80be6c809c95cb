//! The native route: the kernel's own sdt finds the module's probes in its file.
//!
//! The macros emit the same as C's `SDT_PROVIDER_DEFINE`, `SDT_PROBE_DEFINEn` and `SDT_PROBEn` (`sys/sys/sdt.h`):
//! [records](record) in the kernel's linker sets, and firing sites. `sdt.ko` registers the probes after the module was
//! loaded, patches their sites (15) or stores their ids (before 15), and refuses to unload the module while a probe is
//! enabled. The module does not depend on `dtrace`: without DTrace it loads and runs, at the cost of its sites.
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

/// The probes of a module, which the kernel manages itself.
#[derive(Debug)]
pub struct Probes;

impl Probes {
    /// Returns the probes of a module.
    pub const fn new(_: &'static CStr) -> Self {
        Self
    }

    /// Does nothing: the kernel finds the probes after it has loaded the module.
    ///
    /// # Safety
    /// None.
    ///
    /// # Errors
    /// None.
    pub unsafe fn attach(&'static self) -> Result<(), Infallible> {
        Ok(())
    }

    /// Does nothing: the kernel destroys the probes before it sends `MOD_UNLOAD` to the module.
    ///
    /// # Errors
    /// None.
    pub fn detach(&self) -> Result<(), Errno> {
        Ok(())
    }
}

/// Metadata: the module depends only on the kernel.
#[doc(hidden)]
#[macro_export]
macro_rules! __sdt_module_needs {
    () => {};
}
