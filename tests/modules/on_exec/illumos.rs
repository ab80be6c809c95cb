//! A test's module as illumos loads it: calls `on_exec` of the crate on every exec.

use core::ffi::CStr;

use illumos_execsw_hook::{Busy, deregister, register};
use sdt_core::illumos::{Errno, Module, console};

pub(crate) static TEST: Test = Test;

/// The module.
pub(crate) struct Test;

impl Module for Test {
    fn load(&self) -> Result<(), Errno> {
        // SAFETY: `unload` fails unless it deregisters the handler.
        unsafe { register(before_exec) }.map_err(|Busy| Errno::EBUSY)
    }

    fn unload(&self) -> Result<(), Errno> {
        deregister().map_err(|Busy| Errno::EBUSY)
    }
}

fn before_exec(path: &CStr) {
    crate::on_exec(path);
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    console::panic_kernel(info)
}
