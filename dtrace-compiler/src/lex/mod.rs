//! The lexer: a function from the rest of a source to the next token.
//!
//! It has no state, and does not look up names. The parser chooses one of D's two vocabularies with each call: the one for probe
//! descriptions, or the one for all other text. Malformed text becomes a token of its own kind.

mod cursor;
mod expr;
mod outer;
mod token;

pub use cursor::Cursor;
pub use token::{Punct, Token, TokenKind, Vocabulary};

/// Returns the first token of `rest`; at the end of the source, an empty [`TokenKind::End`].
///
/// `line_start` must be set if `rest` begins a line: only there `#` begins a control line.
pub fn token(vocabulary: Vocabulary, rest: &[u8], line_start: bool) -> Token {
    let mut cursor = Cursor::new(rest);
    let kind = match line_start.then(|| control(&mut cursor)).flatten() {
        Some(kind) => kind,
        None => match vocabulary {
            Vocabulary::Clause => outer::token(&mut cursor),
            Vocabulary::Expr => expr::token(&mut cursor),
        },
    };
    Token { kind, len: cursor.eaten() }
}

/// Lexes a control line, without the newline at its end.
fn control(cursor: &mut Cursor<'_>) -> Option<TokenKind> {
    let indent = cursor.rest().iter().take_while(|b| matches!(b, b' ' | b'\t' | b'\x0b' | b'\x0c'));
    let indent = indent.count();
    if cursor.rest().get(indent) != Some(&b'#') {
        return None;
    }
    let interpreter = cursor.rest().get(indent + 1) == Some(&b'!');
    cursor.eat_while(|byte| byte != b'\n');
    Some(if interpreter { TokenKind::Blank } else { TokenKind::Control })
}

/// Consumes a `//` comment, which libdtrace refuses. `//*` is not a `//` comment: it ends a predicate and begins a `/*` comment.
fn line_comment(cursor: &mut Cursor<'_>) -> bool {
    let mut ahead = *cursor;
    ahead.bump_by(2);
    if ahead.first() == Some(b'*') {
        return false;
    }
    ahead.eat_while(|byte| byte != b'\n');
    *cursor = ahead;
    true
}

/// Lexes a comment. The cursor is before its opening `/*`.
fn comment(cursor: &mut Cursor<'_>) -> TokenKind {
    cursor.bump();
    cursor.bump();
    loop {
        match (cursor.first(), cursor.second()) {
            (Some(b'*'), Some(b'/')) => {
                cursor.bump();
                cursor.bump();
                return TokenKind::Blank;
            }
            (Some(b'/'), Some(b'*')) => {
                cursor.bump();
                cursor.bump();
                return TokenKind::NestedComment;
            }
            (Some(_), _) => {
                cursor.bump();
            }
            // An unclosed comment extends to the end of the source, as in dtrace(1).
            (None, _) => return TokenKind::Blank,
        }
    }
}

/// Lexes the digits and the suffix of an integer. The cursor is before its first digit.
fn integer(cursor: &mut Cursor<'_>) {
    let hex = matches!(cursor.rest(), [b'0', b'x' | b'X', digit, ..] if digit.is_ascii_hexdigit());
    if hex {
        cursor.bump();
        cursor.bump();
        cursor.eat_while(|byte| byte.is_ascii_hexdigit());
    } else {
        cursor.eat_while(|byte| byte.is_ascii_digit());
    }
    cursor.eat_if(|byte| matches!(byte, b'u' | b'U'));
    cursor.eat_if(|byte| matches!(byte, b'l' | b'L'));
    cursor.eat_if(|byte| matches!(byte, b'l' | b'L'));
}

const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b'\x0b' | b'\x0c')
}

#[cfg(test)]
mod tests;
