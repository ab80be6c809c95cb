//! Programs, clauses, and other items.

use dtrace_abi::ErrTag;

use super::decl::Where;
use super::token::{Keyword, Lexeme};
use super::{Parser, Result};
use crate::error::Error;
use crate::lex::{Punct, Vocabulary};
use crate::syntax::{
    Class, Clause, Declarator, ItemKind, Param, Probe, ProbeSpec, Specs, Stmt, StmtKind,
    XlateMember,
};

impl Parser<'_> {
    pub(super) fn program(&mut self) -> Result<()> {
        loop {
            match self.peek()? {
                Lexeme::End => return Ok(()),
                Lexeme::ProbeSpec(_) | Lexeme::Int(..) => self.clause()?,
                Lexeme::Keyword(Keyword::Inline) => self.inline()?,
                Lexeme::Keyword(Keyword::Translator) => self.translator()?,
                Lexeme::Keyword(Keyword::Provider) => self.provider()?,
                Lexeme::Keyword(_) | Lexeme::Type(_) => self.declaration()?,
                _ => return self.unexpected(),
            }
            self.vocabulary = Vocabulary::Clause;
        }
    }

    fn clause(&mut self) -> Result<()> {
        let start = self.start()?;
        if self.context.only_declares() {
            let message = "the declarations of a module may not contain clauses";
            return self.error(ErrTag::Syntax, message);
        }
        let first = self.place_from(start);
        let mut clause = Clause { probes: Vec::new(), predicate: None, body: None };
        loop {
            let spec = match self.peek()?.clone() {
                Lexeme::ProbeSpec(text) => {
                    ProbeSpec::Description(text, self.place_from(self.last.0))
                }
                Lexeme::Int(int, _) => ProbeSpec::Id(int.value, self.place_from(self.last.0)),
                _ => return self.unexpected(),
            };
            self.next()?;
            clause.probes.push(spec);
            if !self.eat(Punct::Comma)? {
                break;
            }
        }
        // The next token was lexed already, in the vocabulary of descriptions.
        self.vocabulary = Vocabulary::Expr;
        if self.eat(Punct::Slash)? {
            clause.predicate = Some(self.expression()?);
            if *self.peek()? != Lexeme::EndPredicate {
                return self.unexpected();
            }
            self.next()?;
            // Tokens that could follow a clause cause a separate error.
            if matches!(
                self.peek()?,
                Lexeme::End | Lexeme::Int(..) | Lexeme::Keyword(_) | Lexeme::Type(_)
            ) {
                return self.error(
                    ErrTag::Syntax,
                    "expected actions { } following probe description and predicate",
                );
            }
            if !self.is(Punct::LeftBrace)? {
                return self.unexpected();
            }
        }
        if self.eat(Punct::LeftBrace)? {
            let mut body = Vec::new();
            let result = self.statements(&mut body);
            clause.body = Some(body);
            if result.is_err() {
                // The part before the error is compiled as well, because it may contain another error.
                self.add(start, ItemKind::Clause(clause));
                return result;
            }
        }
        if clause.body.is_none() && self.context.is_file() {
            let mut error = Error::new(
                ErrTag::Syntax,
                first,
                "expected predicate and/or actions following probe description",
            );
            error.file.clone_from(&self.file);
            return Err(error);
        }
        self.add(start, ItemKind::Clause(clause));
        Ok(())
    }

    /// Parses statements up to and including the closing brace.
    fn statements(&mut self, body: &mut Vec<Stmt>) -> Result<()> {
        loop {
            if self.eat(Punct::RightBrace)? {
                return Ok(());
            }
            if !self.statement(body)? {
                return self.expect(Punct::RightBrace);
            }
        }
    }

    /// Parses one statement. Returns `false` if it has no semicolon, which is allowed only for the last one.
    fn statement(&mut self, body: &mut Vec<Stmt>) -> Result<bool> {
        if self.eat(Punct::Semicolon)? {
            return Ok(true);
        }
        let start = self.start()?;
        if *self.peek()? == Lexeme::Keyword(Keyword::If) {
            let stmt = self.nested(|parser| parser.conditional_statement(start))?;
            body.push(stmt);
            return Ok(true);
        }
        let expr = self.expression()?;
        let ended = self.eat(Punct::Semicolon)?;
        body.push(Stmt { place: self.place_from(start), kind: StmtKind::Expr(expr) });
        Ok(ended)
    }

    fn conditional_statement(&mut self, start: usize) -> Result<Stmt> {
        self.next()?;
        self.expect(Punct::LeftParen)?;
        let test = self.expression()?;
        self.expect(Punct::RightParen)?;
        let yes = self.block()?;
        let no = if *self.peek()? == Lexeme::Keyword(Keyword::Else) {
            self.next()?;
            Some(self.block()?)
        } else {
            None
        };
        Ok(Stmt { place: self.place_from(start), kind: StmtKind::If(test, yes, no) })
    }

    /// Parses a statement with its semicolon, or several in braces.
    fn block(&mut self) -> Result<Vec<Stmt>> {
        let mut body = Vec::new();
        if self.eat(Punct::LeftBrace)? {
            self.statements(&mut body)?;
        } else if !self.statement(&mut body)? {
            return self.expect(Punct::Semicolon).map(|()| body);
        }
        Ok(body)
    }

    fn declaration(&mut self) -> Result<()> {
        let start = self.start()?;
        let specs = self.specs(Where::Declaration)?;
        let mut declarators = Vec::new();
        if !self.is(Punct::Semicolon)? {
            loop {
                let declarator = self.declarator(true)?;
                self.declare(&specs, &declarator);
                declarators.push(declarator);
                if !self.eat(Punct::Comma)? {
                    break;
                }
            }
        }
        self.end_declaration();
        self.expect(Punct::Semicolon)?;
        self.add(start, ItemKind::Decl(specs, declarators));
        Ok(())
    }

    fn declare(&mut self, specs: &Specs, declarator: &Declarator) {
        let Some(name) = declarator.name.clone() else { return };
        if specs.classes.contains(&Class::Typedef) {
            self.types.insert(name);
        } else if !specs
            .classes
            .iter()
            .any(|c| matches!(c, Class::SelfVar | Class::This | Class::Extern))
        {
            self.names.insert(name);
        }
    }

    fn inline(&mut self) -> Result<()> {
        let start = self.start()?;
        self.next()?;
        let specs = self.specs(Where::Declaration)?;
        let declarator = self.declarator(true)?;
        self.end_declaration();
        self.expect(Punct::Eq)?;
        let value = self.assignment()?;
        self.expect(Punct::Semicolon)?;
        if let Some(name) = declarator.name.clone() {
            self.names.insert(name);
        }
        self.add(start, ItemKind::Inline(specs, declarator, value));
        Ok(())
    }

    fn ident(&mut self) -> Result<String> {
        let Lexeme::Ident(name) = self.peek()? else { return self.unexpected() };
        let name = name.clone();
        self.next()?;
        Ok(name)
    }

    fn translator(&mut self) -> Result<()> {
        let start = self.start()?;
        self.next()?;
        let output = self.type_name()?;
        self.expect(Punct::Less)?;
        // The name of the parameter after the type is not a type, and not part of the type.
        let input = self.type_name_before_name()?;
        let param = self.ident()?;
        self.end_declaration();
        self.expect(Punct::Greater)?;
        self.expect(Punct::LeftBrace)?;
        let mut members = Vec::new();
        while !self.eat(Punct::RightBrace)? {
            let start = self.start()?;
            let name = self.ident()?;
            self.expect(Punct::Eq)?;
            let value = self.assignment()?;
            self.expect(Punct::Semicolon)?;
            members.push(XlateMember { name, value, place: self.place_from(start) });
        }
        self.expect(Punct::Semicolon)?;
        self.add(start, ItemKind::Translator { output, input, param, members });
        Ok(())
    }

    fn provider(&mut self) -> Result<()> {
        let start = self.start()?;
        self.next()?;
        let name = self.ident()?;
        self.expect(Punct::LeftBrace)?;
        let mut probes = Vec::new();
        while !self.eat(Punct::RightBrace)? {
            if *self.peek()? != Lexeme::Keyword(Keyword::Probe) {
                return self.unexpected();
            }
            let start = self.start()?;
            self.next()?;
            let name = self.ident()?;
            let input = self.prototype()?;
            let output = if self.eat(Punct::Colon)? { Some(self.prototype()?) } else { None };
            self.expect(Punct::Semicolon)?;
            probes.push(Probe { name, input, output, place: self.place_from(start) });
        }
        self.expect(Punct::Semicolon)?;
        self.add(start, ItemKind::Provider { name, probes });
        Ok(())
    }

    fn prototype(&mut self) -> Result<Vec<Param>> {
        self.expect(Punct::LeftParen)?;
        let params = self.params(Punct::RightParen)?;
        self.end_declaration();
        self.expect(Punct::RightParen)?;
        Ok(params)
    }
}
