//! The text of `Display` or `Debug` of a value, as a string for D.

use core::fmt::{self, Write as _};

use super::text::MADE;
use super::{ArgType, Argument, Value};

/// The mark at the end of a truncated text.
const CUT: &[u8] = b"...";

/// The text of a value, in D a string of at most `SIZE` bytes, including the NUL. Longer text is cut after a character,
/// and ends with `...`. A NUL inside the text is replaced by a `?`, because strings in D end at a NUL.
///
/// [`show`] and [`show_debug`] create one of 256 bytes, the default of option `strsize`; [`new`](Self::new) and
/// [`debug`](Self::debug) create one of any size. As an argument of a probe it is created only if the probe is enabled,
/// on the stack of the firing thread, which must have room for it and for the formatting of the value. The formatting
/// must not panic, block or allocate.
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

/// Conversion of a value to the type that the declaration of a probe names.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "expected `{T}`, found `{Self}`",
    label = "not a `{T}` yet",
    note = "`show(&value)` makes a `Shown` with `Display`, `show_debug(&value)` with `Debug`, \
            `Shown::new` and `Shown::debug` one of another size, `json(&value)` a `Json`; all are \
            in `sdt_core::arg`"
)]
pub trait Made<T> {
    /// Returns the value unchanged.
    fn made(self) -> T;
}

impl<T> Made<T> for T {
    #[inline(always)]
    fn made(self) -> T {
        self
    }
}

/// Returns the text that `Display` writes.
pub fn show<T: fmt::Display + ?Sized>(value: &T) -> Shown {
    Shown::new(value)
}

/// Returns the text that `Debug` writes.
pub fn show_debug<T: fmt::Debug + ?Sized>(value: &T) -> Shown {
    Shown::debug(value)
}

impl<const SIZE: usize> Shown<SIZE> {
    /// The constructors evaluate this constant, so that the compiler's error is at the call.
    const HAS_ROOM: () = assert!(
        SIZE > CUT.len(),
        "the buffer of a `Shown` is too small for the mark of a truncated text"
    );

    /// Returns the text that `Display` writes.
    pub fn new<T: fmt::Display + ?Sized>(value: &T) -> Self {
        const { Self::HAS_ROOM };
        Self::of(format_args!("{value}"))
    }

    /// Returns the text that `Debug` writes.
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

    /// Returns the text, without the NUL.
    pub fn as_str(&self) -> &str {
        let text = self.bytes.get(..self.len).unwrap_or_default();
        core::str::from_utf8(text).unwrap_or_default()
    }

    /// Replaces the last characters by the mark.
    fn cut(&mut self) {
        let most = SIZE - 1 - CUT.len();
        let mut end = self.len.min(most);
        // Not before a continuation byte of a character.
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

/// A writer that keeps the part of the text that fits, and then returns an error. The error ends the formatting, unless
/// the value ignores it. Text after the error is discarded.
struct Writer<'s, const SIZE: usize> {
    shown: &'s mut Shown<SIZE>,
    is_full: bool,
}

impl<const SIZE: usize> fmt::Write for Writer<'_, SIZE> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let Shown { bytes, len } = &mut *self.shown;
        for &byte in text.as_bytes() {
            // The last byte is for the NUL.
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
        // The provenance is exposed, because the framework or a D program turns the address back into a pointer.
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
        // SAFETY: the text ends with a NUL: `write_str` never writes the last byte, which is 0 from the start.
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

    /// If `Display` fails, the text ends there.
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

    /// A `Display` that ignores the results of its writes.
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
        // The first character of the second piece does not fit. That of the third would fit, but is not the next one.
        assert_eq!(Shown::<9>::new(&Ignores("1234567")).as_str(), "12345...");
        assert_eq!(Shown::<8>::new(&Ignores("")).as_str(), "");
    }
}
