//! A module, for its metadata.

use sdt_core::freebsd::{Errno, Module, console};
use sdt_core::freebsd_module;

freebsd_module!(conformance_probes, CONFORMANCE);

static CONFORMANCE: Conformance = Conformance;

/// The module.
struct Conformance;

impl Module for Conformance {
    fn load(&self) -> Result<(), Errno> {
        Ok(())
    }

    fn unload(&self) -> Result<(), Errno> {
        Ok(())
    }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    console::panic_kernel(info)
}
