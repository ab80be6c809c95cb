//! The module as illumos loads it: calls [`on_exec`](crate::on_exec) on every exec.
//!
//! Replace the hook by your module's own events: the probes of a driver fire where the kernel calls the driver.

mod by_hand;

use core::ffi::CStr;

use illumos_execsw_hook::Busy;
use sdt_core::illumos::{Errno, Module, console};
use sdt_core::illumos_module;
use sdt_core::sync::Mutex;

use by_hand::ByHand;

illumos_module!(proc_example, EXAMPLE, info = c"SDT probes in Rust");

static EXAMPLE: Example = Example { by_hand: Mutex::new(None) };

/// The module.
struct Example {
    /// The kstat that fires the probe, while the module is loaded.
    by_hand: Mutex<Option<ByHand>>,
}

impl Module for Example {
    fn load(&self) -> Result<(), Errno> {
        // SAFETY: `unload` removes the kstat, and so does the error path below.
        let by_hand = unsafe { ByHand::add() }.ok_or(Errno::EEXIST)?;
        // SAFETY: `unload` fails unless it deregisters the handler.
        if let Err(Busy) = unsafe { illumos_execsw_hook::register(before_exec) } {
            by_hand.remove();
            return Err(Errno::EBUSY);
        }
        *self.by_hand.lock() = Some(by_hand);
        Ok(())
    }

    fn unload(&self) -> Result<(), Errno> {
        // First, because it can fail: then the module stays loaded and complete.
        illumos_execsw_hook::deregister().map_err(|Busy| Errno::EBUSY)?;
        // Taken out of the lock, because `remove` sleeps.
        let by_hand = self.by_hand.lock().take();
        if let Some(by_hand) = by_hand {
            by_hand.remove();
        }
        Ok(())
    }
}

fn before_exec(path: &CStr) {
    crate::on_exec(Some(path));
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    console::panic_kernel(info)
}
