//! A test's module as FreeBSD loads it: calls `on_exec` of the crate on every exec.

#[path = "../../../kmod-example/src/freebsd/eventhandler.rs"]
mod eventhandler;
#[path = "../../../kmod-example/src/freebsd/exec.rs"]
mod exec;

use eventhandler::EventHandler;
use exec::Exec;
use sdt_core::freebsd::{Errno, Module, console};
use sdt_core::sync::Mutex;

pub(crate) static TEST: Test = Test { hook: Mutex::new(None) };

/// The module.
pub(crate) struct Test {
    /// The event handler, while the module is loaded.
    hook: Mutex<Option<EventHandler>>,
}

impl Module for Test {
    fn load(&self) -> Result<(), Errno> {
        // SAFETY: `unload` deregisters it.
        let hook = unsafe {
            exec::register(|exec: Exec<'_>| crate::on_exec(exec.path().unwrap_or_default()))
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
