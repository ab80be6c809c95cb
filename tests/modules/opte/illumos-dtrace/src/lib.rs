//! The companion of the module with OPTE's probes on illumos: when that is built with a provider of its own, its probes are there
//! while this module is loaded. See `sdt_core::illumos::companion`.
#![cfg_attr(not(test), no_std)]
#![cfg(target_os = "illumos")]

use sdt_core::illumos::console;
use sdt_core::illumos_companion;

illumos_companion!(xde_probes, "misc");

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    console::panic_kernel(info)
}
