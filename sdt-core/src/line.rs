//! One line of text for a kernel's console.

use core::ffi::c_char;
use core::fmt::{self, Write};

/// One line of text with its NUL, cut if it does not fit.
pub(crate) struct Line {
    text: [u8; 256],
    len: usize,
}

impl Line {
    pub(crate) fn of(text: fmt::Arguments<'_>) -> Self {
        let mut line = Self { text: [0; 256], len: 0 };
        // Fails when the line is full; the rest is cut.
        line.write_fmt(text).ok();
        line
    }

    pub(crate) fn as_ptr(&self) -> *const c_char {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_and_keep_their_nul() {
        let line = Line::of(format_args!("{}{}", "ab", 3));
        // SAFETY: a line ends with a NUL.
        assert_eq!(unsafe { core::ffi::CStr::from_ptr(line.as_ptr()) }, c"ab3");
        let long = Line::of(format_args!("{:x>300}", ""));
        // SAFETY: a line ends with a NUL.
        let text = unsafe { core::ffi::CStr::from_ptr(long.as_ptr()) };
        assert_eq!(text.count_bytes(), 255);
    }
}
