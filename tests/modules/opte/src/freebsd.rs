//! The module as FreeBSD loads it: calls `on_exec` on every exec.

#[path = "../../../../kmod-example/src/freebsd/eventhandler.rs"]
mod eventhandler;
#[path = "../../../../kmod-example/src/freebsd/exec.rs"]
mod exec;

use eventhandler::EventHandler;
use exec::Exec;
use sdt_core::freebsd::{Errno, Module, console};
use sdt_core::freebsd_module;
use sdt_core::sync::Mutex;

freebsd_module!(xde_probes, TEST);

static TEST: Test = Test { hook: Mutex::new(None) };

/// The module.
struct Test {
    /// The event handler, while the module is loaded.
    hook: Mutex<Option<EventHandler>>,
}

impl Module for Test {
    fn load(&self) -> Result<(), Errno> {
        // SAFETY: `unload` deregisters it.
        let hook = unsafe {
            exec::register(|exec: Exec<'_>| {
                _ = exec.path();
                crate::on_exec();
            })
        };
        *self.hook.lock() = Some(hook);
        Ok(())
    }

    fn unload(&self) -> Result<(), Errno> {
        // Sleeps until no exec is in the handler any more.
        if let Some(hook) = self.hook.lock().take() {
            hook.deregister();
        }
        Ok(())
    }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    console::panic_kernel(info)
}
