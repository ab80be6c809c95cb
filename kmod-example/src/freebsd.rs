//! The module as FreeBSD loads it: calls [`on_exec`](crate::on_exec) on every exec.

use sdt_core::freebsd::eventhandler::EventHandler;
use sdt_core::freebsd::exec::{self, Exec};
use sdt_core::freebsd::{Errno, Module, console};
use sdt_core::freebsd_module;
use sdt_core::sync::Mutex;

freebsd_module!(proc_example, EXAMPLE);

static EXAMPLE: Example = Example { hook: Mutex::new(None) };

/// The module.
struct Example {
    /// The event handler, while the module is loaded.
    hook: Mutex<Option<EventHandler>>,
}

impl Module for Example {
    fn load(&self) -> Result<(), Errno> {
        // SAFETY: `unload` deregisters it.
        let hook = unsafe { exec::register(|exec: Exec<'_>| crate::on_exec(exec.path())) };
        *self.hook.lock() = Some(hook);
        Ok(())
    }

    fn unload(&self) -> Result<(), Errno> {
        // Taken out first: deregistering sleeps until no exec is in the handler any more, and that
        // must not happen under a lock.
        let hook = self.hook.lock().take();
        if let Some(hook) = hook {
            hook.deregister();
        }
        Ok(())
    }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    console::panic_kernel(info)
}
