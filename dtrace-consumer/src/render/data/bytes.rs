//! Data of unknown type: text if the bytes are text, else a dump (`dt_print_bytes`, dt_consume.c).

use std::fmt::Write as _;

use dtrace_abi::option::OptionId;

use crate::render::data::bits::until_zero;
use crate::render::data::cprintf::Spec;
use crate::render::data::view::View;

/// The padding of bytes that are text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::render) enum Padding {
    /// Without blanks around it: `trace` under `quiet`.
    Bare,
    /// Pads to a number of columns; aligns left if it is negative.
    Columns(i32),
}

/// Writes data of unknown type.
pub(in crate::render) fn show(out: &mut Vec<u8>, view: &View<'_>, data: &[u8], padding: Padding) {
    if data.is_empty() {
        return;
    }
    let text = text(data, view.strsize()).filter(|_| !view.is_set(OptionId::Rawbytes));
    let Some(text) = text else { return dump(out, data) };
    let is_filled = text.len() == data.len();
    let text = &*view.data(text);
    // A text without a terminating zero has blanks before it under `quiet`, too.
    let width = match padding {
        Padding::Bare if !is_filled => return out.extend_from_slice(text),
        Padding::Bare => -33,
        Padding::Columns(width) if !is_filled => width,
        Padding::Columns(width) => -width.abs(),
    };
    out.extend_from_slice(if width < 0 || is_filled { b"  " } else { b" " });
    Spec::wide(width).text(out, text);
}

/// Returns the bytes as text if they are printable characters followed only by zeroes. If all bytes are zero, they are
/// an empty text only if the data have the size of a string.
fn text(data: &[u8], strsize: usize) -> Option<&[u8]> {
    let text = until_zero(data);
    if data[text.len()..].iter().any(|&byte| byte != 0)
        || (text.is_empty() && data.len() != strsize)
    {
        return None;
    }
    let printable = |c: char| !c.is_control() || matches!(c, '\t'..='\r' | '\u{8}' | '\u{7}');
    let whole = match std::str::from_utf8(text) {
        Ok(text) => text,
        // A text that is cut after `strsize` bytes may end within a character.
        Err(error)
            if error.error_len().is_none()
                && data.len() == strsize
                && text.len() + 1 == strsize =>
        {
            std::str::from_utf8(&text[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    whole.chars().all(printable).then_some(whole.as_bytes())
}

/// Writes bytes in rows of sixteen.
pub(in crate::render) fn dump(out: &mut Vec<u8>, data: &[u8]) {
    let mut text = String::from("\n           ");
    for column in 0..16 {
        let _ = write!(text, "  {column:x}");
    }
    text.push_str("  0123456789abcdef\n");
    for (row, bytes) in data.chunks(16).enumerate() {
        let _ = write!(text, "     {:5x}:", row * 16);
        for byte in bytes {
            let _ = write!(text, " {byte:02x}");
        }
        text.push_str(&"   ".repeat(16 - bytes.len()));
        text.push_str("  ");
        let shown = |&byte: &u8| if (b' '..=b'~').contains(&byte) { char::from(byte) } else { '.' };
        text.extend(bytes.iter().map(shown));
        text.push('\n');
    }
    out.extend_from_slice(text.as_bytes());
}

/// Returns text with C escapes for characters that cannot be printed (`strchr2esc`, dt_string.c). The first zero is
/// shown as `\0`, and ends the text.
pub(in crate::render) fn escaped(data: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(data.len());
    for &byte in data {
        let letter = match byte {
            0 => b'0',
            0x07 => b'a',
            0x08 => b'b',
            0x0c => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0x0b => b'v',
            b'"' | b'\\' => byte,
            b' '..=b'~' => {
                out.push(byte);
                continue;
            }
            _ => {
                out.extend_from_slice(format!("\\{byte:03o}").as_bytes());
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', letter]);
        if byte == 0 {
            break;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_text() {
        assert_eq!(text(b"ab\0\0", 256), Some(&b"ab"[..]));
        assert_eq!(text(b"ab\0c", 256), None);
        assert_eq!(text(b"\0\0\0\0", 4), Some(&b""[..]));
        assert_eq!(text(b"\0\0\0\0", 256), None);
        assert_eq!(text("é\0".as_bytes(), 256), Some("é".as_bytes()));
        assert_eq!(text(b"\xe9\0", 256), None);
        // Cut within a character.
        assert_eq!(text(b"ab\xc3\0", 4), Some(&b"ab"[..]));
        assert_eq!(text(b"ab\xc3\0\0", 5), None);
        assert_eq!(text(b"\x01\0", 256), None);
        assert_eq!(text(b"a\n\x07\x08\t\x0b\x0c\r", 256), Some(&b"a\n\x07\x08\t\x0b\x0c\r"[..]));
    }

    #[test]
    fn escapes() {
        assert_eq!(escaped(b"a\tb\"c\n\x01\xc3\0x"), b"a\\tb\\\"c\\n\\001\\303\\0");
    }
}
