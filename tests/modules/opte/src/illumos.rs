//! The module as illumos loads it: calls `on_exec` on every exec.

#[path = "../../../../kmod-example/src/illumos/exec.rs"]
mod exec;

use core::ffi::CStr;

use sdt_core::illumos::{Errno, Module, console};
use sdt_core::illumos_module;

illumos_module!(xde_probes, TEST);

static TEST: Test = Test;

/// The module.
struct Test;

impl Module for Test {
    fn load(&self) -> Result<(), Errno> {
        // SAFETY: `unload` deregisters it.
        unsafe { exec::register(before_exec) }.map_err(|exec::Busy| Errno::EBUSY)
    }

    fn unload(&self) -> Result<(), Errno> {
        exec::deregister().map_err(|exec::Busy| Errno::EBUSY)
    }
}

fn before_exec(_: &CStr) {
    crate::on_exec();
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    console::panic_kernel(info)
}
