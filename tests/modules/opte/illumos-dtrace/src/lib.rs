//! The companion of the module with OPTE's probes on illumos, for the provider route: the module's probes exist while the
//! companion is loaded. See `sdt_core::illumos::companion`.
#![cfg_attr(not(test), no_std)]
#![cfg(target_os = "illumos")]

use sdt_core::illumos::console;
use sdt_core::illumos_companion;

illumos_companion!(xde_probes, "misc");

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    console::panic_kernel(info)
}
