//! The parser: from a source to its tree.
//!
//! The meaning of D depends on the names of types. So the parser queries its [`Context`], and keeps a list of the types
//! that the source itself declares. It also selects the lexer's vocabulary and resolves macro arguments.

mod control;
mod decl;
mod expr;
mod items;
mod token;

use std::collections::HashSet;

use dtrace_abi::ErrTag;

use crate::error::{Error, Result};
use crate::lex::{self, Punct, TokenKind, Vocabulary};
use crate::place::Place;
use crate::stack::with_room;
use crate::syntax::{Item, ItemKind, Program};
use token::{Lexeme, Token};

/// The greatest depth of a tree: 800 operators in a chain, about 300 nested parentheses, or 500 nested calls. The stack of
/// [`with_room`] is large enough for it.
const DEPTH: u32 = 4000;
/// The depth of an operator in a chain.
const LINK: u32 = 5;
/// The depth of a block, a type, or a step of the expressions' grammar.
const NESTING: u32 = 4;

/// The names that a source can use without declaring them.
pub trait Context {
    /// Returns whether a name is a type.
    fn is_type(&self, name: &str) -> bool;

    /// Returns whether a name is a type only because of the conventional declarations. After a word such as `unsigned`, the name
    /// is then not a type.
    fn is_weak_type(&self, name: &str) -> bool {
        let _ = name;
        false
    }

    /// Returns whether a name is a variable or a function, even if a type has the same name.
    fn is_name(&self, name: &str) -> bool;

    /// Returns the arguments of the program; the first is its name.
    fn arguments(&self) -> &[String];

    /// Returns whether arguments that are missing are 0 or empty (`-x defaultargs`).
    fn default_arguments(&self) -> bool;

    /// Returns the value of `$name`.
    fn macro_variable(&self, name: &str) -> Option<i64>;

    /// Returns whether the source is a file, in which a clause must have actions or a predicate.
    fn is_file(&self) -> bool;

    /// Returns whether the source may only contain declarations: then control lines and clauses are errors.
    fn only_declares(&self) -> bool {
        false
    }

    /// Returns whether a word outside of clauses is a probe even if a type has that name (`-x pspec`).
    fn prefer_probes(&self) -> bool;
}

/// A parsed source.
#[derive(Debug)]
pub struct Parsed {
    /// The tree; if there is an error, the part before it.
    pub program: Program,
    /// The error, if there is one.
    pub error: Option<Box<Error>>,
    /// Whether each argument is used.
    pub used_arguments: Vec<bool>,
}

/// Parses a source.
pub fn parse(source: &[u8], context: &dyn Context) -> Parsed {
    let mut parser = Parser::new(source, context);
    let error = with_room(|| parser.program().err());
    let end = parser.place();
    Parsed {
        program: Program { items: parser.items, end },
        error,
        used_arguments: parser.used_arguments,
    }
}

struct Parser<'a> {
    source: &'a [u8],
    context: &'a dyn Context,
    at: usize,
    line: u32,
    vocabulary: Vocabulary,
    peeked: Option<Token>,
    /// The position and the length of the last token.
    last: (usize, usize),
    parens: u32,
    brackets: u32,
    braces: u32,
    depth: u32,
    /// Whether the current declaration already has its type, so that further names are not types.
    typed: bool,
    /// Whether it has `short`, `long`, `signed`, `unsigned`, or a word like `struct`, which suffice for a type.
    sized: bool,
    types: HashSet<String>,
    names: HashSet<String>,
    default_arguments: bool,
    prefer_probes: bool,
    file: Option<String>,
    used_arguments: Vec<bool>,
    items: Vec<Item>,
}

impl<'a> Parser<'a> {
    fn new(source: &'a [u8], context: &'a dyn Context) -> Self {
        Self {
            source,
            context,
            at: 0,
            line: 1,
            vocabulary: Vocabulary::Clause,
            peeked: None,
            last: (0, 0),
            parens: 0,
            brackets: 0,
            braces: 0,
            depth: 0,
            typed: false,
            sized: false,
            types: HashSet::new(),
            names: HashSet::new(),
            default_arguments: context.default_arguments(),
            prefer_probes: context.prefer_probes(),
            file: None,
            used_arguments: vec![false; context.arguments().len()],
            items: Vec::new(),
        }
    }

