//! Declarations and names of types.

use super::token::{Keyword, Lexeme};
use super::{Parser, Result};
use crate::lex::Punct;
use crate::syntax::{
    Base, Class, Declarator, Dim, EnumDef, Enumerator, Field, Param, Part, Qualifier, Spec, Specs,
    TypeName,
};

/// The position of specifiers, which determines the allowed ones.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Where {
    /// In a declaration.
    Declaration,
    /// In a parameter, where `self` and `this` are not storage classes.
    Parameter,
    /// In a field or a type name, where storage classes are not allowed.
    Type,
}

impl Parser<'_> {
    /// Returns whether the next token is the name of a type.
    pub(super) fn at_type(&mut self) -> Result<bool> {
        Ok(match self.peek()? {
            Lexeme::Type(_) => true,
            Lexeme::Keyword(keyword) => keyword.begins_type(),
            _ => false,
        })
    }

    /// Parses a type without a declarator's name.
    pub(super) fn type_name(&mut self) -> Result<TypeName> {
        self.scoped(|parser| {
            let specs = parser.specs(Where::Type)?;
            let declarator = parser.declarator(false)?;
            Ok(TypeName { specs, declarator })
        })
    }

    /// Parses a type that precedes a name, such as `<psinfo_t *P>`. The name is not part of the type's declarator.
    pub(super) fn type_name_before_name(&mut self) -> Result<TypeName> {
        let specs = self.specs(Where::Type)?;
        let start = self.start()?;
        let mut declarator = Declarator::default();
        while self.eat(Punct::Star)? {
            declarator.parts.push(Part::Pointer(Vec::new()));
        }
        self.depth_of_parts(&declarator)?;
        declarator.place = self.place_from(start);
        Ok(TypeName { specs, declarator })
    }

    /// Reads a declaration within another one.
    fn scoped<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let outer = (self.typed, self.sized);
        (self.typed, self.sized) = (false, false);
        let result = self.nested(read);
        (self.typed, self.sized) = outer;
        result
    }

    /// Parses the specifiers of a declaration: at least one word. Afterwards names are not types until
    /// [`end_declaration`](Self::end_declaration).
    pub(super) fn specs(&mut self, place: Where) -> Result<Specs> {
        let start = self.start()?;
        let mut specs = Specs::default();
        loop {
            let keyword = match self.peek()? {
                Lexeme::Type(name) => {
                    specs.specs.push(Spec::Name(name.clone()));
                    self.typed = true;
                    self.next()?;
                    continue;
                }
                Lexeme::Keyword(keyword) => *keyword,
                _ => break,
            };
            if let Some(class) = class(keyword, place) {
                specs.classes.push(class);
                self.next()?;
                continue;
            }
            let spec = match keyword {
                Keyword::Void => Spec::Base(Base::Void),
                Keyword::Char => Spec::Base(Base::Char),
                Keyword::Int => Spec::Base(Base::Int),
                Keyword::Float => Spec::Base(Base::Float),
                Keyword::Double => Spec::Base(Base::Double),
                Keyword::Short => Spec::Short,
                Keyword::Long => Spec::Long,
                Keyword::Signed => Spec::Signed,
                Keyword::Unsigned => Spec::Unsigned,
                Keyword::Userland => Spec::Userland,
                Keyword::String => Spec::Name("string".into()),
                Keyword::Const => Spec::Qualifier(Qualifier::Const),
                Keyword::Restrict => Spec::Qualifier(Qualifier::Restrict),
                Keyword::Volatile => Spec::Qualifier(Qualifier::Volatile),
                Keyword::Struct | Keyword::Union => {
                    self.sized = true;
                    self.next()?;
                    specs.specs.push(self.record(keyword == Keyword::Union)?);
                    self.typed = true;
                    continue;
                }
                Keyword::Enum => {
                    self.sized = true;
                    self.next()?;
                    specs.specs.push(self.enumeration()?);
                    self.typed = true;
                    continue;
                }
                _ => break,
            };
            match spec {
                Spec::Base(_) | Spec::Name(_) => self.typed = true,
                Spec::Short | Spec::Long | Spec::Signed | Spec::Unsigned => self.sized = true,
                _ => {}
            }
            specs.specs.push(spec);
            self.next()?;
        }
        if specs == Specs::default() {
            return self.unexpected();
        }
        specs.place = self.place_from(start);
        Ok(specs)
    }

    /// Ends the declaration: names may be types again.
    pub(super) fn end_declaration(&mut self) {
        self.typed = false;
        self.sized = false;
    }

    fn tag(&mut self) -> Result<Option<String>> {
        let tag = match self.peek()? {
            Lexeme::Ident(name) | Lexeme::Type(name) => Some(name.clone()),
            _ => None,
        };
        if tag.is_some() {
            self.next()?;
        }
        Ok(tag)
    }

    fn record(&mut self, union: bool) -> Result<Spec> {
        let tag = self.tag()?;
        if !self.is(Punct::LeftBrace)? {
            if tag.is_none() {
                return self.unexpected();
            }
            let place = self.place();
            return Ok(Spec::Record { union, tag, place, fields: None });
        }
        let start = self.start()?;
        let place = self.place_from(start);
        let fields = self.scoped(|parser| {
            parser.next()?;
            let mut fields = Vec::new();
            loop {
                fields.push(parser.field()?);
                if parser.eat(Punct::RightBrace)? {
                    return Ok(fields);
                }
            }
        })?;
        Ok(Spec::Record { union, tag, place, fields: Some(fields) })
    }

    fn field(&mut self) -> Result<Field> {
        self.end_declaration();
        let specs = self.specs(Where::Type)?;
        let mut declarators = Vec::new();
        loop {
            let start = self.start()?;
            // As in C since 2011, a struct in another one needs no name; libdtrace requires one.
            let anonymous = declarators.is_empty()
                && matches!(specs.specs[..], [.., Spec::Record { fields: Some(_), .. }])
                && self.is(Punct::Semicolon)?;
            let declarator = if anonymous || self.is(Punct::Colon)? {
                None
            } else {
                Some(self.declarator(true)?)
            };
            let bits =
                if self.eat(Punct::Colon)? { Some(self.scoped(Self::constant)?) } else { None };
            self.peek()?;
            declarators.push((declarator, bits, self.place_from(start)));
            if !self.eat(Punct::Comma)? {
                break;
            }
        }
        self.end_declaration();
        self.expect(Punct::Semicolon)?;
        Ok(Field { specs, declarators })
    }

    fn enumeration(&mut self) -> Result<Spec> {
        let tag = self.tag()?;
        if !self.is(Punct::LeftBrace)? {
            if tag.is_none() {
                return self.unexpected();
            }
            return Ok(Spec::Enum(EnumDef { tag, enumerators: None }));
        }
        let enumerators = self.scoped(|parser| {
            parser.next()?;
            let mut enumerators = Vec::new();
            loop {
                let start = parser.start()?;
                let Lexeme::Ident(name) = parser.peek()?.clone() else {
                    return parser.unexpected();
                };
                parser.next()?;
                let value = if parser.eat(Punct::Eq)? { Some(parser.assignment()?) } else { None };
                parser.peek()?;
                parser.names.insert(name.clone());
                let place = parser.place_from(start);
                enumerators.push(Enumerator { name, value, place });
                if parser.eat(Punct::RightBrace)? {
                    return Ok(enumerators);
                }
                parser.expect(Punct::Comma)?;
            }
        })?;
        Ok(Spec::Enum(EnumDef { tag, enumerators: Some(enumerators) }))
    }

    /// Parses a declarator, which must have a name if it is `named`.
    pub(super) fn declarator(&mut self, named: bool) -> Result<Declarator> {
        let start = self.start()?;
        let mut declarator = Declarator::default();
        self.declarator_into(&mut declarator)?;
        if named && declarator.name.is_none() {
            return self.unexpected();
        }
        declarator.place = self.place_from(start);
        Ok(declarator)
    }

    fn declarator_into(&mut self, declarator: &mut Declarator) -> Result<()> {
        let mut pointers = Vec::new();
        while self.eat(Punct::Star)? {
            let mut qualifiers = Vec::new();
            loop {
                let qualifier = match self.peek()? {
                    Lexeme::Keyword(Keyword::Const) => Qualifier::Const,
                    Lexeme::Keyword(Keyword::Restrict) => Qualifier::Restrict,
                    Lexeme::Keyword(Keyword::Volatile) => Qualifier::Volatile,
                    _ => break,
                };
                self.next()?;
                qualifiers.push(qualifier);
            }
            pointers.push(Part::Pointer(qualifiers));
        }
        if let Lexeme::Ident(name) = self.peek()? {
            declarator.name = Some(name.clone());
            self.next()?;
        } else if self.is(Punct::LeftParen)? && self.is_nested_declarator() {
            self.next()?;
            self.nested(|parser| parser.declarator_into(declarator))?;
            self.expect(Punct::RightParen)?;
        }
        loop {
            if self.eat(Punct::LeftBracket)? {
                let dim = self.scoped(Self::dim)?;
                self.expect(Punct::RightBracket)?;
                declarator.parts.push(Part::Array(dim));
            } else if self.eat(Punct::LeftParen)? {
                let params = self.scoped(|parser| parser.params(Punct::RightParen))?;
                self.expect(Punct::RightParen)?;
                declarator.parts.push(Part::Function(params));
            } else {
                break;
            }
        }
        declarator.parts.extend(pointers.into_iter().rev());
        self.depth_of_parts(declarator)
    }

    /// Checks that a type is not too deep: its depth is the number of parts of its declarator.
    fn depth_of_parts(&mut self, declarator: &Declarator) -> Result<()> {
        let depth = self.depth;
        self.deepen(u32::try_from(declarator.parts.len()).unwrap_or(u32::MAX))?;
        self.depth = depth;
        Ok(())
    }

    /// Returns whether the next parenthesis encloses a declarator, not parameters.
    fn is_nested_declarator(&self) -> bool {
        let mut ahead = self.source[self.at..].iter().copied();
        match ahead.by_ref().find(|byte| !byte.is_ascii_whitespace()) {
            Some(b'*' | b'(' | b'[') => true,
            Some(byte) if byte.is_ascii_alphabetic() || byte == b'_' => {
                let text = &self.source[self.at..];
                let begin = text.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(0);
                let word: Vec<u8> = text[begin..]
                    .iter()
                    .copied()
                    .take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
                    .collect();
                let word = String::from_utf8_lossy(&word);
                !Keyword::is_one(&word) && !self.is_type(&word)
            }
            _ => false,
        }
    }

    fn dim(&mut self) -> Result<Dim> {
        if self.is(Punct::RightBracket)? {
            return Ok(Dim::Open);
        }
        if self.at_type()? || self.is(Punct::Ellipsis)? {
            return Ok(Dim::Keys(self.params(Punct::RightBracket)?));
        }
        Ok(Dim::Size(Box::new(self.constant()?)))
    }

    /// Parses parameters up to the closing token, without it.
    pub(super) fn params(&mut self, close: Punct) -> Result<Vec<Param>> {
        let mut params = Vec::new();
        if self.is(close)? {
            return Ok(params);
        }
        loop {
            if self.eat(Punct::Ellipsis)? {
                params.push(Param::Ellipsis);
                return Ok(params);
            }
            self.end_declaration();
            let specs = self.specs(Where::Parameter)?;
            let declarator = self.declarator(false)?;
            params.push(Param::Type(specs, declarator));
            self.end_declaration();
            if !self.eat(Punct::Comma)? {
                return Ok(params);
            }
        }
    }
}

fn class(keyword: Keyword, place: Where) -> Option<Class> {
    let class = match keyword {
        Keyword::Auto => Class::Auto,
        Keyword::Register => Class::Register,
        Keyword::Static => Class::Static,
        Keyword::Extern => Class::Extern,
        Keyword::Typedef => Class::Typedef,
        Keyword::SelfKey if place == Where::Declaration => Class::SelfVar,
        Keyword::This if place == Where::Declaration => Class::This,
        _ => return None,
    };
    (place != Where::Type).then_some(class)
}
