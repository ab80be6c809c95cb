//! The companion of a module with its own providers: a second module, and the only one that depends on `drv/dtrace`.
//!
//! fbt instruments no module that depends on `dtrace`, directly or indirectly (`usr/src/uts/intel/dtrace/fbt.c`, 2025),
//! and such a module does not load without DTrace. Therefore the module itself does not use DTrace. It exports a
//! [`Driver`] table. Its companion depends on the module and on DTrace, and passes DTrace's [`Functions`] to the module
//! when it is loaded. The probes exist while the companion is loaded, which keeps the module loaded.
//!
//! The companion of `x` has the name `x_dtrace`, and is a crate of one line:
//!
//! ```ignore
//! illumos_companion!(x, "misc");
//! ```

use core::ffi::{CStr, c_int};

use static_assertions::const_assert_eq;

use crate::dtrace::Functions;
use crate::errno::Errno;
use crate::illumos::console;
use crate::illumos::module::{Module, check};

/// The table that a module exports for its companion, as `sdt_driver_` and the name of the module.
#[derive(Debug)]
#[repr(C)]
pub struct Driver {
    /// [`Driver::VERSION`] of the sdt-core that made it.
    pub version: u32,
    /// Registers the providers. Returns 0 or an error number.
    pub attach: unsafe extern "C" fn(functions: *const Functions) -> c_int,
    /// Unregisters them. Returns 0, or an error number if they are still registered.
    pub detach: unsafe extern "C" fn() -> c_int,
}

const_assert_eq!(size_of::<Driver>(), 24);

impl Driver {
    /// The version of the two tables. It increases when the layout of `Driver` or `Functions` changes.
    pub const VERSION: u32 = 3;
}

/// A companion's own events.
#[derive(Debug)]
pub struct Companion {
    name: &'static CStr,
    functions: &'static Functions,
    /// The location of the address of the module's table, which krtld stores.
    driver: *const &'static Driver,
}

// SAFETY: it is read-only once the companion is loaded.
unsafe impl Sync for Companion {}

impl Companion {
    /// Returns the companion of this name, of the module whose table `driver` refers to.
    ///
    /// # Safety
    /// The reference is valid when the companion is loaded.
    pub const unsafe fn new(
        name: &'static CStr,
        functions: &'static Functions,
        driver: *const &'static Driver,
    ) -> Self {
        Self { name, functions, driver }
    }

    fn driver(&self) -> &'static Driver {
        // Volatile, because the compiler would take the reference as constant, but krtld relocates it.
        // SAFETY: `new` demands a pointer to a static that holds a reference.
        unsafe { self.driver.read_volatile() }
    }
}

impl Module for Companion {
    fn load(&self) -> Result<(), Errno> {
        let driver = self.driver();
        if driver.version != Driver::VERSION {
            console::warn(format_args!(
                "{}: the module of this companion was built with another version of sdt-core: its \
                 table has version {}, not {}; build both with one version",
                self.name.to_str().unwrap_or("?"),
                driver.version,
                Driver::VERSION,
            ));
            return Err(Errno::EINVAL);
        }
        // SAFETY: the function belongs to a module on which this one depends. DTrace's functions stay while this module
        // is loaded, which is until `detach` has succeeded.
        check(unsafe { (driver.attach)(self.functions) })
    }

    fn unload(&self) -> Result<(), Errno> {
        // DTrace also returns EAGAIN; a module must return EBUSY.
        // SAFETY: the function is that of a module on which this one depends.
        check(unsafe { (self.driver().detach)() }).map_err(|_| Errno::EBUSY)
    }
}

/// Makes this crate the companion of a module: `illumos_companion!(my_driver, "drv")` of the driver `my_driver`. The
/// library of the crate must have the name `my_driver_dtrace`.
#[macro_export]
macro_rules! illumos_companion {
    ($driver:ident, $class:literal) => {
        const _: () = {
            use ::core::ffi::CStr;
            use $crate::__private::companion::*;
            use $crate::__private::dtrace::Functions;

            unsafe extern "C" {
                #[link_name = "__sdt_driver"]
                static DRIVER: &'static Driver;
            }

    const NAME: &CStr = $crate::__sdt_module!(@c_name $driver, "_dtrace");
            static FUNCTIONS: Functions = Functions::DTRACE;
            // SAFETY: krtld loads a companion only if it finds the table.
            static COMPANION: Companion =
                unsafe { Companion::new(NAME, &FUNCTIONS, &raw const DRIVER) };

    $crate::__sdt_module!(@entries NAME, COMPANION, Part::misc(NAME), None);
        };

        // The module's table, whose name contains that of the module, and the modules that krtld must load.
        ::core::arch::global_asm!(
            ".pushsection .data.__sdt_driver, \"aw\", @progbits",
            ".balign 8",
            ".globl __sdt_driver",
            ".hidden __sdt_driver",
            "__sdt_driver:",
            ::core::concat!(".quad sdt_driver_", ::core::stringify!($driver)),
            ".popsection",
            ".pushsection .sdt_depends, \"\", @progbits",
            ".asciz \"drv/dtrace\"",
            ::core::concat!(".asciz \"", $class, "/", ::core::stringify!($driver), "\""),
            ".popsection",
        );
    };
}
