//! The kernel's console and its end.

use core::ffi::{CStr, c_char, c_int};
use core::fmt::{self, Write};
use core::panic::PanicInfo;

unsafe extern "C" {
    // Any context in which a lock may be taken.
    fn printf(format: *const c_char, ...) -> c_int;
    fn panic(format: *const c_char, ...) -> !;
}

/// Two strings in one format: LLVM makes `puts` of a lone `"%s\n"`, which no kernel exports.
const LINE: &CStr = c"%s%s";

/// One line of text, cut if it does not fit.
struct Line {
    text: [u8; 256],
    len: usize,
}

impl Line {
    fn of(text: fmt::Arguments<'_>) -> Self {
        let mut line = Self { text: [0; 256], len: 0 };
        // Fails when the line is full; the rest is cut.
        line.write_fmt(text).ok();
        line
    }

    fn as_ptr(&self) -> *const c_char {
        self.text.as_ptr().cast()
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for &byte in text.as_bytes() {
            // One byte stays for the NUL.
            if self.len + 1 == self.text.len() {
                return Err(fmt::Error);
            }
            self.text[self.len] = byte;
            self.len += 1;
        }
        Ok(())
    }
}

/// Prints a line on the system console. Not in probe context: the kernel's `printf` takes locks.
pub fn print(text: fmt::Arguments<'_>) {
    let line = Line::of(text);
    // SAFETY: two NUL-terminated strings, as the format says.
    unsafe { printf(LINE.as_ptr(), line.as_ptr(), c"\n".as_ptr()) };
}

/// Panics the kernel with Rust's message, for a module's `#[panic_handler]`.
pub fn panic_kernel(info: &PanicInfo<'_>) -> ! {
    let line = Line::of(format_args!("{info}"));
    // SAFETY: as in `print`.
    unsafe { panic(LINE.as_ptr(), line.as_ptr(), c"".as_ptr()) }
}
