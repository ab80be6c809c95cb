//! Escapes in strings.

/// Resolves the escapes in a string: those of C, `\0` with up to three octal digits, `\x` with any number of
/// hexadecimal digits. A backslash before another character is kept (`stresc2chr`, dt_string.c).
pub fn unescape(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes.iter().copied().peekable();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let Some(escape) = rest.next() else {
            out.push(b'\\');
            break;
        };
        let byte = match escape {
            b'0'..=b'7' => {
                let mut value = escape - b'0';
                for _ in 0..2 {
                    let Some(digit) = rest.next_if(|digit| (b'0'..=b'7').contains(digit)) else {
                        break;
                    };
                    value = value.wrapping_mul(8).wrapping_add(digit - b'0');
                }
                value
            }
            b'a' => 0x07,
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 0x0b,
            b'x' => {
                let mut value = 0u8;
                while let Some(digit) = rest.next_if(u8::is_ascii_hexdigit) {
                    let digit = (digit as char).to_digit(16).unwrap_or(0) as u8;
                    value = value.wrapping_mul(16).wrapping_add(digit);
                }
                value
            }
            b'"' | b'\\' => escape,
            other => {
                out.push(b'\\');
                other
            }
        };
        out.push(byte);
    }
    out
}

/// Escapes a string: characters that cannot be printed, quotes and backslashes become escapes.
pub fn escape(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            0x07 => out.push_str("\\a"),
            0x08 => out.push_str("\\b"),
            0x0c => out.push_str("\\f"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            0x0b => out.push_str("\\v"),
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b' '..=b'~' => out.push(byte as char),
            _ => out.push_str(&format!("\\{byte:03o}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn escapes() {
        assert_eq!(unescape(br#"a\n\t\"\\\101\0x\x41"#), b"a\n\t\"\\A\0xA");
        assert_eq!(unescape(br"\q\"), br"\q\");
    }

    proptest! {
        #[test]
        fn escaped_text_comes_back(bytes: Vec<u8>) {
            prop_assert_eq!(unescape(escape(&bytes).as_bytes()), bytes);
        }
    }
}
