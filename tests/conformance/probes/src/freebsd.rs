//! A module, whose metadata and offsets of kernel structures the tests compare with C.

#[allow(dead_code, reason = "only its offsets are looked at")]
#[path = "../../../../kmod-example/src/freebsd/eventhandler.rs"]
mod eventhandler;
#[allow(dead_code, reason = "as above")]
#[path = "../../../../kmod-example/src/freebsd/exec.rs"]
mod exec;

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

/// The offsets of `image_params.args` and `image_args.fname`, which no Rust structure declares.
#[unsafe(no_mangle)]
static EXEC_OFFSETS: [usize; 2] = match exec::OFFSETS {
    Some((args, fname)) => [args, fname],
    None => [0; 2],
};

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    console::panic_kernel(info)
}
