//! Tokens.

/// The vocabulary of a part of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vocabulary {
    /// Outside of clauses, where a probe description or a declaration begins.
    Clause,
    /// Everywhere else.
    Expr,
}

/// A token: its kind, and its length in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// The kind.
    pub kind: TokenKind,
    /// Its bytes.
    pub len: usize,
}

/// The kinds of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// The source has ended.
    End,
    /// Blanks, a comment, a line that names an interpreter.
    Blank,
    /// A line that begins with `#`.
    Control,
    /// A comment that contains the beginning of another comment.
    NestedComment,
    /// A name, a keyword, a symbol with its scope.
    Word,
    /// `@name`, or `@` alone.
    Aggregation,
    /// An integer. The lexer does not check that its digits are valid in its base.
    Int,
    /// A number with a point or an exponent.
    Float,
    /// A string in its quotes.
    Str,
    /// A string that the line's end cuts off.
    StrCut,
    /// A character in its quotes.
    Char,
    /// A character that the line's end cuts off.
    CharCut,
    /// A macro argument: `$1`.
    MacroArg,
    /// A macro argument as a string: `$$1`.
    MacroArgStr,
    /// A macro variable: `$name`.
    MacroVar,
    /// A macro variable as a string: `$$name`.
    MacroVarStr,
    /// A description of probes.
    ProbeSpec,
    /// The `/` that ends a predicate, with the blanks after it.
    EndPredicate,
    /// An operator, a bracket, or other punctuation.
    Punct(Punct),
    /// A byte that begins no token.
    Stray,
}

macro_rules! puncts {
    ($($name:ident $text:literal)*) => {
        /// Punctuation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Punct {
            $(#[doc = concat!("`", $text, "`")] $name,)*
        }

        impl Punct {
            /// All punctuation. A longer text precedes its prefixes: `<<=` precedes `<<`.
            pub(super) const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Returns its text.
            pub const fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

puncts! {
    ShlEq "<<=" ShrEq ">>=" Ellipsis "..."
    AndAnd "&&" XorXor "^^" OrOr "||" EqEq "==" NotEq "!=" LessEq "<=" GreaterEq ">=" Shl "<<" Shr ">>"
    PlusEq "+=" MinusEq "-=" StarEq "*=" SlashEq "/=" PercentEq "%=" AndEq "&=" XorEq "^=" OrEq "|="
    PlusPlus "++" MinusMinus "--" Arrow "->"
    Or "|" Xor "^" And "&" Less "<" Greater ">" Plus "+" Minus "-" Star "*" Slash "/" Percent "%"
    Tilde "~" Not "!" Question "?" Colon ":" Dot "." Eq "=" Comma "," Semicolon ";"
    LeftParen "(" RightParen ")" LeftBracket "[" RightBracket "]" LeftBrace "{" RightBrace "}"
}
