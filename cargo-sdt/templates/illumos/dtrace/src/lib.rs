//! The module's companion, for builds with a provider of its own: the probes of the module exist while this companion
//! is loaded. Only the companion depends on DTrace.
#![cfg_attr(not(test), no_std)]
#![cfg(target_os = "illumos")]

use sdt_core::illumos::console;
use sdt_core::illumos_companion;

illumos_companion!(my_module, "misc");

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    console::panic_kernel(info)
}
