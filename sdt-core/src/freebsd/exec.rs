//! The event `process_exec`: a process is about to run a new image.
//!
//! `sys/sys/imgact.h` and `execlist_fn` in `sys/sys/eventhandler.h`. The fields used here are at the same
//! offsets from 12 to 15, LP64.

use core::ffi::{CStr, c_char, c_void};
use core::fmt;
use core::mem::offset_of;

use static_assertions::const_assert_eq;

use crate::freebsd::eventhandler::{EventHandler, PRI_ANY};

/// `struct image_params`, up to what is used here.
#[repr(C)]
struct ImageParams {
    /// `proc` to `ps_strings`.
    before: [usize; 13],
    args: *const ImageArgs,
}

/// `struct image_args`, up to what is used here.
#[repr(C)]
struct ImageArgs {
    /// `buf` to `endp`.
    before: [usize; 5],
    fname: *const c_char,
}

const_assert_eq!(offset_of!(ImageParams, args), 104);
const_assert_eq!(offset_of!(ImageArgs, fname), 40);

/// An image about to be run, for as long as its handlers are called.
pub struct Exec<'a>(&'a ImageParams);

impl Exec<'_> {
    /// The path as it was given to `execve`; none when the image was given by file descriptor.
    pub fn path(&self) -> Option<&CStr> {
        // SAFETY: the kernel keeps the arguments while handlers run; the name, where there is one, is
        // NUL-terminated.
        unsafe {
            let name = (*self.0.args).fname;
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
    // SAFETY: the kernel passes the image's parameters, good for the call.
    handler(Exec(unsafe { &*image }));
}
