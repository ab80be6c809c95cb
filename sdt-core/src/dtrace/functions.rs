//! A table of DTrace's functions, which a module gets from the linker or from another module.

use core::ffi::{c_char, c_int, c_void};

use crate::ops::{ProviderAttr, ProviderOps};

/// Declares the type of the table of functions, and the table with the functions that the linker finds.
macro_rules! functions {
    ($($(#[$doc:meta])* $field:ident = $function:ident($($name:ident: $type:ty),* $(,)?) $(-> $result:ty)?;)*) => {
        /// DTrace's functions.
        #[derive(Clone, Copy, Debug)]
        #[repr(C)]
        pub struct Functions {
            $($(#[$doc])* pub $field: unsafe extern "C" fn($($name: $type),*) $(-> $result)?,)*
        }

        impl Functions {
            /// The functions that the linker finds. A constant, so that only code that uses it refers to them.
            pub const DTRACE: Self = {
                unsafe extern "C" {
                    $(fn $function($($name: $type),*) $(-> $result)?;)*
                }
                Self { $($field: $function),* }
            };
        }
    };
}

functions! {
    /// `dtrace_register`. Sleeps. Copies the strings, attributes and ops. `cred` is NULL, because a module's probes
    /// belong to no user.
    register = dtrace_register(
        name: *const c_char,
        attr: *const ProviderAttr,
        privileges: u32,
        cred: *mut c_void,
        ops: *const ProviderOps,
        arg: *mut c_void,
        id: *mut usize,
    ) -> c_int;
    /// `dtrace_unregister`. Sleeps.
    unregister = dtrace_unregister(id: usize) -> c_int;
    /// `dtrace_invalidate`. Sleeps.
    invalidate = dtrace_invalidate(id: usize);
    /// `dtrace_condense`. Sleeps. Returns 0.
    condense = dtrace_condense(id: usize) -> c_int;
    /// `dtrace_probe_lookup`. Sleeps.
    probe_lookup = dtrace_probe_lookup(
        id: usize,
        module: *const c_char,
        function: *const c_char,
        name: *const c_char,
    ) -> u32;
    /// `dtrace_probe_create`. Sleeps; copies the strings.
    probe_create = dtrace_probe_create(
        id: usize,
        module: *const c_char,
        function: *const c_char,
        name: *const c_char,
        aframes: c_int,
        parg: *mut c_void,
    ) -> u32;
    /// `dtrace_probe`. Any context; does not check the id.
    probe = dtrace_probe(id: u32, arg0: usize, arg1: usize, arg2: usize, arg3: usize, arg4: usize);
}
