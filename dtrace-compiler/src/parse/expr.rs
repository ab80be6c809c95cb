//! Parses expressions by the precedence of their operators.

use super::token::{Keyword, Lexeme};
use super::{LINK, Parser, Result};
use crate::lex::Punct;
use crate::place::Place;
use crate::syntax::{BinaryOp, Expr, ExprKind, UnaryOp};

/// An expression, and whether it may be the left side of an assignment.
type Operand = (Expr, bool);

impl Parser<'_> {
    /// Parses an expression, including comma operators.
    pub(super) fn expression(&mut self) -> Result<Expr> {
        let start = self.start()?;
        let mut left = self.assignment()?;
        let depth = self.depth;
        while self.eat(Punct::Comma)? {
            let right = self.assignment()?;
            left = self.binary_node(start, BinaryOp::Comma, left, right);
            self.deepen(LINK)?;
        }
        self.depth = depth;
        Ok(left)
    }

    /// Parses an expression without comma operators.
    pub(super) fn assignment(&mut self) -> Result<Expr> {
        self.nested(|parser| {
            let start = parser.start()?;
            let (left, unary) = parser.conditional()?;
            if !unary {
                return Ok(left);
            }
            let Lexeme::Punct(punct) = *parser.peek()? else { return Ok(left) };
            let Some(op) = assignment_op(punct) else { return Ok(left) };
            parser.next()?;
            let right = parser.assignment()?;
            Ok(parser.node(start, ExprKind::Assign(op, Box::new(left), Box::new(right))))
        })
    }

    /// Parses an expression without assignments, such as the size of an array.
    pub(super) fn constant(&mut self) -> Result<Expr> {
        Ok(self.conditional()?.0)
    }

    /// Parses `a ? b : c ? d : e`. Uses a loop, because libraries contain chains of a hundred conditions.
    fn conditional(&mut self) -> Result<Operand> {
        let mut start = self.start()?;
        let (mut test, unary) = self.binary(BinaryOp::OrOr.power())?;
        let depth = self.depth;
        let mut chain = Vec::new();
        while self.eat(Punct::Question)? {
            let yes = self.nested(Self::expression)?;
            self.expect(Punct::Colon)?;
            self.deepen(LINK)?;
            let next = self.start()?;
            let no = self.binary(BinaryOp::OrOr.power())?.0;
            chain.push((start, std::mem::replace(&mut test, no), yes));
            start = next;
        }
        self.depth = depth;
        let unary = unary && chain.is_empty();
        let last = chain.into_iter().rev().fold(test, |no, (start, test, yes)| {
            let kind = ExprKind::Ternary(Box::new(test), Box::new(yes), Box::new(no));
            self.node(start, kind)
        });
        Ok((last, unary))
    }

    fn binary(&mut self, power: u8) -> Result<Operand> {
        let start = self.start()?;
        let (mut left, mut unary) = self.cast()?;
        let depth = self.depth;
        while let Lexeme::Punct(punct) = *self.peek()? {
            let Some(op) = binary_op(punct).filter(|op| op.power() >= power) else { break };
            self.next()?;
            let right = self.binary(op.power() + 1)?.0;
            left = self.binary_node(start, op, left, right);
            unary = false;
            self.deepen(LINK)?;
        }
        self.depth = depth;
        Ok((left, unary))
    }

    fn cast(&mut self) -> Result<Operand> {
        self.nested(|parser| {
            let start = parser.start()?;
            if !parser.eat(Punct::LeftParen)? {
                return parser.unary();
            }
            if parser.at_type()? {
                let ty = parser.type_name()?;
                parser.expect(Punct::RightParen)?;
                let value = parser.cast()?.0;
                return Ok((
                    parser.node(start, ExprKind::Cast(Box::new(ty), Box::new(value))),
                    false,
                ));
            }
            let inner = parser.parenthesised()?;
            Ok((parser.postfix(start, inner)?, true))
        })
    }

    /// Parses an expression after an opening parenthesis, and the closing one.
    fn parenthesised(&mut self) -> Result<Expr> {
        let inner = self.nested(Self::expression)?;
        self.expect(Punct::RightParen)?;
        Ok(inner)
    }

    fn unary(&mut self) -> Result<Operand> {
        let start = self.start()?;
        let op = match *self.peek()? {
            Lexeme::Punct(Punct::PlusPlus) => UnaryOp::PreInc,
            Lexeme::Punct(Punct::MinusMinus) => UnaryOp::PreDec,
            Lexeme::Punct(Punct::And) => UnaryOp::AddrOf,
            Lexeme::Punct(Punct::Star) => UnaryOp::Deref,
            Lexeme::Punct(Punct::Plus) => UnaryOp::Plus,
            Lexeme::Punct(Punct::Minus) => UnaryOp::Neg,
            Lexeme::Punct(Punct::Tilde) => UnaryOp::BitNot,
            Lexeme::Punct(Punct::Not) => UnaryOp::Not,
            Lexeme::Keyword(Keyword::Sizeof) => UnaryOp::Sizeof,
            Lexeme::Keyword(Keyword::Stringof) => UnaryOp::Stringof,
            _ => {
                let primary = self.primary()?;
                return Ok((self.postfix(start, primary)?, true));
            }
        };
        self.next()?;
        let operand = match op {
            UnaryOp::PreInc | UnaryOp::PreDec | UnaryOp::Stringof => self.nested(Self::unary)?.0,
            UnaryOp::Sizeof => {
                let inner = self.start()?;
                if self.eat(Punct::LeftParen)? {
                    if self.at_type()? {
                        let ty = self.type_name()?;
                        self.expect(Punct::RightParen)?;
                        return Ok((self.node(start, ExprKind::SizeofType(Box::new(ty))), true));
                    }
                    let operand = self.parenthesised()?;
                    self.postfix(inner, operand)?
                } else {
                    self.nested(Self::unary)?.0
                }
            }
            _ => self.cast()?.0,
        };
        Ok((self.node(start, ExprKind::Unary(op, Box::new(operand))), true))
    }

    fn primary(&mut self) -> Result<Expr> {
        let start = self.start()?;
        let kind = match self.peek()? {
            Lexeme::Ident(name) => ExprKind::Ident(name.clone()),
            Lexeme::Agg(name) => ExprKind::Agg(name.clone()),
            Lexeme::Str(bytes) => ExprKind::Str(bytes.clone()),
            Lexeme::Keyword(keyword @ (Keyword::SelfKey | Keyword::This)) => {
                ExprKind::Ident(keyword.text().into())
            }
            &Lexeme::Int(int, sign) => {
                self.next()?;
                let int = self.node(start, ExprKind::Int(int));
                let op = match sign {
                    Some(Punct::Minus) => UnaryOp::Neg,
                    Some(_) => UnaryOp::Plus,
                    None => return Ok(int),
                };
                return Ok(self.node(start, ExprKind::Unary(op, Box::new(int))));
            }
            Lexeme::Punct(Punct::LeftParen) => {
                self.next()?;
                return self.parenthesised();
            }
            Lexeme::Keyword(Keyword::Offsetof) => {
                self.next()?;
                self.expect(Punct::LeftParen)?;
                let ty = self.type_name()?;
                self.expect(Punct::Comma)?;
                let member = self.member_name()?;
                self.expect(Punct::RightParen)?;
                return Ok(self.node(start, ExprKind::Offsetof(Box::new(ty), member)));
            }
            Lexeme::Keyword(Keyword::Xlate) => {
                self.next()?;
                self.expect(Punct::Less)?;
                let ty = self.type_name()?;
                self.expect(Punct::Greater)?;
                self.expect(Punct::LeftParen)?;
                let value = self.parenthesised()?;
                return Ok(self.node(start, ExprKind::Xlate(Box::new(ty), Box::new(value))));
            }
            _ => return self.unexpected(),
        };
        self.next()?;
        Ok(self.node(start, kind))
    }

    fn postfix(&mut self, start: usize, mut left: Expr) -> Result<Expr> {
        let depth = self.depth;
        while let Lexeme::Punct(punct) = *self.peek()? {
            let kind = match punct {
                Punct::LeftBracket => {
                    self.next()?;
                    let mut keys = Vec::new();
                    loop {
                        keys.push(self.assignment()?);
                        if !self.eat(Punct::Comma)? {
                            break;
                        }
                    }
                    self.expect(Punct::RightBracket)?;
                    ExprKind::Index(Box::new(left), keys)
                }
                Punct::LeftParen => {
                    self.next()?;
                    let mut args = Vec::new();
                    if !self.eat(Punct::RightParen)? {
                        loop {
                            args.push(self.assignment()?);
                            if !self.eat(Punct::Comma)? {
                                break;
                            }
                        }
                        self.expect(Punct::RightParen)?;
                    }
                    ExprKind::Call(Box::new(left), args)
                }
                Punct::Dot | Punct::Arrow => {
                    self.next()?;
                    // The name of an argument in Rust may be a keyword of D.
                    let name = match &left.kind {
                        ExprKind::Ident(base) if base == "args" => self.argument_name()?,
                        _ => self.member_name()?,
                    };
                    match punct {
                        Punct::Dot => ExprKind::Dot(Box::new(left), name),
                        _ => ExprKind::Arrow(Box::new(left), name),
                    }
                }
                Punct::PlusPlus => {
                    self.next()?;
                    ExprKind::Unary(UnaryOp::PostInc, Box::new(left))
                }
                Punct::MinusMinus => {
                    self.next()?;
                    ExprKind::Unary(UnaryOp::PostDec, Box::new(left))
                }
                _ => break,
            };
            left = self.node(start, kind);
            self.deepen(LINK)?;
        }
        self.depth = depth;
        Ok(left)
    }

    fn argument_name(&mut self) -> Result<String> {
        if let Lexeme::Keyword(keyword) = *self.peek()? {
            self.next()?;
            return Ok(keyword.text().into());
        }
        self.member_name()
    }

    fn member_name(&mut self) -> Result<String> {
        let name = match self.peek()? {
            Lexeme::Ident(name) | Lexeme::Type(name) => name.clone(),
            Lexeme::Keyword(keyword) if keyword.is_member_name() => keyword.text().into(),
            _ => return self.unexpected(),
        };
        self.next()?;
        Ok(name)
    }

    /// Returns a complete node.
    fn node(&self, start: usize, kind: ExprKind) -> Expr {
        Expr { place: self.place_from(start), kind }
    }

    /// Returns the node of an operator. Its place begins with that of its first operand, for errors.
    fn binary_node(&self, start: usize, op: BinaryOp, left: Expr, right: Expr) -> Expr {
        let place = Place { start: left.place.start, ..self.place_from(start) };
        Expr { place, kind: ExprKind::Binary(op, Box::new(left), Box::new(right)) }
    }
}

