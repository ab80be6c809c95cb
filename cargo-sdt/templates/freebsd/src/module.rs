//! The module as FreeBSD loads it.

use sdt_core::freebsd::{Errno, Module, console};
use sdt_core::freebsd_module;
use sdt_core::sync::Mutex;

use crate::by_hand::ByHand;

freebsd_module!(my_module, MODULE);

static MODULE: MyModule = MyModule {
    by_hand: Mutex::new(None),
};

/// The module. Its probes need no code here: the kernel finds them, or `freebsd_module!` registers them.
struct MyModule {
    /// The sysctl, while the module is loaded.
    by_hand: Mutex<Option<ByHand>>,
}

impl Module for MyModule {
    fn load(&self) -> Result<(), Errno> {
        // SAFETY: `unload` removes it before the kernel unloads the module.
        let by_hand = unsafe { ByHand::add() }.ok_or(Errno::EEXIST)?;
        *self.by_hand.lock() = Some(by_hand);
        Ok(())
    }

    fn unload(&self) -> Result<(), Errno> {
        // Unlock first: `remove` sleeps.
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
