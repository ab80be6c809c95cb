//! The event `process_exec`: a process is about to run a new image. `sys/sys/imgact.h`; `execlist_fn` in
//! `sys/sys/eventhandler.h`; LP64.

use core::ffi::{CStr, c_char, c_void};
use core::fmt;
use core::marker::PhantomData;

use sdt_core::freebsd::VERSION;

use super::eventhandler::{EventHandler, PRI_ANY};

/// `struct image_params`.
type ImageParams = c_void;

/// Offsets of `args` in `struct image_params` and of `fname` in `struct image_args`: those of 10.2, and of 12.1 to main. `None` on
/// 11, whose releases may differ.
pub const OFFSETS: Option<(usize, usize)> = match VERSION / 100_000 {
    10 => Some((112, 32)),
    11 => None,
    _ => Some((104, 40)),
};

/// An image that is about to run; lives while the event's handlers are called.
pub struct Exec<'a>(*const ImageParams, PhantomData<&'a ()>);

impl Exec<'_> {
    /// Returns the path given to `execve`; `None` if the image was given by file descriptor, and on 11.
    pub fn path(&self) -> Option<&CStr> {
        let (args, fname) = OFFSETS?;
        // SAFETY: the kernel keeps the structures while handlers run, with these fields at `OFFSETS`; `fname` is NULL or a C
        // string.
        unsafe {
            let args = self.0.byte_add(args).cast::<*const c_void>().read();
            let name = args.byte_add(fname).cast::<*const c_char>().read();
            (!name.is_null()).then(|| CStr::from_ptr(name))
        }
    }
}

impl fmt::Debug for Exec<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Exec").field(&self.path()).finish()
    }
}

/// A function that is called for each image, in the context of the process that executes it. May sleep.
pub type Handler = fn(Exec<'_>);

/// Calls `handler` on every exec, until it is deregistered. Sleeps.
///
/// # Safety
/// Before the module is unloaded, [`EventHandler::deregister`] must have returned.
pub unsafe fn register(handler: Handler) -> EventHandler {
    let trampoline = on_process_exec as *const ();
    // SAFETY: the trampoline is an `execlist_fn` that takes the handler as its argument; the caller deregisters it before the
    // module is unloaded.
    unsafe { EventHandler::register(c"process_exec", trampoline, handler as *mut c_void, PRI_ANY) }
}

unsafe extern "C" fn on_process_exec(
    handler: *mut c_void,
    _: *mut c_void,
    image: *const ImageParams,
) {
    // SAFETY: `register` passed a `Handler` as the argument.
    let handler = unsafe { core::mem::transmute::<*mut c_void, Handler>(handler) };
    handler(Exec(image, PhantomData));
}
