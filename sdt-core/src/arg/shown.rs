//! What `Display` or `Debug` says of a value, as a string for D.

use core::fmt::{self, Write as _};

use super::text::MADE;
use super::{ArgType, Argument, Value};

/// What a text that was cut ends with.
const CUT: &[u8] = b"...";

/// The text of a value, for D a string: at most `SIZE` bytes with the NUL at its end. Longer text is cut, at the end
/// of a character, and ends with `...`. A NUL in it becomes a replacement character's `?`, for D's strings have none.
///
/// Made by [`show`] and [`show_debug`] with 256 bytes, which is what D keeps of a string if option `strsize` says nothing
/// else; by [`new`](Self::new) and [`debug`](Self::debug) with any number of them. In an argument it is made when the
/// probe is enabled, on the stack of the firing thread, on which there must be room for it; how deep the value's own
/// formatting goes is the value's affair. It must not panic, block or allocate.
///
/// ```
/// use sdt_core::arg::{Shown, show};
///
/// sdt_core::sdt_provider!(net);
///
/// fn bad_packet(err: &core::num::ParseIntError) {
///     sdt_core::sdt_probe!(net::bad_packet, show(err));
///     sdt_core::sdt_probe!(net::bad_packet, Shown::<32>::debug(err));
/// }
/// # fn main() { bad_packet(&"x".parse::<u8>().unwrap_err()) }
/// ```
#[derive(Clone)]
pub struct Shown<const SIZE: usize = 256> {
    bytes: [u8; SIZE],
    len: usize,
}

/// What is made of a value where a declared probe wants just that.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "expected `{T}`, found `{Self}`",
    label = "not a `{T}` yet",
    note = "`show(&value)` makes a `Shown` of what has `Display`, `show_debug(&value)` of what has `Debug`, `Shown::new` and \
            `Shown::debug` one of any size; `json(&value)` makes a `Json`: functions of `sdt_core::arg`"
)]
pub trait Made<T> {
    /// It, as it is.
    fn made(self) -> T;
}

impl<T> Made<T> for T {
    #[inline(always)]
    fn made(self) -> T {
        self
    }
}

/// What `Display` says of a value.
pub fn show<T: fmt::Display + ?Sized>(value: &T) -> Shown {
    Shown::new(value)
}

/// What `Debug` says of a value.
pub fn show_debug<T: fmt::Debug + ?Sized>(value: &T) -> Shown {
    Shown::debug(value)
}

impl<const SIZE: usize> Shown<SIZE> {
    /// Looked at by the functions that are called, so that the error is where they are.
    const HAS_ROOM: () =
        assert!(SIZE > CUT.len(), "there is no room for the mark of a text that was cut");

    /// What `Display` says of a value.
    pub fn new<T: fmt::Display + ?Sized>(value: &T) -> Self {
        const { Self::HAS_ROOM };
        Self::of(format_args!("{value}"))
    }

    /// What `Debug` says of a value.
    pub fn debug<T: fmt::Debug + ?Sized>(value: &T) -> Self {
        const { Self::HAS_ROOM };
        Self::of(format_args!("{value:?}"))
    }

    fn of(text: fmt::Arguments<'_>) -> Self {
        let mut shown = Self { bytes: [0; SIZE], len: 0 };
        let mut writer = Writer { shown: &mut shown, is_full: false };
        let is_whole = writer.write_fmt(text).is_ok() && !writer.is_full;
        if !is_whole {
            shown.cut();
        }
        shown
    }

    /// The text, without the NUL.
    pub fn as_str(&self) -> &str {
        let text = self.bytes.get(..self.len).unwrap_or_default();
        core::str::from_utf8(text).unwrap_or_default()
    }

    /// Ends the text with the mark, in the place of whole characters.
    fn cut(&mut self) {
        let most = SIZE - 1 - CUT.len();
        let mut end = self.len.min(most);
        // Not in front of what a character goes on with.
        while end > 0 && self.bytes.get(end).is_some_and(|byte| byte & 0xc0 == 0x80) {
            end -= 1;
        }
        if let Some(rest) = self.bytes.get_mut(end..) {
            rest.fill(0);
            rest.iter_mut().zip(CUT).for_each(|(byte, mark)| *byte = *mark);
        }
        self.len = end + CUT.len();
    }
}

