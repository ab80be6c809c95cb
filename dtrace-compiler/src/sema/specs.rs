//! Type specifiers (`dt_decl_spec`, `dt_decl_attr`, `dt_decl_type`; dt_decl.c).

use dtrace_abi::ErrTag;
use dtrace_abi::dif::CtfKind;
use dtrace_abi::stability::Attribute;

use super::{Session, TypeRef};
use crate::error::Result;
use crate::syntax::{Base, EnumDef, Spec, Specs, TypeName};
use crate::types::TypeId;

/// The words of a type.
#[derive(Default)]
struct Words {
    kind: Option<CtfKind>,
    name: Option<String>,
    short: bool,
    long: bool,
    long_long: bool,
    signed: bool,
    unsigned: bool,
    user: bool,
    /// A struct or enum that is defined here.
    defined: Option<TypeId>,
}

impl Session<'_> {
    /// Returns the type of a type name.
    pub fn type_ref(&mut self, name: &TypeName) -> Result<TypeRef> {
        let (base, user) = self.base_type(&name.specs)?;
        let ty = self.apply_parts(base, &name.declarator.parts)?;
        Ok(TypeRef { ty, user, attr: Attribute::DEFAULT })
    }

    /// Returns the type before the declarators, and whether it is in a process.
    pub fn base_type(&mut self, specs: &Specs) -> Result<(TypeId, bool)> {
        let mut words = Words::default();
        for spec in &specs.specs {
            self.add_word(&mut words, spec)?;
        }
        if words.kind.is_none() {
            words.kind = Some(CtfKind::Integer);
            self.check_words(&words)?;
        }
        let user = words.user;
        if let Some(defined) = words.defined {
            return Ok((defined, user));
        }
        Ok((self.find_words(&words)?, user))
    }

    fn add_word(&mut self, words: &mut Words, spec: &Spec) -> Result<()> {
        let named = |kind, name: &str| (Some(kind), Some(name.to_string()));
        if let Spec::Record { place, .. } = spec {
            self.place = *place;
        }
        let (kind, name) = match spec {
            Spec::Base(base @ (Base::Float | Base::Double)) => named(CtfKind::Float, base.text()),
            Spec::Base(base) => named(CtfKind::Integer, base.text()),
            Spec::Name(name) => {
                if words.name.is_some() {
                    let message = format!("identifier redeclared: {name}");
                    return self.error(ErrTag::DeclIdred, message);
                }
                named(CtfKind::Typedef, name)
            }
            Spec::Record { union, tag, .. } => {
                let kind = if *union { CtfKind::Union } else { CtfKind::Struct };
                (Some(kind), tag.clone())
            }
            Spec::Enum(EnumDef { tag, .. }) => (Some(CtfKind::Enum), tag.clone()),
            _ => (None, None),
        };
        if kind.is_some() {
            if words.name.is_some() || words.kind.is_some() {
                return self.error(ErrTag::DeclCombo, "invalid type combination");
            }
            words.kind = kind;
            words.name = name;
        }
        match spec {
            Spec::Short => words.short = true,
            Spec::Long if words.long => {
                words.long = false;
                words.long_long = true;
            }
            Spec::Long => words.long = true,
            Spec::Signed => words.signed = true,
            Spec::Unsigned => words.unsigned = true,
            Spec::Userland => words.user = true,
            _ => {}
        }
        self.check_words(words)?;
        match spec {
            Spec::Record { union, tag, fields: Some(fields), .. } => {
                words.defined = Some(self.define_record(*union, tag.as_deref(), fields)?);
            }
            Spec::Enum(EnumDef { tag, enumerators: Some(enumerators) }) => {
                words.defined = Some(self.define_enum(tag.as_deref(), enumerators)?);
            }
            _ => {}
        }
        Ok(())
    }

    fn check_words(&self, words: &Words) -> Result<()> {
        let Some(kind) = words.kind else { return Ok(()) };
        let is = |name: &str| words.name.as_deref() == Some(name);
        let sized = words.short || words.long || words.long_long;
        let sign = words.signed || words.unsigned;
        if is("char") && sized {
            let message = "invalid type declaration: short and long may not be used with char type";
            return self.error(ErrTag::DeclCharattr, message);
        }
        if is("void") && (sized || sign) {
            let message = "invalid type declaration: attributes may not be used with void type";
            return self.error(ErrTag::DeclVoidattr, message);
        }
        if kind != CtfKind::Integer && sign {
            let message =
                "invalid type declaration: signed and unsigned may only be used with integer type";
            return self.error(ErrTag::DeclSignint, message);
        }
        if !matches!(kind, CtfKind::Integer | CtfKind::Float) && (words.long || words.long_long) {
            let message = "invalid type declaration: long and long long may only be used with integer or floating-point type";
            return self.error(ErrTag::DeclLongint, message);
        }
        Ok(())
    }

    /// Returns the type that the words name; an unknown struct becomes a forward declaration.
    fn find_words(&mut self, words: &Words) -> Result<TypeId> {
        let kind = words.kind.unwrap_or(CtfKind::Integer);
        let mut text = Vec::new();
        let sized = words.short || words.long || words.long_long;
        match kind {
            CtfKind::Integer | CtfKind::Float => {
                let attrs = [
                    (words.signed, "signed"),
                    (words.unsigned, "unsigned"),
                    (words.short, "short"),
                    (words.long, "long"),
                    (words.long_long, "long long"),
                ];
                text.extend(attrs.iter().filter(|attr| attr.0).map(|attr| attr.1));
                if text.is_empty() && words.name.is_none() {
                    text.push("int");
                }
            }
            CtfKind::Struct | CtfKind::Union | CtfKind::Enum => text.push(kind.name()),
            _ => {}
        }
        if let Some(name) = words.name.as_deref().filter(|_| kind != CtfKind::Integer || !sized) {
            text.push(name);
        }
        let name = text.join(" ");
        if let Some(ty) = self.type_named(&name) {
            return Ok(ty);
        }
        match (kind, &words.name) {
            (CtfKind::Struct | CtfKind::Union | CtfKind::Enum, Some(tag)) => {
                Ok(self.state.types.forward(kind, tag))
            }
            _ => {
                // Formatted like in libdtrace: a blank after each size word.
                let blank = if kind == CtfKind::Integer && sized { " " } else { "" };
                let message = format!("failed to resolve type {name}{blank}: Unknown type name");
                self.error(ErrTag::Unknown, message)
            }
        }
    }
}
