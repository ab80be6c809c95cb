//! Strings.

use dtrace_abi::fault::Fault;

use crate::kernel::Kernel;
use crate::machine::access::Cursor;
use crate::machine::failure::Stop;
use crate::machine::firing::Firing;
use crate::machine::token::Token;

/// The set of bytes of a string.
struct Set([u64; 4]);

impl Set {
    fn add(&mut self, byte: u8) {
        if let Some(word) = self.0.get_mut(usize::from(byte >> 6)) {
            *word |= 1 << (byte & 63);
        }
    }

    fn has(&self, byte: u8) -> bool {
        self.0.get(usize::from(byte >> 6)).is_some_and(|word| word >> (byte & 63) & 1 != 0)
    }
}

/// A search for a string in a string.
struct Search {
    text: u64,
    length: u64,
    wanted: u64,
    wanted_length: u64,
    text_cursor: Cursor,
    wanted_cursor: Cursor,
}

impl<K: Kernel> Firing<'_, K> {
    /// `strchr` and `strrchr`: the address of the first or the last occurrence of a byte, which can be the NUL; 0 if there is
    /// none.
    pub(super) fn find_byte(&mut self, text: u64, wanted: u8, last: bool) -> Result<u64, Stop> {
        let mut cursor = Cursor::default();
        let mut found = 0;
        for at in 0..self.limit() {
            let address = text.wrapping_add(at);
            let byte = self.byte(&mut cursor, address)?;
            if byte == wanted {
                found = address;
                if !last {
                    break;
                }
            }
            if byte == 0 {
                break;
            }
        }
        Ok(found)
    }

    fn search(&mut self, text: u64, wanted: u64) -> Result<Search, Stop> {
        Ok(Search {
            text,
            length: self.length(text, self.limit())?,
            wanted,
            wanted_length: self.length(wanted, self.limit())?,
            text_cursor: Cursor::default(),
            wanted_cursor: Cursor::default(),
        })
    }

    fn is_at(&mut self, search: &mut Search, at: u64) -> Result<bool, Stop> {
        for offset in 0..search.wanted_length {
            let address = search.text.wrapping_add(at).wrapping_add(offset);
            let byte = self.byte(&mut search.text_cursor, address)?;
            let wanted =
                self.byte(&mut search.wanted_cursor, search.wanted.wrapping_add(offset))?;
            if byte != wanted {
                // Charges the equal bytes, because the next attempt reads them from the cursor again.
                self.charge(offset)?;
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// `strstr` and `index`: the first position of a string in another string.
    pub(super) fn find_forward(
        &mut self,
        text: u64,
        wanted: u64,
        from: Option<u64>,
    ) -> Result<Option<u64>, Stop> {
        let mut search = self.search(text, wanted)?;
        let (length, is_empty) = (search.length, search.wanted_length == 0);
        if length == 0 && is_empty {
            return Ok(Some(0));
        }
        let mut first = 0;
        if let Some(from) = from {
            first = (from as i64).max(0) as u64;
            if first >= length {
                return Ok(is_empty.then_some(length));
            }
        }
        for at in first..length {
            if self.is_at(&mut search, at)? {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    /// `rindex`: the last position of a string in another string.
    pub(super) fn find_backward(
        &mut self,
        text: u64,
        wanted: u64,
        from: Option<u64>,
    ) -> Result<Option<u64>, Stop> {
        let mut search = self.search(text, wanted)?;
        let (length, is_empty) = (search.length, search.wanted_length == 0);
        if length == 0 && is_empty {
            return Ok(Some(0));
        }
        let last = match from.map(|from| from as i64) {
            Some(..0) => return Ok(is_empty.then_some(0)),
            Some(from) => (from as u64).min(length),
            None => length,
        };
        for at in (0..=last).rev() {
            if self.is_at(&mut search, at)? {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    /// `strtok`: the next part between the separators; 0 if no part is left. With `text` 0, it continues where the last call at
    /// this hit ended, even if that call was in another clause, and stops `strsize` bytes after the beginning of the text. If
    /// there was no such call, the fault is a bad address 0.
    pub(super) fn strtok(&mut self, text: u64, separators: u64) -> Result<u64, Stop> {
        let size = self.limit();
        self.check_scratch(size)?;
        let mut set = Set([0; 4]);
        let mut cursor = Cursor::default();
        let mut byte = 0;
        for at in 0..size {
            byte = self.byte(&mut cursor, separators.wrapping_add(at))?;
            if byte == 0 {
                break;
            }
            set.add(byte);
        }
        let mut rest = match self.token {
            _ if text != 0 => Token { at: text, left: size },
            Some(token) => token,
            None => return Err(Stop::at(Fault::BadAddress, 0)),
        };
        while rest.left > 0 {
            byte = self.byte(&mut cursor, rest.at)?;
            if byte == 0 || !set.has(byte) {
                break;
            }
            rest.advance();
        }
        if byte == 0 {
            self.token = Some(Token::END);
            return Ok(0);
        }
        let mut output = self.string()?;
        while rest.left > 0 && output.length < size - 1 {
            byte = self.byte(&mut cursor, rest.at)?;
            if byte == 0 || set.has(byte) {
                break;
            }
            self.put(&mut output, byte)?;
            rest.advance();
        }
        self.token = Some(rest);
        Ok(output.start)
    }

    /// `substr`. A negative index counts from the end; a negative count omits this number of characters at the end.
    pub(super) fn substr(
        &mut self,
        text: u64,
        index: i64,
        count: Option<i64>,
    ) -> Result<u64, Stop> {
        let size = self.limit();
        let length = self.length(text, size)? as i64;
        let mut output = self.string()?;
        let (mut index, mut count) = (index, count.unwrap_or(size as i64));
        if index < 0 {
            index = index.wrapping_add(length);
            if index < 0 && index.saturating_add(count) > 0 {
                count = count.wrapping_add(index);
                index = 0;
            }
        }
        if !(0..length).contains(&index) {
            count = 0;
        } else if count < 0 {
            count = count.wrapping_add(length - index);
        }
        // A part of `strsize` characters fills its place, without a NUL.
        let count = count.min(length.saturating_sub(index));
        let mut cursor = Cursor::default();
        for at in 0..count.max(0) as u64 {
            let address = text.wrapping_add(index as u64).wrapping_add(at);
            match self.byte(&mut cursor, address)? {
                0 => break,
                byte => self.put(&mut output, byte)?,
            }
        }
        Ok(output.start)
    }

    /// `strjoin`: allocates scratch space for a string of the largest size, and frees the unused part. A result that does not fit
    /// is a fault (no scratch space).
    pub(super) fn strjoin(&mut self, one: u64, other: u64) -> Result<u64, Stop> {
        let size = self.limit();
        let mut output = self.string()?;
        for text in [one, other] {
            // The zero at its end is not kept, but there has to be room for it.
            let room = size - output.length;
            let to = output.start.wrapping_add(output.length);
            let length = self.copy_string(text, to, room)?;
            if length == room {
                return Err(Stop::new(Fault::NoScratch));
            }
            output.length += length;
        }
        self.shrink(output.start, output.length + 1);
        Ok(output.start)
    }

    /// `toupper` and `tolower`.
    pub(super) fn change_case(&mut self, text: u64, change: fn(u8) -> u8) -> Result<u64, Stop> {
        let mut output = self.string()?;
        let mut cursor = Cursor::default();
        for at in 0..self.limit() - 1 {
            match self.byte(&mut cursor, text.wrapping_add(at))? {
                0 => break,
                byte => self.put(&mut output, change(byte))?,
            }
        }
        Ok(output.start)
    }
}
