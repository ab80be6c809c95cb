//! Tokens of the grammar: keywords, names, types, values.

use dtrace_abi::ErrTag;

use super::Parser;
use crate::error::Result;
use crate::lex::{Punct, TokenKind, Vocabulary};
use crate::syntax::IntLit;
use crate::text;

/// A token.
#[derive(Debug)]
pub(super) struct Token {
    pub lexeme: Lexeme,
}

/// The meaning of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Lexeme {
    End,
    Keyword(Keyword),
    Ident(String),
    Type(String),
    Agg(String),
    /// An integer, with its sign if it is a macro argument with a sign.
    Int(IntLit, Option<Punct>),
    Str(Vec<u8>),
    ProbeSpec(String),
    EndPredicate,
    Punct(Punct),
}

macro_rules! keywords {
    ($($name:ident $text:literal $outer:literal)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Keyword { $($name,)* }

        impl Keyword {
            /// Returns the keyword with this spelling; outside of clauses fewer words are keywords.
            fn find(word: &str, vocabulary: Vocabulary) -> Option<Self> {
                match word {
                    $($text if $outer || vocabulary == Vocabulary::Expr => Some(Self::$name),)*
                    _ => None,
                }
            }

            pub const fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

keywords! {
    Auto "auto" true Break "break" false Case "case" false Char "char" true Const "const" true
    Continue "continue" false Counter "counter" true Default "default" false Do "do" false
    Double "double" true Else "else" false Enum "enum" true Extern "extern" true Float "float" true
    For "for" false Goto "goto" false If "if" false Import "import" true Inline "inline" true Int "int" true
    Long "long" true Offsetof "offsetof" false Probe "probe" false Provider "provider" true
    Register "register" true Restrict "restrict" true Return "return" false SelfKey "self" true
    Short "short" true Signed "signed" true Sizeof "sizeof" false Static "static" true String "string" true
    Stringof "stringof" false Struct "struct" true Switch "switch" false This "this" true
    Translator "translator" true Typedef "typedef" true Union "union" true Unsigned "unsigned" true
    Userland "userland" false Void "void" true Volatile "volatile" true While "while" false Xlate "xlate" false
}

impl Keyword {
    /// Returns whether a word is a keyword in expressions.
    pub fn is_one(word: &str) -> bool {
        Self::find(word, Vocabulary::Expr).is_some()
    }

    /// Returns whether the keyword may also name a member.
    pub const fn is_member_name(self) -> bool {
        matches!(
            self,
            Self::Probe
                | Self::Provider
                | Self::SelfKey
                | Self::String
                | Self::Stringof
                | Self::Userland
                | Self::Xlate
                | Self::Translator
        )
    }

    /// Returns whether a type, or a declaration without a storage class, may begin with the keyword.
    pub const fn begins_type(self) -> bool {
        matches!(
            self,
            Self::Void
                | Self::Char
                | Self::Short
                | Self::Int
                | Self::Long
                | Self::Float
                | Self::Double
                | Self::Signed
                | Self::Unsigned
                | Self::Userland
                | Self::String
                | Self::Struct
                | Self::Union
                | Self::Enum
                | Self::Const
                | Self::Restrict
                | Self::Volatile
        )
    }
}

impl Parser<'_> {
    /// Reads the next token from the source.
    pub(super) fn token(&mut self) -> Result<Token> {
        let (kind, start) = self.raw()?;
        let bytes = &self.source[start..self.at];
        let text = String::from_utf8_lossy(bytes).into_owned();
        let lexeme = match kind {
            TokenKind::End => Lexeme::End,
            TokenKind::Word => self.word(text),
            TokenKind::Aggregation => {
                Lexeme::Agg(if text == "@" { "_".into() } else { text[1..].into() })
            }
            TokenKind::Int => Lexeme::Int(self.integer(&text)?, None),
            TokenKind::Float => {
                return self.error(ErrTag::Syntax, "floating-point constants are not permitted");
            }
            TokenKind::Str => Lexeme::Str(text::unescape(&bytes[1..bytes.len() - 1])),
            TokenKind::StrCut => {
                return self.error(ErrTag::StrNl, "newline encountered in string literal");
            }
            TokenKind::Char => Lexeme::Int(self.character(&bytes[1..bytes.len() - 1])?, None),
            TokenKind::CharCut => {
                return self.error(ErrTag::ChrNl, "newline encountered in character constant");
            }
            TokenKind::MacroArg => self.macro_argument(&text)?,
            TokenKind::MacroArgStr => {
                let argument = self.argument(&text, &text[2..], "")?;
                Lexeme::Str(text::unescape(argument.as_bytes()))
            }
            TokenKind::MacroVar => {
                let value = self.macro_variable(&text, &text[1..])?;
                Lexeme::Int(IntLit::plain(value as i32 as i64 as u64), None)
            }
            TokenKind::MacroVarStr => {
                let value = self.macro_variable(&text, &text[2..])?;
                Lexeme::Str((value as u32).to_string().into_bytes())
            }
            TokenKind::ProbeSpec => self.outer_word(text, start),
            TokenKind::EndPredicate => {
                if self.parens != 0 {
                    return self.error(ErrTag::Syntax, "closing ) expected in predicate before /");
                }
                if self.brackets != 0 {
                    return self.error(ErrTag::Syntax, "closing ] expected in predicate before /");
                }
                // Errors do not show the blanks after it.
                self.last.1 = start + 1;
                Lexeme::EndPredicate
            }
            TokenKind::Punct(punct) => {
                self.count(punct)?;
                Lexeme::Punct(punct)
            }
            TokenKind::Stray => {
                return self.error(ErrTag::Syntax, format!("syntax error near \"{text}\""));
            }
            TokenKind::Blank | TokenKind::Control | TokenKind::NestedComment => {
                return self.unexpected();
            }
        };
        Ok(Token { lexeme })
    }

    fn count(&mut self, punct: Punct) -> Result<()> {
        let (depth, closes) = match punct {
            Punct::LeftParen => (&mut self.parens, false),
            Punct::RightParen => (&mut self.parens, true),
            Punct::LeftBracket => (&mut self.brackets, false),
            Punct::RightBracket => (&mut self.brackets, true),
            Punct::LeftBrace => (&mut self.braces, false),
            Punct::RightBrace => (&mut self.braces, true),
            _ => return Ok(()),
        };
        let changed = if closes { depth.checked_sub(1) } else { Some(*depth + 1) };
        match changed {
            Some(changed) => {
                *depth = changed;
                Ok(())
            }
            None => self.error(ErrTag::Syntax, format!("extra {} in input stream", punct.text())),
        }
    }

    /// Returns the token for a word in the vocabulary of expressions.
    fn word(&mut self, word: String) -> Lexeme {
        match Keyword::find(&word, Vocabulary::Expr) {
            // The names of some actions; other reserved words have no meaning in D.
            Some(Keyword::Return)
                if self.source[self.at..].trim_ascii_start().starts_with(b"(") =>
            {
                Lexeme::Ident(word)
            }
            Some(keyword) => Lexeme::Keyword(keyword),
            None => self.name_or_type(word),
        }
    }

    /// Returns a type, or a name: a type unless the next token shows that a variable is meant.
    fn name_or_type(&mut self, word: String) -> Lexeme {
        let weak = || !self.types.contains(&word) && self.context.is_weak_type(&word);
        if self.typed || !self.is_type(&word) || self.sized && weak() {
            return Lexeme::Ident(word);
        }
        let mut ahead = self.source[self.at..].iter().copied();
        let mut ahead =
            ahead.by_ref().skip_while(|byte| byte.is_ascii_whitespace() || *byte == 0x0b);
        let variable = match (ahead.next(), ahead.next()) {
            (Some(b'['), _) => true,
            (Some(sign @ (b'+' | b'-')), second) => second == Some(sign),
            (Some(b'='), second) => second != Some(b'='),
            _ => false,
        };
        if variable {
            self.names.insert(word.clone());
            Lexeme::Ident(word)
        } else {
            Lexeme::Type(word)
        }
    }

    pub(super) fn is_type(&self, word: &str) -> bool {
        !self.names.contains(word) && !self.context.is_name(word) && self.known_type(word)
    }

    /// Returns whether a type of this name exists: in this source, whose module is `D`, or in the parser's context.
    fn known_type(&self, name: &str) -> bool {
        self.types.contains(name.strip_prefix("D`").unwrap_or(name)) || self.context.is_type(name)
    }

    /// Returns the token for a word outside of clauses: a keyword, a type, or a description of probes. The name of a
    /// type ends before a `*`.
    fn outer_word(&mut self, word: String, start: usize) -> Lexeme {
        if let Some(keyword) = Keyword::find(&word, Vocabulary::Clause) {
            self.vocabulary = Vocabulary::Expr;
            return Lexeme::Keyword(keyword);
        }
        if !self.prefer_probes && !word.contains(':') {
            let name = match word.find('*') {
                Some(star) if star > 0 => &word[..star],
                _ => &word[..],
            };
            if self.known_type(name) {
                let name = name.to_string();
                self.at = start + name.len();
                self.last.1 = self.at;
                self.vocabulary = Vocabulary::Expr;
                return Lexeme::Type(name);
            }
        }
        Lexeme::ProbeSpec(word)
    }

    /// Parses an integer like `strtoull` with base 0, and its suffix.
    fn integer(&self, text: &str) -> Result<IntLit> {
        let (_, rest, value) = read_integer(text);
        let Some(value) = value else {
            return self
                .error(ErrTag::IntOflow, format!("constant {text} results in integer overflow"));
        };
        if let Some(wrong) = rest.chars().next().filter(|c| !"uUlL".contains(*c)) {
            return self.error(
                ErrTag::IntDigit,
                format!("constant {text} contains invalid digit {wrong}"),
            );
        }
        Ok(literal(text, rest, value))
    }

    /// Returns characters in quotes as one integer: the last one is the lowest byte.
    fn character(&self, bytes: &[u8]) -> Result<IntLit> {
        if bytes.is_empty() {
            return self.error(ErrTag::ChrNull, "empty character constant");
        }
        let bytes = text::unescape(bytes);
        if bytes.len() > 8 {
            return self.error(ErrTag::ChrOflow, "character constant is too long");
        }
        Ok(IntLit::plain(bytes.iter().fold(0, |value, &byte| value << 8 | u64::from(byte))))
    }

    fn argument(&mut self, text: &str, digits: &str, default: &str) -> Result<String> {
        // A number that is too large for an index is a missing argument.
        let index = digits.parse().unwrap_or(usize::MAX);
        match self.context.arguments().get(index) {
            Some(argument) => {
                self.used_arguments[index] = true;
                Ok(argument.clone())
            }
            None if self.default_arguments => Ok(default.into()),
            None => self.error(ErrTag::MacroUndef, format!("macro argument {text} is not defined")),
        }
    }

    /// Returns `$1` as an integer, a name, or a string, depending on its text.
    fn macro_argument(&mut self, text: &str) -> Result<Lexeme> {
        let argument = self.argument(text, &text[1..], "0")?;
        if is_bad_name_or_number(&argument) {
            let inner = match argument.strip_prefix('"').and_then(|a| a.strip_suffix('"')) {
                Some(inner) => inner,
                None => &argument,
            };
            return Ok(Lexeme::Str(text::unescape(inner.as_bytes())));
        }
        let (sign, digits) = match argument.as_bytes()[0] {
            b'-' => (Some(Punct::Minus), &argument[1..]),
            b'+' => (Some(Punct::Plus), &argument[1..]),
            b'0'..=b'9' => (None, &argument[..]),
            _ => return Ok(self.name_or_type(argument)),
        };
        let (_, rest, value) = read_integer(digits);
        match value {
            Some(value) => Ok(Lexeme::Int(literal(digits, rest, value), sign)),
            None => self.error(
                ErrTag::MacroOflow,
                format!("macro argument {text} constant {digits} results in integer overflow"),
            ),
        }
    }

    fn macro_variable(&self, text: &str, name: &str) -> Result<i64> {
        match self.context.macro_variable(name) {
            Some(value) => Ok(value),
            None => self.error(ErrTag::MacroUndef, format!("macro variable {text} is not defined")),
        }
    }
}

fn literal(text: &str, suffix: &str, value: u64) -> IntLit {
    IntLit {
        value,
        decimal: !text.starts_with('0'),
        unsigned: suffix.contains(['u', 'U']),
        longs: suffix.matches(['l', 'L']).count().min(2) as u8,
    }
}

/// Splits a number into digits and suffix; returns its value too, if it fits.
fn read_integer(text: &str) -> (&str, &str, Option<u64>) {
    let (base, begin) = match text.as_bytes() {
        [b'0', b'x' | b'X', digit, ..] if digit.is_ascii_hexdigit() => (16, 2),
        [b'0', ..] => (8, 0),
        _ => (10, 0),
    };
    let end = text[begin..].find(|c: char| !c.is_digit(base)).map_or(text.len(), |at| begin + at);
    (&text[..end], &text[end..], u64::from_str_radix(&text[begin..end], base).ok())
}

/// Returns whether a macro argument is neither an integer nor a name (`strbadidnum`, dt_string.c).
fn is_bad_name_or_number(text: &str) -> bool {
    match text.as_bytes() {
        [] => true,
        [b'-' | b'+', rest @ ..] => !is_number(rest),
        [b'0'..=b'9', ..] => !is_number(text.as_bytes()),
        [first, rest @ ..] => {
            let word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'`');
            !(first.is_ascii_alphabetic() || matches!(first, b'_' | b'`')) || !rest.iter().all(word)
        }
    }
}

fn is_number(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let (digits, rest, _) = read_integer(text);
    !digits.is_empty()
        && matches!(
            rest.to_ascii_lowercase().as_str(),
            "" | "u" | "l" | "ul" | "lu" | "ll" | "ull" | "llu"
        )
}
