//! Modules whose statics have the names that `freebsd_module!` and `illumos_module!` use internally. The macros must not confuse
//! them with their own items. This example is compiled only, as a file can contain one module.
#![no_std]
#![allow(non_upper_case_globals, non_snake_case)]

use sdt_core as _;

/// Declares a module and a driver for each name: once with a static of this name, once in a Rust module of this name.
#[cfg(any(target_os = "freebsd", target_os = "illumos"))]
macro_rules! named {
    ($($name:ident)*) => {$(
        mod $name {
            mod own {
                static $name: crate::module::Nothing = crate::module::Nothing;
                crate::module::declare!(names, $name);
            }
            mod path {
                mod $name {
                    pub(super) static IT: crate::module::Nothing = crate::module::Nothing;
                }
                crate::module::declare!(names, $name::IT);
            }
            #[cfg(target_os = "illumos")]
            mod driver {
                static $name: crate::module::Ops = crate::module::OPS;
                crate::module::declare!(names, crate::module::NOTHING, info = c"names", driver = $name);
            }
        }
    )*};
}

/// Items that have the names of items of the prelude. The macros must use those of the prelude.
#[cfg(any(target_os = "freebsd", target_os = "illumos"))]
#[expect(dead_code, reason = "for the macros to mistake")]
mod prelude {
    /// A type that the macros must not use.
    pub(super) struct Other;

    pub(super) static Some: Other = Other;
    pub(super) static Ok: Other = Other;
    pub(super) static Err: Other = Other;
    pub(super) static name: Other = Other;
}

#[cfg(any(target_os = "freebsd", target_os = "illumos"))]
mod shadowed {
    #[expect(unused_imports, reason = "for the macros to mistake")]
    use super::prelude::{Err, Ok, Some, name};

    crate::module::declare!(names, crate::module::NOTHING);
}

#[cfg(target_os = "freebsd")]
mod module {
    use sdt_core::freebsd::{Errno, Module};
    pub(crate) use sdt_core::freebsd_module as declare;

    /// Does nothing.
    pub(crate) struct Nothing;

    pub(crate) static NOTHING: Nothing = Nothing;

    impl Module for Nothing {
        fn load(&self) -> Result<(), Errno> {
            Ok(())
        }

        fn unload(&self) -> Result<(), Errno> {
            Ok(())
        }
    }
}

#[cfg(target_os = "freebsd")]
named! {
    CStr c_int c_void Module ModMetadata ModDepend ModuleData SysInit SetEntry EventHandler Errno KERNEL handle_event
    NAME MODULE PROBES on_event DATA VERSION IS_MODULE HAS_VERSION NEEDS_KERNEL REGISTER METADATA SYSINITS
    NEEDS_DTRACE NEEDS event
}

#[cfg(target_os = "illumos")]
mod module {
    pub(crate) use sdt_core::illumos::DevOps as Ops;
    use sdt_core::illumos::{Errno, Module};
    pub(crate) use sdt_core::illumos_module as declare;

    /// Does nothing.
    pub(crate) struct Nothing;

    pub(crate) static NOTHING: Nothing = Nothing;
    #[expect(clippy::declare_interior_mutable_const, reason = "a value for statics")]
    pub(crate) const OPS: Ops = Ops::none();

    impl Module for Nothing {
        fn load(&self) -> Result<(), Errno> {
            Ok(())
        }

        fn unload(&self) -> Result<(), Errno> {
            Ok(())
        }
    }
}

#[cfg(target_os = "illumos")]
named! {
    CStr c_int c_void Linkage Loadable Part Functions Driver Companion
    NAME PROBES PART LINKAGE LOADABLE TABLE _init _info _fini attach detach table info functions
}

#[cfg(any(target_os = "freebsd", target_os = "illumos"))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
