//! JSON in a buffer of fixed size, which is valid wherever it has to end.
//!
//! The text is complete up to a point, except for open brackets; there is always room to close them. Where
//! something does not fit, the text is taken back to that point, and the brackets are closed.

use super::serializer::Error;
use crate::arg::Shown;

/// In front of a value.
const OK: &[u8] = b"{\"ok\":";
/// Behind a whole value.
const WHOLE: &[u8] = b"}";
/// Behind a value of which something is missing.
const CUT: &[u8] = b",\"truncated\":true}";

/// Most brackets that are open at a time.
const MOST_OPEN: u32 = 100;

/// The text in the making.
pub(super) struct Text<'a> {
    bytes: &'a mut [u8],
    len: usize,
    /// The length up to which the text is complete, except for brackets.
    whole: usize,
    /// Brackets that are open.
    open: u32,
    /// Which of them are braces: a bit each, the lowest is the innermost's.
    braces: u128,
    /// What ends it.
    tail: &'static [u8],
    /// Whether something did not fit. Nothing is written after that.
    is_cut: bool,
    /// Whether what comes is a key.
    pub(super) is_key: bool,
    /// Why a part of it has failed, whether or not what it is a part of cares.
    pub(super) failed: Option<Shown<64>>,
}

impl<'a> Text<'a> {
    /// The text of a value, which will be whole or not.
    pub(super) fn begin(bytes: &'a mut [u8], is_cut: bool) -> Self {
        let tail = if is_cut { CUT } else { WHOLE };
        let mut text = Self {
            bytes,
            len: 0,
            whole: 0,
            open: 0,
            braces: 0,
            tail,
            is_cut: false,
            is_key: false,
            failed: None,
        };
        text.put(OK);
        text.whole = text.len;
        text
    }

    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Ends it. Returns how many bytes it has.
    pub(super) fn end(mut self) -> usize {
        self.len = self.whole;
        if self.len == OK.len() {
            self.put(b"null");
        }
        while self.open > 0 {
            self.put_bracket();
        }
        self.put(self.tail);
        self.terminate()
    }

    /// The text of a value that could not be had. Returns how many bytes it has.
    pub(super) fn fail(bytes: &'a mut [u8], why: &str) -> usize {
        let mut text = Self::begin(bytes, false);
        text.len = 0;
        text.tail = b"\"}";
        text.put(b"{\"err\":\"");
        // What does not fit is left out.
        _ = why.chars().try_for_each(|c| text.letter(c));
        text.put(text.tail);
        text.terminate()
    }

    /// Puts NULs behind it.
    fn terminate(self) -> usize {
        if let Some(rest) = self.bytes.get_mut(self.len..) {
            rest.fill(0);
        }
        self.len
    }

    /// Writes what there is room for in any case.
    fn put(&mut self, bytes: &[u8]) {
        let places = self.bytes.get_mut(self.len..).unwrap_or_default();
        let mut count = 0;
        for (place, byte) in places.iter_mut().zip(bytes) {
            *place = *byte;
            count += 1;
        }
        self.len += count;
    }

    /// Makes room for that many bytes, besides those of the closing brackets, of the tail and of the NUL.
    fn room(&mut self, count: usize) -> Result<(), Error> {
        let needed = self.len + count + self.open as usize + self.tail.len() + 1;
        if self.is_cut || needed > self.bytes.len() {
            self.is_cut = true;
            return Err(Error::NoRoom);
        }
        Ok(())
    }

    /// Writes all of it, or nothing. It is part of something.
    pub(super) fn part(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.room(bytes.len())?;
        self.put(bytes);
        Ok(())
    }

    /// What has been written is a whole value.
    pub(super) fn is_whole(&mut self) {
        if !self.is_key {
            self.whole = self.len;
        }
    }

    /// Writes a value that has no parts; as a key it is in quotes.
    pub(super) fn scalar(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let quote: &[u8] = if self.is_key { b"\"" } else { b"" };
        self.room(bytes.len() + 2 * quote.len())?;
        self.put(quote);
        self.put(bytes);
        self.put(quote);
        self.is_whole();
        Ok(())
    }

    /// Opens a bracket.
    pub(super) fn open(&mut self, is_brace: bool) -> Result<(), Error> {
        if self.is_key {
            return Err(Error::new("a key that is no text"));
        }
        if self.open >= MOST_OPEN {
            self.is_cut = true;
        }
        // Its closing one, too.
        self.room(2)?;
        self.put(if is_brace { b"{" } else { b"[" });
        self.open += 1;
        self.braces = self.braces << 1 | u128::from(is_brace);
        self.is_whole();
        Ok(())
    }

    /// Closes the innermost bracket.
    pub(super) fn close(&mut self) -> Result<(), Error> {
        if self.is_cut || self.open == 0 {
            return Err(Error::NoRoom);
        }
        self.put_bracket();
        self.is_whole();
        Ok(())
    }

    fn put_bracket(&mut self) {
        self.put(if self.braces & 1 == 1 { b"}" } else { b"]" });
        self.braces >>= 1;
        self.open = self.open.saturating_sub(1);
    }

    /// Begins a string.
    pub(super) fn begin_string(&mut self) -> Result<(), Error> {
        // The closing quote, too.
        self.room(2)?;
        self.put(b"\"");
        Ok(())
    }

    /// Writes a character of a string. Where there is no room, the string ends in front of it.
    pub(super) fn character(&mut self, c: char) -> Result<(), Error> {
        if self.is_cut {
            return Err(Error::NoRoom);
        }
        self.letter(c).inspect_err(|_| {
            // The room is that which was left for it. Half a key is none.
            self.put(b"\"");
            self.is_whole();
        })
    }

    /// Ends a string that has come to its end.
    pub(super) fn end_string(&mut self) {
        self.put(b"\"");
        self.is_whole();
    }

    /// Writes a character as it stands in a string, and leaves room for the quote behind it.
    fn letter(&mut self, c: char) -> Result<(), Error> {
        let escape = match c {
            '"' => b'"',
            '\\' => b'\\',
            '\n' => b'n',
            '\r' => b'r',
            '\t' => b't',
            '\0'..='\u{1f}' | '\u{7f}' => {
                let digit =
                    |nibble: u32| char::from_digit(nibble & 0xf, 16).map_or(b'0', |c| c as u8);
                let code = u32::from(c);
                return self.letters(&[b'\\', b'u', b'0', b'0', digit(code >> 4), digit(code)]);
            }
            _ => {
                let mut utf8 = [0; 4];
                return self.letters(c.encode_utf8(&mut utf8).as_bytes());
            }
        };
        self.letters(&[b'\\', escape])
    }

    fn letters(&mut self, letters: &[u8]) -> Result<(), Error> {
        self.room(letters.len() + 1)?;
        self.put(letters);
        Ok(())
    }
}
