//! The module as FreeBSD loads it: hooks `process_exec`.

use core::ffi::{CStr, c_char, c_void};
use core::mem::offset_of;

use sdt_core::freebsd::eventhandler::{EventHandler, PRI_ANY};
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
        let arg = core::ptr::null_mut();
        // SAFETY: `execlist_fn`, and deregistered before the module goes.
        let hook = unsafe {
            EventHandler::register(c"process_exec", process_exec as *const (), arg, PRI_ANY)
        };
        *self.hook.lock() = Some(hook);
        Ok(())
    }

    fn unload(&self) -> Result<(), Errno> {
        // Not under the lock: deregistering sleeps until no exec is in the handler any more.
        let hook = self.hook.lock().take();
        if let Some(hook) = hook {
            hook.deregister();
        }
        Ok(())
    }
}

/// `execlist_fn` (`sys/sys/eventhandler.h`): a process is about to run the image in `imgp`.
unsafe extern "C" fn process_exec(_: *mut c_void, _: *mut c_void, imgp: *const ImageParams) {
    // SAFETY: the kernel passes the image's parameters, and the name, where there is one, is
    // NUL-terminated and lives as long.
    let path = unsafe {
        let fname = (*(*imgp).args).fname;
        (!fname.is_null()).then(|| CStr::from_ptr(fname))
    };
    crate::on_exec(path);
}

/// `struct image_params`, up to what is used here (`sys/sys/imgact.h`; the same in 12 to 15).
#[repr(C)]
struct ImageParams {
    /// proc to ps_strings.
    before: [usize; 13],
    args: *const ImageArgs,
}

/// `struct image_args`, up to what is used here (`sys/sys/imgact.h`; the same in 12 to 15).
#[repr(C)]
struct ImageArgs {
    /// buf to endp.
    before: [usize; 5],
    fname: *const c_char,
}

const _: () = assert!(offset_of!(ImageParams, args) == 104);
const _: () = assert!(offset_of!(ImageArgs, fname) == 40);

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    console::panic_kernel(info)
}
