//! The event `process_exec`: a process is about to run a new image.
//!
//! `sys/sys/imgact.h` and `execlist_fn` in `sys/sys/eventhandler.h`; LP64.

use core::ffi::{CStr, c_char, c_void};
use core::fmt;
use core::marker::PhantomData;

use sdt_core::freebsd::VERSION;

use super::eventhandler::{EventHandler, PRI_ANY};

/// `struct image_params`.
type ImageParams = c_void;

/// Where `struct image_params` has its `args`, and where `struct image_args` has its `fname`: as 10.2, and 12.1 to
/// main have it. Of 11 it is not known here whether all its releases agree.
pub const OFFSETS: Option<(usize, usize)> = match VERSION / 100_000 {
    10 => Some((112, 32)),
    11 => None,
    _ => Some((104, 40)),
};

/// An image about to be run, for as long as its handlers are called.
pub struct Exec<'a>(*const ImageParams, PhantomData<&'a ()>);

impl Exec<'_> {
    /// The path as it was given to `execve`; none when the image was given by file descriptor, and none on 11.
    pub fn path(&self) -> Option<&CStr> {
        let (args, fname) = OFFSETS?;
        // SAFETY: the kernel keeps the arguments while handlers run, and has them there; the name, where there
        // is one, is NUL-terminated.
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

/// What is called for each image. In the context of the process that executes it; may sleep.
pub type Handler = fn(Exec<'_>);

/// Calls `handler` on every exec, until it is deregistered. Sleeps.
///
/// # Safety
/// Before the module is unloaded, [`EventHandler::deregister`] must have been called.
pub unsafe fn register(handler: Handler) -> EventHandler {
    let trampoline = on_process_exec as *const ();
    // SAFETY: the trampoline is an `execlist_fn` and takes the handler as its argument; by contract it is
    // deregistered in time.
    unsafe { EventHandler::register(c"process_exec", trampoline, handler as *mut c_void, PRI_ANY) }
}

unsafe extern "C" fn on_process_exec(
    handler: *mut c_void,
    _: *mut c_void,
    image: *const ImageParams,
) {
    // SAFETY: what `register` gave.
    let handler = unsafe { core::mem::transmute::<*mut c_void, Handler>(handler) };
    // The kernel passes the image's parameters, good for the call.
    handler(Exec(image, PhantomData));
}
