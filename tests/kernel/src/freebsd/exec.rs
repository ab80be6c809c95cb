//! Execution of an image. Performs only the step that modules can observe: invokes the event handlers of `process_exec`.

use core::ffi::{CStr, c_void};

use stand_in_freebsd::imgact::{ImageArgs, ImageParams, Proc};

use super::exports;

/// A `process_exec` handler: `execlist_fn` of `sys/sys/eventhandler.h`.
type ProcessExec = unsafe extern "C" fn(*mut c_void, *mut Proc, *mut ImageParams);

/// Executes an image in a process: performs the steps of `do_execve` that modules can observe. The function is not inlined, so
/// that it appears in stack traces.
#[inline(never)]
pub(super) fn execute(pid: u32, path: &CStr) {
    let Some(list) = exports::event_handlers("process_exec") else { return };
    let mut process = Proc::new(pid as i32, &path.to_string_lossy());
    let mut arguments = ImageArgs::new(path.as_ptr());
    let mut image = ImageParams::new(&mut process, &mut arguments, path.as_ptr());
    list.invoke(|handler| {
        // SAFETY: a handler of this event has this type, and its module keeps it loaded until it is deregistered.
        unsafe {
            let function = core::mem::transmute::<usize, ProcessExec>(handler.function);
            function(handler.argument as *mut c_void, &mut process, &mut image);
        }
    });
}
