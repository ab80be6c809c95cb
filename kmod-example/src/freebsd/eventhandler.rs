//! Event handlers: `EVENTHANDLER_REGISTER(9)`, `sys/sys/eventhandler.h`, main.

use core::ffi::{CStr, c_char, c_int, c_void};

unsafe extern "C" {
    fn eventhandler_register(
        list: *mut c_void,
        name: *const c_char,
        func: *mut c_void,
        arg: *mut c_void,
        priority: c_int,
    ) -> *mut c_void;
    fn eventhandler_find_list(name: *const c_char) -> *mut c_void;
    fn eventhandler_deregister(list: *mut c_void, tag: *mut c_void);
}

/// `EVENTHANDLER_PRI_ANY`: in any order relative to other handlers.
pub const PRI_ANY: c_int = 10_000;

/// A registered handler, until it is [deregistered](Self::deregister). Dropping it leaves it
/// registered.
#[derive(Debug)]
pub struct EventHandler {
    name: &'static CStr,
    tag: *mut c_void,
}

// SAFETY: the tag is only passed back to the kernel, which locks its lists itself.
unsafe impl Send for EventHandler {}

impl EventHandler {
    /// Registers `func` for the event `name` (`EVENTHANDLER_REGISTER`). Sleeps.
    ///
    /// # Safety
    /// `func` must have the type that `sys/sys/eventhandler.h` declares for the event, and be sound to call with `arg` in the
    /// event's context until [`deregister`](Self::deregister) has returned.
    pub unsafe fn register(
        name: &'static CStr,
        func: *const (),
        arg: *mut c_void,
        priority: c_int,
    ) -> Self {
        let list = core::ptr::null_mut();
        // SAFETY: with a NULL list the kernel finds or makes the list of that name; the caller guarantees `func`.
        let tag = unsafe {
            eventhandler_register(list, name.as_ptr(), func.cast_mut().cast(), arg, priority)
        };
        Self { name, tag }
    }

    /// Deregisters the handler (`EVENTHANDLER_DEREGISTER`). Sleeps until no thread runs it.
    pub fn deregister(self) {
        // SAFETY: `tag` is on this list until now. `eventhandler_find_list` returns the list locked, and
        // `eventhandler_deregister` unlocks it.
        unsafe {
            let list = eventhandler_find_list(self.name.as_ptr());
            if !list.is_null() {
                eventhandler_deregister(list, self.tag);
            }
        }
    }
}
