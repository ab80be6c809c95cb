//! Words and signs of a provider file, each with its place.

use crate::parse::ParseError;

/// A word or a sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token<'t> {
    pub(crate) text: &'t str,
    /// The line, counted from 1.
    pub(crate) line: usize,
    /// The column in characters, counted from 1.
    pub(crate) column: usize,
}

impl Token<'_> {
    pub(crate) fn is_word(&self) -> bool {
        self.text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
    }

    pub(crate) fn error(&self, message: impl Into<String>) -> ParseError {
        ParseError { line: self.line, column: self.column, message: message.into() }
    }
}

/// Returns all tokens. The last one is empty, and marks the end of the text.
///
/// # Errors
/// A comment that does not end, or a sign that provider files do not have.
pub(crate) fn tokens(text: &str) -> Result<Vec<Token<'_>>, ParseError> {
    let mut tokens = Vec::new();
    let (mut line, mut column, mut rest) = (1, 1, text);
    while let Some(first) = rest.chars().next() {
        let here = |text| Token { text, line, column };
        let length = if let Some(comment) = rest.strip_prefix("/*") {
            let end = comment.find("*/").map(|end| end + 4);
            end.ok_or_else(|| here("").error("the comment is not closed: `*/` is missing"))?
        } else if first == '#' && !rest[1..].trim_start().starts_with("pragma") {
            return Err(here("").error(
                "only `#pragma D` is supported: run the preprocessor on the file \
                 first",
            ));
        } else if first.is_whitespace() {
            first.len_utf8()
        } else if first.is_ascii_alphanumeric() || first == '_' {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let word = &rest[..end.unwrap_or(rest.len())];
            tokens.push(here(word));
            word.len()
        } else if "{}();,*:/#[]=-".contains(first) {
            tokens.push(here(&rest[..1]));
            1
        } else {
            return Err(here("").error(format!("{first:?} is not allowed in a provider file")));
        };
        for passed in rest[..length].chars() {
            (line, column) = if passed == '\n' { (line + 1, 1) } else { (line, column + 1) };
        }
        rest = &rest[length..];
    }
    tokens.push(Token { text: "", line, column });
    Ok(tokens)
}
