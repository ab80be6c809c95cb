//! Output on the kernel's console, and a panic of the kernel: `cmn_err(9F)`.

use core::ffi::{c_char, c_int};
use core::fmt;
use core::panic::PanicInfo;

use crate::line::Line;

unsafe extern "C" {
    // Any context in which a lock may be taken.
    fn cmn_err(level: c_int, format: *const c_char, ...);
}

// usr/src/uts/common/sys/cmn_err.h
const CE_CONT: c_int = 0;
const CE_WARN: c_int = 2;
const CE_PANIC: c_int = 3;

/// Prints a line on the system console and into the log. Not in probe context: `cmn_err` takes locks.
pub fn print(text: fmt::Arguments<'_>) {
    // SAFETY: a NUL-terminated string, as the format says.
    unsafe { cmn_err(CE_CONT, c"%s\n".as_ptr(), Line::of(text).as_ptr()) };
}

/// Prints a warning on the system console and into the log. Not in probe context: `cmn_err` takes locks.
pub fn warn(text: fmt::Arguments<'_>) {
    // SAFETY: the format takes one NUL-terminated string, which `Line` is.
    unsafe { cmn_err(CE_WARN, c"%s".as_ptr(), Line::of(text).as_ptr()) };
}

/// Panics the kernel with Rust's message, for a module's `#[panic_handler]`.
pub fn panic_kernel(info: &PanicInfo<'_>) -> ! {
    // SAFETY: the format takes one NUL-terminated string, which `Line` is.
    unsafe { cmn_err(CE_PANIC, c"%s".as_ptr(), Line::of(format_args!("{info}")).as_ptr()) };
    // `cmn_err(CE_PANIC)` does not return, but its type does not express this.
    loop {
        core::hint::spin_loop();
    }
}
