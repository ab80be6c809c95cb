//! The module as illumos loads it: calls [`on_exec`](crate::on_exec) on every exec.
//!
//! A driver has no need of such a hook: its probes fire where the kernel calls it. See
//! [`exec`] for what this one is, and is not.

use sdt_core::illumos::exec::{self, Exec};
use sdt_core::illumos::{Errno, Module, console};
use sdt_core::illumos_module;

illumos_module!(proc_example, EXAMPLE, info = c"SDT probes in Rust");

static EXAMPLE: Example = Example;

/// The module.
struct Example;

impl Module for Example {
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
    crate::on_exec(exec.path(&mut [0; PATH_LEN]));
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    console::panic_kernel(info)
}