const fn assignment_op(punct: Punct) -> Option<Option<BinaryOp>> {
    Some(match punct {
        Punct::Eq => None,
        Punct::PlusEq => Some(BinaryOp::Add),
        Punct::MinusEq => Some(BinaryOp::Sub),
        Punct::StarEq => Some(BinaryOp::Mul),
        Punct::SlashEq => Some(BinaryOp::Div),
        Punct::PercentEq => Some(BinaryOp::Rem),
        Punct::AndEq => Some(BinaryOp::And),
        Punct::XorEq => Some(BinaryOp::Xor),
        Punct::OrEq => Some(BinaryOp::Or),
        Punct::ShlEq => Some(BinaryOp::Shl),
        Punct::ShrEq => Some(BinaryOp::Shr),
        _ => return None,
    })
}

const fn binary_op(punct: Punct) -> Option<BinaryOp> {
    Some(match punct {
        Punct::OrOr => BinaryOp::OrOr,
        Punct::XorXor => BinaryOp::XorXor,
        Punct::AndAnd => BinaryOp::AndAnd,
        Punct::Or => BinaryOp::Or,
        Punct::Xor => BinaryOp::Xor,
        Punct::And => BinaryOp::And,
        Punct::EqEq => BinaryOp::Equal,
        Punct::NotEq => BinaryOp::NotEqual,
        Punct::Less => BinaryOp::Less,
        Punct::LessEq => BinaryOp::LessEqual,
        Punct::Greater => BinaryOp::Greater,
        Punct::GreaterEq => BinaryOp::GreaterEqual,
        Punct::Shl => BinaryOp::Shl,
        Punct::Shr => BinaryOp::Shr,
        Punct::Plus => BinaryOp::Add,
        Punct::Minus => BinaryOp::Sub,
        Punct::Star => BinaryOp::Mul,
        Punct::Slash => BinaryOp::Div,
        Punct::Percent => BinaryOp::Rem,
        _ => return None,
    })
}
