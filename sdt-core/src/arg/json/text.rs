//! JSON in a buffer of fixed size, valid at every length at which it is cut.
//!
//! The text is complete up to a point, except for open brackets; there is always room to close them. If something does
//! not fit, the text is cut at that point, and the brackets are closed.

use super::serializer::Error;
use crate::arg::Shown;

/// The text before a value.
const OK: &[u8] = b"{\"ok\":";
/// The text after a complete value.
const WHOLE: &[u8] = b"}";
/// The text after an incomplete value.
const CUT: &[u8] = b",\"truncated\":true}";

/// The greatest number of open brackets.
const MOST_OPEN: u32 = 100;

/// The text that is being written.
pub(super) struct Text<'a> {
    bytes: &'a mut [u8],
    len: usize,
    /// The length up to which the text is complete, except for brackets.
    whole: usize,
    /// The number of open brackets.
    open: u32,
    /// One bit for each open bracket, set for a brace; the lowest bit is the innermost bracket.
    braces: u128,
    /// The text at the end.
    tail: &'static [u8],
    /// Whether something did not fit. Nothing is written after that.
    is_cut: bool,
    /// Whether the next value is a key.
    pub(super) is_key: bool,
    /// The error of a part, even if the value that contains the part ignored it.
    pub(super) failed: Option<Shown<64>>,
}

impl<'a> Text<'a> {
    /// Begins the text of a value.
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

    /// Ends the text. Returns its length in bytes.
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

    /// Writes the text for a value that failed. Returns its length in bytes.
    pub(super) fn fail(bytes: &'a mut [u8], why: &str) -> usize {
        let mut text = Self::begin(bytes, false);
        text.len = 0;
        text.tail = b"\"}";
        text.put(b"{\"err\":\"");
        // A message that does not fit is cut.
        _ = why.chars().try_for_each(|c| text.letter(c));
        text.put(text.tail);
        text.terminate()
    }

    /// Fills the rest of the buffer with NULs.
    fn terminate(self) -> usize {
        if let Some(rest) = self.bytes.get_mut(self.len..) {
            rest.fill(0);
        }
        self.len
    }

    /// Writes text for which room is reserved.
    fn put(&mut self, bytes: &[u8]) {
        let places = self.bytes.get_mut(self.len..).unwrap_or_default();
        let mut count = 0;
        for (place, byte) in places.iter_mut().zip(bytes) {
            *place = *byte;
            count += 1;
        }
        self.len += count;
    }

    /// Checks that this many bytes fit, besides the closing brackets, the tail and the NUL.
    fn room(&mut self, count: usize) -> Result<(), Error> {
        let needed = self.len + count + self.open as usize + self.tail.len() + 1;
        if self.is_cut || needed > self.bytes.len() {
            self.is_cut = true;
            return Err(Error::NoRoom);
        }
        Ok(())
    }

    /// Writes a part of a value, completely or not at all.
    pub(super) fn part(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.room(bytes.len())?;
        self.put(bytes);
        Ok(())
    }

    /// Marks the written text as a complete value.
    pub(super) fn is_whole(&mut self) {
        if !self.is_key {
            self.whole = self.len;
        }
    }

    /// Writes a value without parts, in quotes if it is a key.
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
            return Err(Error::new("a key of a map is not a string"));
        }
        if self.open >= MOST_OPEN {
            self.is_cut = true;
        }
        // Room for the closing bracket, too.
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
        // Room for the closing quote, too.
        self.room(2)?;
        self.put(b"\"");
        Ok(())
    }

    /// Writes a character of a string. If it does not fit, the string ends before it.
    pub(super) fn character(&mut self, c: char) -> Result<(), Error> {
        if self.is_cut {
            return Err(Error::NoRoom);
        }
        self.letter(c).inspect_err(|_| {
            // Room for the quote is reserved. An incomplete key is removed.
            self.put(b"\"");
            self.is_whole();
        })
    }

    /// Ends a complete string.
    pub(super) fn end_string(&mut self) {
        self.put(b"\"");
        self.is_whole();
    }

    /// Writes a character, escaped if necessary, and keeps room for the closing quote.
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
