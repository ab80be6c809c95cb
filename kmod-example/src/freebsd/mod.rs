//! The module as FreeBSD loads it: calls [`on_exec`](crate::on_exec) on every exec.

mod by_hand;
mod eventhandler;
mod exec;

use by_hand::ByHand;
use eventhandler::EventHandler;
use exec::Exec;
use sdt_core::freebsd::{Errno, Module, console};
use sdt_core::freebsd_module;
use sdt_core::sync::Mutex;

freebsd_module!(proc_example, EXAMPLE);

static EXAMPLE: Example = Example { hook: Mutex::new(None), by_hand: Mutex::new(None) };

/// The module.
struct Example {
    /// The event handler, while the module is loaded.
    hook: Mutex<Option<EventHandler>>,
    /// The sysctl that fires the probe, while the module is loaded.
    by_hand: Mutex<Option<ByHand>>,
}

impl Module for Example {
    fn load(&self) -> Result<(), Errno> {
        // SAFETY: `unload` removes the sysctl.
        let by_hand = unsafe { ByHand::add() }.ok_or(Errno::EEXIST)?;
        *self.by_hand.lock() = Some(by_hand);
        // SAFETY: `unload` deregisters the handler.
        let hook = unsafe { exec::register(|exec: Exec<'_>| crate::on_exec(exec.path())) };
        *self.hook.lock() = Some(hook);
        Ok(())
    }

    fn unload(&self) -> Result<(), Errno> {
        // Both are taken out of their locks, because `deregister` and `remove` sleep.
        let hook = self.hook.lock().take();
        if let Some(hook) = hook {
            hook.deregister();
        }
        let by_hand = self.by_hand.lock().take();
        if let Some(by_hand) = by_hand {
            by_hand.remove();
        }
        Ok(())
    }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    console::panic_kernel(info)
}
