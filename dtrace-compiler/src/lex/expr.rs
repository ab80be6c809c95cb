//! The lexer for all text except probe descriptions.

use super::{Cursor, Punct, TokenKind, comment, integer, is_blank, line_comment};

pub(super) fn token(cursor: &mut Cursor<'_>) -> TokenKind {
    let Some(first) = cursor.first() else { return TokenKind::End };
    match (first, cursor.second()) {
        (b'/', Some(b'*')) => comment(cursor),
        (b'/', Some(b'/')) if line_comment(cursor) => TokenKind::Blank,
        (b'/', Some(b'=')) => punct(cursor),
        (b'/', _) => slash(cursor),
        (b'\\', Some(b'\n')) => {
            cursor.bump_by(2);
            TokenKind::Blank
        }
        (b'"', _) => quoted(cursor, b'"', TokenKind::Str, TokenKind::StrCut),
        (b'\'', _) => quoted(cursor, b'\'', TokenKind::Char, TokenKind::CharCut),
        (b'$', _) => macro_name(cursor),
        (b'@', _) => {
            cursor.bump();
            if cursor.eat_if(|byte| is_word_start(byte) && byte != b'`') {
                cursor.eat_while(|byte| is_word(byte) && byte != b'`');
            }
            TokenKind::Aggregation
        }
        (b'.', Some(b'0'..=b'9')) | (b'0'..=b'9', _) => number(cursor),
        _ if is_blank(first) => {
            cursor.eat_while(is_blank_in_line);
            // The end of a line is a separate token, because a control line may begin after it.
            if cursor.eaten() == 0 {
                cursor.bump();
            }
            TokenKind::Blank
        }
        _ if is_word_start(first) => word(cursor),
        _ => punct(cursor),
    }
}

const fn is_blank_in_line(byte: u8) -> bool {
    is_blank(byte) && byte != b'\n'
}

const fn is_word_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'`')
}

const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'`')
}

/// Lexes a `/`. It is a division, unless the end, `;`, `{` or another `/` follows: then it ends a predicate. As in
/// dtrace(1), a `/` that begins a comment counts as another `/`.
fn slash(cursor: &mut Cursor<'_>) -> TokenKind {
    let mut ahead = *cursor;
    ahead.bump();
    ahead.eat_while(is_blank);
    match ahead.first() {
        None | Some(b';' | b'{' | b'/') => {
            *cursor = ahead;
            TokenKind::EndPredicate
        }
        Some(_) => {
            cursor.bump();
            TokenKind::Punct(Punct::Slash)
        }
    }
}

/// Lexes a name. Before the backquote of a scope it may contain dots, because names of modules may.
fn word(cursor: &mut Cursor<'_>) -> TokenKind {
    let run = cursor.rest().iter().take_while(|&&byte| is_word(byte) || byte == b'.').count();
    let run = &cursor.rest()[..run];
    let scope = run.iter().rposition(|&byte| byte == b'`').map_or(0, |at| at + 1);
    cursor.bump_by(scope);
    cursor.eat_while(is_word);
    TokenKind::Word
}

fn macro_name(cursor: &mut Cursor<'_>) -> TokenKind {
    let mut ahead = *cursor;
    ahead.bump();
    let string = ahead.eat_if(|byte| byte == b'$');
    let kind = match (ahead.first(), string) {
        (Some(b'0'..=b'9'), false) => TokenKind::MacroArg,
        (Some(b'0'..=b'9'), true) => TokenKind::MacroArgStr,
        (Some(byte), false) if is_word_start(byte) => TokenKind::MacroVar,
        (Some(byte), true) if is_word_start(byte) => TokenKind::MacroVarStr,
        _ => {
            cursor.bump();
            return TokenKind::Stray;
        }
    };
    match kind {
        TokenKind::MacroArg | TokenKind::MacroArgStr => ahead.eat_while(|b| b.is_ascii_digit()),
        _ => ahead.eat_while(is_word),
    }
    *cursor = ahead;
    kind
}

/// Lexes a number: as a floating-point number if that is longer than the integer, otherwise as an integer.
fn number(cursor: &mut Cursor<'_>) -> TokenKind {
    let (mut int, mut float) = (*cursor, *cursor);
    integer(&mut int);
    float.eat_while(|byte| byte.is_ascii_digit());
    if float.eat_if(|byte| byte == b'.') {
        float.eat_while(|byte| byte.is_ascii_digit());
    }
    let mut exponent = float;
    if exponent.eat_if(|byte| matches!(byte, b'e' | b'E')) {
        exponent.eat_if(|byte| matches!(byte, b'+' | b'-'));
        if exponent.first().is_some_and(|byte| byte.is_ascii_digit()) {
            exponent.eat_while(|byte| byte.is_ascii_digit());
            float = exponent;
        }
    }
    float.eat_if(|byte| matches!(byte, b'f' | b'F' | b'l' | b'L'));
    if float.eaten() > int.eaten() {
        *cursor = float;
        TokenKind::Float
    } else {
        *cursor = int;
        TokenKind::Int
    }
}

/// Lexes a string or character up to the closing quote. The end of a line cuts it off; at the end of the source, or
/// after a backslash at the end of a line, the quote is an invalid byte.
fn quoted(cursor: &mut Cursor<'_>, quote: u8, whole: TokenKind, cut: TokenKind) -> TokenKind {
    let mut ahead = *cursor;
    ahead.bump();
    loop {
        match (ahead.first(), ahead.second()) {
            (Some(byte), _) if byte == quote => {
                ahead.bump();
                *cursor = ahead;
                return whole;
            }
            (Some(b'\n'), _) => {
                *cursor = ahead;
                return cut;
            }
            (Some(b'\\'), Some(next)) if next != b'\n' => ahead.bump_by(2),
            (Some(b'\\') | None, _) => {
                cursor.bump();
                return TokenKind::Stray;
            }
            (Some(_), _) => ahead.bump_by(1),
        }
    }
}

fn punct(cursor: &mut Cursor<'_>) -> TokenKind {
    match Punct::ALL.iter().find(|punct| cursor.rest().starts_with(punct.text().as_bytes())) {
        Some(&punct) => {
            cursor.bump_by(punct.text().len());
            TokenKind::Punct(punct)
        }
        None => {
            cursor.bump();
            TokenKind::Stray
        }
    }
}
