//! The lexer for probe descriptions, whose names may contain `-`, `*`, `?` and brackets.

use super::{Cursor, Punct, TokenKind, comment, integer, is_blank, line_comment};

pub(super) fn token(cursor: &mut Cursor<'_>) -> TokenKind {
    let Some(first) = cursor.first() else { return TokenKind::End };
    match (first, cursor.second()) {
        (b'/', Some(b'*')) => comment(cursor),
        (b'/', Some(b'/')) if line_comment(cursor) => TokenKind::Blank,
        (b'/', _) => punct(cursor, Punct::Slash),
        (b',', _) => punct(cursor, Punct::Comma),
        (b'{', _) => punct(cursor, Punct::LeftBrace),
        (b'0'..=b'9', _) => {
            integer(cursor);
            TokenKind::Int
        }
        (b'\n', _) => {
            cursor.bump();
            TokenKind::Blank
        }
        _ if is_blank(first) => {
            cursor.eat_while(|byte| is_blank(byte) && byte != b'\n');
            TokenKind::Blank
        }
        _ if is_spec(first) && first != b'`' => {
            cursor.eat_while(is_spec);
            TokenKind::ProbeSpec
        }
        _ => {
            cursor.bump();
            TokenKind::Stray
        }
    }
}

fn punct(cursor: &mut Cursor<'_>, punct: Punct) -> TokenKind {
    cursor.bump();
    TokenKind::Punct(punct)
}

const fn is_spec(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'-' | b'$' | b':' | b'_' | b'.' | b'?' | b'*' | b'\\' | b'[' | b']' | b'!' | b'`'
        )
}
