//! Output on the kernel's console, and a panic of the kernel.

use core::ffi::{CStr, c_char, c_int};
use core::fmt;
use core::panic::PanicInfo;

use crate::line::Line;

unsafe extern "C" {
    // Any context in which a lock may be taken (not probe context).
    fn printf(format: *const c_char, ...) -> c_int;
    fn panic(format: *const c_char, ...) -> !;
}

/// Two strings in one format, because LLVM replaces a lone `"%s\n"` by a call of `puts`, which no kernel exports.
const LINE: &CStr = c"%s%s";

/// Prints a line on the system console. Not in probe context: the kernel's `printf` takes locks.
pub fn print(text: fmt::Arguments<'_>) {
    let line = Line::of(text);
    // SAFETY: two NUL-terminated strings, as the format says.
    unsafe { printf(LINE.as_ptr(), line.as_ptr(), c"\n".as_ptr()) };
}

/// Panics the kernel with Rust's message, for a module's `#[panic_handler]`.
pub fn panic_kernel(info: &PanicInfo<'_>) -> ! {
    let line = Line::of(format_args!("{info}"));
    // SAFETY: the format takes one NUL-terminated string, which `Line` is.
    unsafe { panic(LINE.as_ptr(), line.as_ptr(), c"".as_ptr()) }
}
