//! The parser: from a source to its tree.
//!
//! D cannot be read without knowing which names are types, so the parser asks its [`Context`], and
//! keeps a list of those that the source itself declares. It chooses the lexer's vocabulary, resolves
//! macro arguments, and knows nothing else.

mod control;
mod decl;
mod expr;
mod items;
mod token;

use std::collections::HashSet;

use dtrace_abi::ErrTag;

use crate::error::{Error, Result};
use crate::lex::{self, Punct, TokenKind, Vocabulary};
use crate::syntax::{Item, ItemKind, Place, Program};
use token::{Lexeme, Token};

/// How deep a tree may be: 160 operators in a chain, or some 60 parentheses or 100 calls within each
/// other. Without optimization each of them takes up to 12 KiB of the stack, of which threads have 2 MiB.
const DEPTH: u32 = 800;
/// What an operator of a chain counts.
const LINK: u32 = 5;
/// What a block, a type, a step of the expressions' grammar counts.
const NESTING: u32 = 4;

/// What a source may refer to without saying what it is.
pub trait Context {
    /// Whether a name is a type's.
    fn is_type(&self, name: &str) -> bool;

    /// Whether it is a type's only as long as nobody declares it otherwise: behind `unsigned` it is no type.
    fn is_weak_type(&self, name: &str) -> bool {
        let _ = name;
        false
    }

    /// Whether a name is a variable's, a function's, or otherwise no type's even if a type has it.
    fn is_name(&self, name: &str) -> bool;

    /// The arguments of the program; the first is its name.
    fn arguments(&self) -> &[String];

    /// Whether arguments that are missing are 0 or empty (`-x defaultargs`).
    fn default_arguments(&self) -> bool;

    /// What `$name` stands for.
    fn macro_variable(&self, name: &str) -> Option<i64>;

    /// Whether the source is a file, where every clause has to say something.
    fn is_file(&self) -> bool;

    /// Whether the source may only declare: then control lines and clauses are errors.
    fn only_declares(&self) -> bool {
        false
    }

    /// Whether a word outside of clauses is a probe even if a type is called so (`-x pspec`).
    fn prefer_probes(&self) -> bool;
}

/// What became of a source.
#[derive(Debug)]
pub struct Parsed {
    /// The tree, of as much as could be read.
    pub program: Program,
    /// Why that is not all.
    pub error: Option<Box<Error>>,
    /// Which arguments were referred to.
    pub used_arguments: Vec<bool>,
}

/// Reads a source.
pub fn parse(source: &[u8], context: &dyn Context) -> Parsed {
    let mut parser = Parser::new(source, context);
    let error = parser.program().err();
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
    /// The last token that was looked at: where, and how much of the source.
    last: (usize, usize),
    parens: u32,
    brackets: u32,
    braces: u32,
    depth: u32,
    /// The declaration that is being read has its type already, so no other name can be one.
    typed: bool,
    /// It has `short`, `long`, `signed`, `unsigned`, or `struct` and the like, which are enough of a type.
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

    /// The place of a node that is whole now.
    fn place(&self) -> Place {
        self.place_from(self.at)
    }

    /// The place of a node that began at `start` and is whole now.
    fn place_from(&self, start: usize) -> Place {
        Place { line: self.line, start: u32::try_from(start).unwrap_or(u32::MAX) }
    }

    fn error<T>(&self, tag: ErrTag, message: impl Into<String>) -> Result<T> {
        let mut error = Error::new(tag, self.place_from(self.last.0), message);
        error.file.clone_from(&self.file);
        Err(error)
    }

    /// What has been looked at last is not what could come here.
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

    /// Reads something nested, unless that is too deep.
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

    /// The next token, which stays where it is.
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

    /// Where the next token begins.
    fn start(&mut self) -> Result<usize> {
        self.peek()?;
        Ok(self.last.0)
    }

    /// Takes the next token.
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

    /// Takes the next token if it is this one.
    fn eat(&mut self, punct: Punct) -> Result<bool> {
        let eat = self.is(punct)?;
        if eat {
            self.peeked = None;
        }
        Ok(eat)
    }

    /// Takes the next token, which has to be this one.
    fn expect(&mut self, punct: Punct) -> Result<()> {
        if self.eat(punct)? { Ok(()) } else { self.unexpected() }
    }

    /// What the lexer sees next, blanks and control lines left out.
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
