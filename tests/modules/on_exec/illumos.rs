//! A test's module as illumos loads it: calls `on_exec` of the crate on every exec.

#[path = "../../../kmod-example/src/illumos/exec.rs"]
mod exec;

use core::ffi::CStr;

use sdt_core::illumos::{Errno, Module, console};

pub(crate) static TEST: Test = Test;

/// The module.
pub(crate) struct Test;

impl Module for Test {
    fn load(&self) -> Result<(), Errno> {
        // SAFETY: `unload` deregisters it.
        unsafe { exec::register(before_exec) }.map_err(|exec::Busy| Errno::EBUSY)
    }

    fn unload(&self) -> Result<(), Errno> {
        exec::deregister().map_err(|exec::Busy| Errno::EBUSY)
    }
}

fn before_exec(path: &CStr) {
    crate::on_exec(path);
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    console::panic_kernel(info)
}
