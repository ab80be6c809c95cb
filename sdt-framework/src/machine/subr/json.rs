//! `json`: an element of a text in JSON.
//!
//! The text is read once, from its beginning to the element. Errors after the element are not noticed. Names and indices,
//! separated by `.` and `[`, select an element.

use crate::kernel::Kernel;
use crate::machine::access::Cursor;
use crate::machine::failure::Stop;
use crate::machine::firing::Firing;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before an object or array.
    Rest,
    /// Before a name.
    Object,
    String,
    Escape,
    /// Hexadecimal digits, and how many there were.
    Unicode(u8),
    Colon,
    Comma,
    Value,
    /// `true`, `false`, `null`.
    Identifier,
    Number,
    Fraction,
    Exponent,
    /// An object or array as it is.
    Collect,
}

/// The collected text, and the names of the wanted element.
struct Search {
    /// The address in scratch space of the collected text.
    to: u64,
    length: u64,
    /// The address of the wanted name at this depth, and the number of names from it to the last one.
    element: u64,
    elements: u32,
    found: bool,
    /// In an array: the wanted index, and the current one.
    array: Option<(i64, i64)>,
    braces: u32,
    brackets: u32,
}

const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

impl<K: Kernel> Firing<'_, K> {
    /// Returns the address of the element as a string; 0 if there is no such element.
    pub(super) fn json(&mut self, json: u64, names: u64) -> Result<u64, Stop> {
        let length = self.length(json, self.limit())?;
        let names_length = self.length(names, self.limit())?;
        let to = self.allocate(length + 1 + names_length + 1, false)?;
        let list = to.wrapping_add(length + 1);
        let elements = self.split_names(names, names_length, list)?;
        let mut search = Search {
            to,
            length: 0,
            element: list,
            elements,
            found: false,
            array: None,
            braces: 0,
            brackets: 0,
        };
        let found = self.find_element(json, &mut search)?;
        self.shrink(to, if found { length + 1 } else { 0 });
        Ok(if found { to } else { 0 })
    }

    /// Writes the names of a path one after the other, each with a NUL. Returns the number of names.
    fn split_names(&mut self, names: u64, length: u64, to: u64) -> Result<u32, Stop> {
        let mut cursor = Cursor::default();
        let (mut count, mut put) = (1, 0);
        for at in 0..length {
            let byte = match self.byte(&mut cursor, names.wrapping_add(at))? {
                b'[' if at == 0 => continue,
                b']' => continue,
                b'.' | b'[' => {
                    count += 1;
                    0
                }
                byte => byte,
            };
            self.write(to.wrapping_add(put), &[byte])?;
            put += 1;
        }
        self.write(to.wrapping_add(put), &[0])?;
        Ok(count)
    }

    fn collect(&mut self, search: &mut Search, byte: u8) -> Result<(), Stop> {
        self.write(search.to.wrapping_add(search.length), &[byte])?;
        search.length += 1;
        Ok(())
    }

    /// Ends the collected string; the next one begins at the same place.
    fn finish(&mut self, search: &mut Search) -> Result<(), Stop> {
        self.write(search.to.wrapping_add(search.length), &[0])?;
        search.length = 0;
        Ok(())
    }

    fn enter_array(&mut self, search: &mut Search) -> Result<(), Stop> {
        let wanted = self.parse(search.element, 10)?;
        search.array = Some((wanted, 0));
        search.found = wanted == 0;
        Ok(())
    }

    fn is_collected(&mut self, search: &Search, words: &[&[u8]]) -> Result<bool, Stop> {
        let mut text = [0; 6];
        // The longest word, `false`, has five letters.
        for (place, at) in text.iter_mut().zip(0..) {
            let mut byte = [0];
            self.read(search.to.wrapping_add(at), &mut byte)?;
            [*place] = byte;
            if byte == [0] {
                break;
            }
        }
        Ok(words
            .iter()
            .any(|word| text.strip_prefix(*word).is_some_and(|rest| rest.first() == Some(&0))))
    }

    /// Parses the text up to the element. Returns whether the collected text is the element.
    fn find_element(&mut self, json: u64, search: &mut Search) -> Result<bool, Stop> {
        let mut cursor = Cursor::default();
        let mut state = State::Rest;
        let mut string_is_key = false;
        let mut in_collected = false;
        let mut at = 0;
        let size = self.limit();
        while at < size {
            let byte = self.byte(&mut cursor, json.wrapping_add(at))?;
            if byte == 0 {
                return Ok(false);
            }
            at += 1;
            state = match state {
                State::Rest | State::Object | State::Colon | State::Comma | State::Value
                    if is_space(byte) =>
                {
                    state
                }
                State::Rest if byte == b'{' => State::Object,
                State::Rest if byte == b'[' => {
                    self.enter_array(search)?;
                    State::Value
                }
                State::Object if byte == b'"' => {
                    string_is_key = true;
                    State::String
                }
                State::Colon if byte == b':' => State::Value,
                State::Comma if byte == b',' => match &mut search.array {
                    Some((wanted, index)) => {
                        *index = index.wrapping_add(1);
                        search.found |= wanted == index;
                        State::Value
                    }
                    None => State::Object,
                },
                State::Rest | State::Object | State::Colon | State::Comma => return Ok(false),
                State::String if byte == b'\\' => {
                    self.collect(search, byte)?;
                    State::Escape
                }
                State::String if byte == b'"' && in_collected => {
                    self.collect(search, byte)?;
                    in_collected = false;
                    State::Collect
                }
                State::String if byte == b'"' => {
                    self.finish(search)?;
                    if string_is_key {
                        search.found |= self.compare(search.to, search.element, size)? == 0;
                    } else if search.found {
                        return Ok(search.elements <= 1);
                    }
                    let was_key = core::mem::take(&mut string_is_key);
                    if was_key { State::Colon } else { State::Comma }
                }
                State::String => {
                    self.collect(search, byte)?;
                    State::String
                }
                State::Escape => {
                    self.collect(search, byte)?;
                    if byte == b'u' { State::Unicode(0) } else { State::String }
                }
                State::Unicode(_) if !byte.is_ascii_hexdigit() => return Ok(false),
                State::Unicode(digits) => {
                    self.collect(search, byte)?;
                    if digits == 3 { State::String } else { State::Unicode(digits + 1) }
                }
                State::Identifier if byte.is_ascii_lowercase() => {
                    self.collect(search, byte)?;
                    state
                }
                State::Identifier => {
                    self.finish(search)?;
                    if !self.is_collected(search, &[b"true", b"false", b"null"])? {
                        return Ok(false);
                    }
                    if search.found {
                        return Ok(search.elements <= 1);
                    }
                    at -= 1;
                    State::Comma
                }
                State::Number if byte == b'.' => {
                    self.collect(search, byte)?;
                    State::Fraction
                }
                State::Number if matches!(byte, b'x' | b'X') => return Ok(false),
                State::Number | State::Fraction if matches!(byte, b'e' | b'E') => {
                    self.collect(search, byte)?;
                    State::Exponent
                }
                State::Number | State::Fraction if matches!(byte, b'+' | b'-') => return Ok(false),
                State::Number | State::Fraction | State::Exponent
                    if byte.is_ascii_digit() || matches!(byte, b'+' | b'-') =>
                {
                    self.collect(search, byte)?;
                    state
                }
                State::Number | State::Fraction | State::Exponent => {
                    self.finish(search)?;
                    if search.found {
                        return Ok(search.elements <= 1);
                    }
                    at -= 1;
                    State::Comma
                }
                State::Value if matches!(byte, b'{' | b'[') => {
                    if search.elements > 1 && search.found {
                        self.descend(search, byte == b'[')?
                    } else {
                        (search.braces, search.brackets) =
                            if byte == b'[' { (0, 1) } else { (1, 0) };
                        self.collect(search, byte)?;
                        State::Collect
                    }
                }
                State::Value if byte == b'"' => State::String,
                State::Value if byte.is_ascii_lowercase() => {
                    self.collect(search, byte)?;
                    State::Identifier
                }
                State::Value if byte == b'-' || byte.is_ascii_digit() => {
                    self.collect(search, byte)?;
                    State::Number
                }
                State::Value => return Ok(false),
                State::Collect => {
                    self.collect(search, byte)?;
                    if byte == b'"' {
                        in_collected = true;
                        State::String
                    } else {
                        let Some(closed) = search.close(byte) else { return Ok(false) };
                        if closed && search.found {
                            self.finish(search)?;
                            return Ok(true);
                        }
                        if closed {
                            search.length = 0;
                            State::Comma
                        } else {
                            State::Collect
                        }
                    }
                }
            };
        }
        Ok(false)
    }

    /// Enters the object or array of the current name.
    fn descend(&mut self, search: &mut Search, is_array: bool) -> Result<State, Stop> {
        let length = self.length(search.element, self.limit())?;
        search.element = search.element.wrapping_add(length + 1);
        search.elements -= 1;
        search.length = 0;
        if is_array {
            self.enter_array(search)?;
            return Ok(State::Value);
        }
        search.array = None;
        search.found = false;
        Ok(State::Object)
    }
}

impl Search {
    /// Counts brackets and braces. Returns whether all are closed; `None` if more were closed than opened.
    fn close(&mut self, byte: u8) -> Option<bool> {
        match byte {
            b']' => self.brackets = self.brackets.checked_sub(1)?,
            b'}' => self.braces = self.braces.checked_sub(1)?,
            b'{' => self.braces += 1,
            b'[' => self.brackets += 1,
            _ => {}
        }
        Some(self.brackets == 0 && self.braces == 0)
    }
}
