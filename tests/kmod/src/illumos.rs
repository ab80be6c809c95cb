//! The module as illumos loads it: calls [`on_exec`](crate::on_exec) on every exec.

use sdt_core::illumos::exec::{self, Exec};
use sdt_core::illumos::{Errno, Module, console};
use sdt_core::illumos_module;

illumos_module!(sdt_test, TEST);

static TEST: Test = Test;

/// The module.
struct Test;

impl Module for Test {
    fn load(&self) -> Result<(), Errno> {
        // SAFETY: `unload` deregisters it.
        unsafe { exec::register(before_exec) }
    }

    fn unload(&self) -> Result<(), Errno> {
        exec::deregister()
    }
}

fn before_exec(exec: Exec<'_>) {
    /// `MAXPATHLEN`.
    const PATH_LEN: usize = 1024;
    crate::on_exec(exec.path(&mut [0; PATH_LEN]).unwrap_or_default());
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    console::panic_kernel(info)
}
