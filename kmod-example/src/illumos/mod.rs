//! The module as illumos loads it: calls [`on_exec`](crate::on_exec) on every exec.
//!
//! A driver has no need of such a hook: its probes fire where the kernel calls it. See
//! [`exec`] for what this one is, and is not.

mod exec;

use core::ffi::CStr;

use sdt_core::illumos::{Errno, Module, console};
use sdt_core::illumos_module;
use sdt_core::sync::Mutex;

mod by_hand;

use by_hand::ByHand;

illumos_module!(proc_example, EXAMPLE, info = c"SDT probes in Rust");

static EXAMPLE: Example = Example { by_hand: Mutex::new(None) };

/// The module.
struct Example {
    /// Its kstat, while the module is loaded.
    by_hand: Mutex<Option<ByHand>>,
}

impl Module for Example {
    fn load(&self) -> Result<(), Errno> {
        // SAFETY: `unload` removes it, and so does what follows if it fails.
        let by_hand = unsafe { ByHand::add() }.ok_or(Errno::EEXIST)?;
        // SAFETY: `unload` deregisters it.
        if let Err(exec::Busy) = unsafe { exec::register(before_exec) } {
            by_hand.remove();
            return Err(Errno::EBUSY);
        }
        *self.by_hand.lock() = Some(by_hand);
        Ok(())
    }

    fn unload(&self) -> Result<(), Errno> {
        // First of all: this one may refuse, and then everything stays as it is.
        exec::deregister().map_err(|exec::Busy| Errno::EBUSY)?;
        // Taken out before it sleeps, which must not happen under a lock.
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