    /// Returns the place of a node that ends here.
    fn place(&self) -> Place {
        self.place_from(self.at)
    }

    /// Returns the place of a node that began at `start` and ends here.
    fn place_from(&self, start: usize) -> Place {
        Place { line: self.line, start: u32::try_from(start).unwrap_or(u32::MAX) }
    }

    fn error<T>(&self, tag: ErrTag, message: impl Into<String>) -> Result<T> {
        let mut error = Error::new(tag, self.place_from(self.last.0), message);
        error.file.clone_from(&self.file);
        Err(error)
    }

    /// Returns a syntax error at the last token.
    fn unexpected<T>(&self) -> Result<T> {
        let (start, end) = self.last;
        let text = self.source[start..end].split(|&byte| byte == b'\n').next().unwrap_or(&[]);
        let message = if start == end {
            "syntax error near end of input".into()
        } else {
            format!("syntax error near \"{}\"", String::from_utf8_lossy(text))
        };
        self.error(ErrTag::Syntax, message)
    }

    /// Parses something nested, with an error if it is too deep.
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.deepen(NESTING)?;
        let result = read(self);
        self.depth -= NESTING;
        result
    }

    fn deepen(&mut self, by: u32) -> Result<()> {
        self.depth = self.depth.saturating_add(by);
        if self.depth > DEPTH {
            return self.error(ErrTag::Syntax, "nested too deeply");
        }
        Ok(())
    }

    fn add(&mut self, start: usize, kind: ItemKind) {
        let place = self.place_from(start);
        self.items.push(Item { place, kind });
    }

    /// Returns the next token without consuming it.
    fn peek(&mut self) -> Result<&Lexeme> {
        if self.peeked.is_none() {
            let token = self.token()?;
            self.peeked = Some(token);
        }
        match &self.peeked {
            Some(token) => Ok(&token.lexeme),
            None => self.unexpected(),
        }
    }

    /// Returns the offset of the next token.
    fn start(&mut self) -> Result<usize> {
        self.peek()?;
        Ok(self.last.0)
    }

    /// Consumes the next token.
    fn next(&mut self) -> Result<Lexeme> {
        self.peek()?;
        match self.peeked.take() {
            Some(token) => Ok(token.lexeme),
            None => self.unexpected(),
        }
    }

    fn is(&mut self, punct: Punct) -> Result<bool> {
        Ok(*self.peek()? == Lexeme::Punct(punct))
    }

    /// Consumes the next token if it is `punct`.
    fn eat(&mut self, punct: Punct) -> Result<bool> {
        let eat = self.is(punct)?;
        if eat {
            self.peeked = None;
        }
        Ok(eat)
    }

    /// Consumes the next token, which must be `punct`.
    fn expect(&mut self, punct: Punct) -> Result<()> {
        if self.eat(punct)? { Ok(()) } else { self.unexpected() }
    }

    /// Returns the next token of the lexer after blanks and control lines.
    fn raw(&mut self) -> Result<(TokenKind, usize)> {
        loop {
            let line_start = self.at == 0 || self.source[self.at - 1] == b'\n';
            let start = self.at;
            let token = lex::token(self.vocabulary, &self.source[start..], line_start);
            let text = &self.source[start..start + token.len];
            self.at += token.len;
            self.line += text.iter().filter(|&&byte| byte == b'\n').count() as u32;
            self.last = (start, self.at);
            match token.kind {
                TokenKind::Blank => {}
                TokenKind::Control => self.control(text, start)?,
                TokenKind::NestedComment => {
                    return self.error(ErrTag::Syntax, "/* encountered inside a comment");
                }
                kind => return Ok((kind, start)),
            }
        }
    }
}

#[cfg(test)]
mod tests;
