//! The companion of the example module on illumos, for the provider route: DTrace lists the example's probes while the companion is
//! loaded. See `sdt_core::illumos::companion`.
#![cfg_attr(not(test), no_std)]
#![cfg(target_os = "illumos")]

use sdt_core::illumos::console;
use sdt_core::illumos_companion;

illumos_companion!(proc_example, "misc");

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    console::panic_kernel(info)
}
