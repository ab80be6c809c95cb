//! A framework crate that hands `sdt-core` on under names of its own, and a macro that spares its users
//! `crate = path`. Its [user](../user) depends on nothing else.
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
    /// The framework's own.
    pub framework {
        /// It has started.
        fn started(version: u32);
        /// A task runs.
        #[cfg(all())]
        fn task(name: &core::ffi::CStr, id: u64);
    }
}

provider! {
    /// Its probes are declared where they fire.
    pub framework_open
}

/// Fires from here.
pub fn start() {
    sdt::sdt_probe!(framework::started, 1);
    sdt::sdt_probe!(framework_open::started, u32::from(1u8));
}