/// Takes what there is room for. An error ends the formatting, if that looks at it: what comes behind is none of the text.
struct Writer<'s, const SIZE: usize> {
    shown: &'s mut Shown<SIZE>,
    is_full: bool,
}

impl<const SIZE: usize> fmt::Write for Writer<'_, SIZE> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let Shown { bytes, len } = &mut *self.shown;
        for &byte in text.as_bytes() {
            // The last byte is the NUL.
            let room = bytes.get_mut(*len).filter(|_| *len + 1 < SIZE && !self.is_full);
            let Some(room) = room else {
                self.is_full = true;
                return Err(fmt::Error);
            };
            *room = if byte == 0 { b'?' } else { byte };
            *len += 1;
        }
        Ok(())
    }
}

impl<const SIZE: usize> fmt::Debug for Shown<SIZE> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Shown").field(&self.as_str()).finish()
    }
}

impl<const SIZE: usize> Value for Shown<SIZE> {
    type Words = [u64; 1];

    #[inline(always)]
    fn words(&self) -> [u64; 1] {
        // Exposed, because the framework or a program in D makes a pointer of it again.
        [self.bytes.as_ptr().expose_provenance() as u64]
    }
}

impl<const SIZE: usize> Argument for Shown<SIZE> {
    const TYPES: &'static [ArgType] = &[MADE];
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ffi::CStr;

    #[test]
    fn what_fits_is_there_with_its_nul() {
        let shown = Shown::<8>::new("1234567");
        assert_eq!(shown.as_str(), "1234567");
        let bytes = core::ptr::with_exposed_provenance(shown.words()[0] as usize);
        // SAFETY: the text, which ends with a NUL.
        assert_eq!(unsafe { CStr::from_ptr(bytes) }, c"1234567");
        assert_eq!(show(&-5).as_str(), "-5");
        assert_eq!(show_debug("a\nb").as_str(), "\"a\\nb\"");
    }

    #[test]
    fn what_does_not_is_cut_between_characters() {
        assert_eq!(Shown::<8>::new("12345678").as_str(), "1234...");
        assert_eq!(Shown::<8>::new("123ß5678").as_str(), "123...");
        assert_eq!(Shown::<8>::new("12ß5678").as_str(), "12ß...");
        assert_eq!(Shown::<8>::new("😀😀😀").as_str(), "😀...");
        assert_eq!(Shown::<4>::new("1234").as_str(), "...");
        for length in 0..20 {
            let text = "ß".repeat(length);
            let shown = Shown::<16>::new(&text);
            assert!(shown.as_str().len() < 16);
            assert_eq!(shown.bytes[shown.len], 0);
            assert_eq!(shown.as_str() == text, text.len() < 16);
        }
    }

    #[test]
    fn a_nul_ends_nothing() {
        assert_eq!(show("a\0b").as_str(), "a?b");
    }

    /// `Display` that fails is cut there.
    #[test]
    fn what_fails_is_cut_too() {
        struct Fails;
        impl fmt::Display for Fails {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("half")?;
                Err(fmt::Error)
            }
        }
        assert_eq!(show(&Fails).as_str(), "half...");
    }

    /// `Display` that does not look at what its writes say.
    #[test]
    fn what_ignores_that_there_is_no_room_is_cut_there() {
        struct Ignores(&'static str);
        impl fmt::Display for Ignores {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                for _ in 0..200 {
                    let _ = f.write_str(self.0);
                }
                Ok(())
            }
        }
        let text = show(&Ignores("é"));
        assert_eq!(text.as_str(), format!("{}...", "é".repeat(126)));
        assert_eq!(Shown::<8>::new(&Ignores("12345")).as_str(), "1234...");
        // The second has no room for its first character; the third's would fit, but is not what comes next.
        assert_eq!(Shown::<9>::new(&Ignores("1234567")).as_str(), "12345...");
        assert_eq!(Shown::<8>::new(&Ignores("")).as_str(), "");
    }
}
