//! A framework crate that re-exports `sdt-core` under other names, and a macro so that its users need not write `crate = path`.
//! The crate [user](../user) depends only on this crate.
#![no_std]

pub use tracing_core as sdt;

/// Declares a provider, as `sdt_provider!` does.
#[macro_export]
macro_rules! provider {
    ($($provider:tt)*) => {
        $crate::sdt::sdt_provider! { crate = $crate::sdt; $($provider)* }
    };
}

provider! {
    /// The probes of the framework itself.
    pub framework {
        /// It has started.
        fn started(version: u32);
        /// A task runs.
        #[cfg(all())]
        fn task(name: &core::ffi::CStr, id: u64);
    }
}

provider! {
    /// An open provider: the sites declare its probes.
    pub framework_open
}

/// Fires probes of both providers in this crate.
pub fn start() {
    sdt::sdt_probe!(framework::started, 1);
    sdt::sdt_probe!(framework_open::started, u32::from(1u8));
}
