//! Escapes the text of a peer for terminals, messages and file formats.
//!
//! Every string from a kernel, a traced process or a dump passes through [`line`] or [`lines`] when it arrives: names of
//! probes, modules, functions, symbols and types, formats of programs that another run compiled, and the peer's messages.
//! No peer can send a command to the terminal, and a name never takes two lines.
//!
//! Recorded data are different: `trace` and `printf("%s")` write them to files and pipes as dtrace(1) does, to the byte.
//! On a terminal, [`data`] escapes them; `%S` escapes them everywhere. JSON and XML documents use the escapes of these formats,
//! which lose nothing, for all characters that a terminal would obey or hide.

use std::borrow::Cow;

/// Returns whether a terminal obeys a character or hides it: control characters, marks that change the direction of text, and
/// invisible characters.
pub(crate) fn is_hidden(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    // `escape_debug` returns a printable character unchanged.
    c.escape_debug().len() > 1
}

fn escaped(text: &str, stays: impl Fn(char) -> bool) -> Cow<'_, str> {
    let is_escaped = |c: char| is_hidden(c) && !stays(c);
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_escaped(c) {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// Escapes a text of one line, newlines included.
pub fn line(text: &str) -> Cow<'_, str> {
    escaped(text, |_| false)
}

/// Escapes a text of several lines: newlines and tabs stay.
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| matches!(c, '\n' | '\t'))
}

/// Escapes a name of any bytes to one line.
pub fn name(bytes: &[u8]) -> String {
    line(&String::from_utf8_lossy(bytes)).into_owned()
}

/// Escapes recorded data on their way to a terminal: newlines and tabs stay.
pub fn data(bytes: &[u8]) -> Cow<'_, [u8]> {
    match std::str::from_utf8(bytes).map(lines) {
        Ok(Cow::Borrowed(text)) => Cow::Borrowed(text.as_bytes()),
        Ok(Cow::Owned(text)) => Cow::Owned(text.into_bytes()),
        Err(_) => Cow::Owned(lines(&String::from_utf8_lossy(bytes)).into_owned().into_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_line_whatever_is_in_it() {
        assert_eq!(name(b"m\x1b[2J"), "m\\u{1b}[2J");
        assert_eq!(name(b"f\n 7 x\r\n"), "f\\n 7 x\\r\\n");
        assert_eq!(name(b"bad\xffbytes"), "bad\u{fffd}bytes");
        assert_eq!(
            name("C1 \u{9b}2J, bidi \u{202e}, \u{2028}".as_bytes()),
            "C1 \\u{9b}2J, bidi \\u{202e}, \\u{2028}"
        );
    }

    #[test]
    fn names_of_people_stay_as_they_are() {
        for text in [
            "exec-success",
            "Vec<u8>::push",
            "caf\u{e9}",
            "\u{540d}\u{524d}",
            "\u{1f980}",
            "a\\b\"c'",
        ] {
            assert!(matches!(line(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }

    #[test]
    fn lines_and_data_keep_their_lines() {
        assert_eq!(lines("a\n\tb\x07"), "a\n\tb\\u{7}");
        assert_eq!(*data(b"a\n\x1b]0;x\x07\xff"), *"a\n\\u{1b}]0;x\\u{7}\u{fffd}".as_bytes());
        assert!(matches!(data(b"plain\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn escaping_twice_changes_nothing() {
        let once = name(b"\x1b[31m\n");
        assert_eq!(line(&once), once);
    }
}
