//! Definitions of structs, unions and enums (`dt_decl_sou`, `dt_decl_member`, `dt_decl_enum`; dt_decl.c).

use std::collections::{HashMap, HashSet};

use dtrace_abi::ErrTag;
use dtrace_abi::dif::CtfKind;

use super::cook::Use;
use super::ident::{Cooking, Inline};
use super::{IdKind, Ident, Kind, Node, Scope, Session};
use crate::error::Result;
use crate::syntax::{Declarator, Enumerator, Expr, ExprKind, Field};
use crate::types::{Type, TypeId};

impl Session<'_> {
    /// Defines a struct or union; its size grows with its members.
    pub fn define_record(
        &mut self,
        union: bool,
        tag: Option<&str>,
        fields: &[Field],
    ) -> Result<TypeId> {
        let word = if union { "union" } else { "struct" };
        let name = format!("{word} {}", tag.unwrap_or("(anon)"));
        let record =
            Type::Record { union, tag: tag.map(String::from), members: Vec::new(), size: 0 };
        let known = tag.and_then(|_| self.types().declared(&name));
        let id = match known {
            Some(id) if matches!(self.types().get(id), Type::Forward(..)) => {
                *self.state.types.get_mut(id) = record;
                id
            }
            Some(_) => return self.error(ErrTag::DeclTypered, format!("type redeclared: {name}")),
            None => {
                let id = self.state.types.add(record);
                if tag.is_some() {
                    self.state.types.set_name(&name, id);
                }
                id
            }
        };
        self.open.push(id);
        let defined = self.define_members(id, &name, fields);
        self.open.pop();
        defined.map(|()| id)
    }

    /// Declares the members of a struct or union that is [open](Self::open).
    fn define_members(&mut self, id: TypeId, name: &str, fields: &[Field]) -> Result<()> {
        let mut names = HashSet::new();
        for field in fields {
            let (base, _) = self.base_type(&field.specs)?;
            for (declarator, bits, place) in &field.declarators {
                self.place = *place;
                let (ty, member) = self.member(base, declarator.as_ref(), bits.as_ref())?;
                let Some(ty) = ty else { continue };
                if let Some(member) = member
                    && !names.insert(member)
                {
                    let message = format!(
                        "failed to define member '{member}': Duplicate member name definition"
                    );
                    return self.error(ErrTag::Unknown, message);
                }
                self.state.types.add_member(id, member.map(String::from), ty);
                if self.types().is_too_large(id) {
                    return self.error(ErrTag::DeclArrbig, format!("{name} is too large"));
                }
                self.check_depth(id)?;
            }
        }
        Ok(())
    }

    /// Returns whether a type is a struct or union whose members are being declared, or an array of these.
    fn is_open(&self, mut ty: TypeId) -> bool {
        while let Type::Array(of, _) = self.types().get(self.types().resolve(ty)) {
            ty = *of;
        }
        self.open.contains(&self.types().resolve(ty))
    }

    /// Checks a member, and returns its type and its name.
    fn member<'d>(
        &mut self,
        base: TypeId,
        declarator: Option<&'d Declarator>,
        bits: Option<&Expr>,
    ) -> Result<(Option<TypeId>, Option<&'d str>)> {
        let name = declarator.and_then(|declarator| declarator.name.as_deref());
        let shown = name.unwrap_or("(anon)");
        let mut ty = match declarator {
            Some(declarator) => self.apply_parts(base, &declarator.parts)?,
            None => base,
        };
        if shown.contains('`') {
            let message = format!("D scoping operator may not be used in a member name ({shown})");
            return self.error(ErrTag::DeclScope, message);
        }
        if ty == self.types().special().dynamic {
            let message = format!("cannot have dynamic member: {shown}");
            return self.error(ErrTag::DeclDynobj, message);
        }
        let (kind, size) = (self.types().kind(ty), self.types().size(ty));
        let empty = matches!(kind, CtfKind::Struct | CtfKind::Union) && size == 0;
        if kind == CtfKind::Forward || empty || self.is_open(ty) {
            let type_name = self.types().name(ty);
            let message = format!("incomplete struct/union/enum {type_name}: {shown}");
            return self.error(ErrTag::DeclIncomplete, message);
        }
        if size == 0 {
            let message = format!("cannot have void member: {shown}");
            return self.error(ErrTag::DeclVoidobj, message);
        }
        if let Some(bits) = bits {
            let value = self.constant_expr(bits)?;
            if name.is_none() && value.int() == Some(0) {
                return Ok((None, None));
            }
            let Some(bits) = value.positive() else {
                let message = "positive integral constant expression expected as bit-field size";
                return self.error(ErrTag::DeclBfconst, message);
            };
            let resolved = self.types().resolve(ty);
            let Type::Int { bits: whole, signed, char, .. } = *self.types().get(resolved) else {
                let message = format!("invalid type for bit-field: {shown}");
                return self.error(ErrTag::DeclBftype, message);
            };
            if bits > whole.into() {
                let message = format!("bit-field too big for type: {shown}");
                return self.error(ErrTag::DeclBfsize, message);
            }
            let type_name = self.types().c_name(ty);
            let bits = bits as u32;
            ty = self.state.types.add(Type::Int { name: type_name, bits, signed, char });
        }
        Ok((Some(ty), name))
    }

    /// Defines an enum, with an inline for each enumerator.
    pub fn define_enum(&mut self, tag: Option<&str>, enumerators: &[Enumerator]) -> Result<TypeId> {
        let name = format!("enum {}", tag.unwrap_or("(anon)"));
        let empty = Type::Enum { tag: tag.map(String::from), values: Vec::new() };
        let known = tag.and_then(|_| self.types().declared(&name));
        let id = match known {
            Some(id) if matches!(self.types().get(id), Type::Forward(..)) => {
                *self.state.types.get_mut(id) = empty;
                id
            }
            Some(_) => return self.error(ErrTag::DeclTypered, format!("type redeclared: {name}")),
            None => {
                let id = self.state.types.add(empty);
                if tag.is_some() {
                    self.state.types.set_name(&name, id);
                }
                id
            }
        };
        let mut next = 0i32;
        let mut defined = HashMap::new();
        for enumerator in enumerators {
            self.place = enumerator.place;
            let name = &*enumerator.name;
            let value = match &enumerator.value {
                Some(value) => self.enumerator_value(&defined, name, value)?,
                None => next,
            };
            if defined.insert(name, value).is_some() {
                let message = format!(
                    "failed to define enumerator '{name}': Duplicate member name definition"
                );
                return self.error(ErrTag::Unknown, message);
            }
            self.define_enumerator(id, name, value)?;
            next = value.wrapping_add(1);
        }
        Ok(id)
    }

    /// Returns the value of the expression of an enumerator, which may name an earlier enumerator of the same enum.
    fn enumerator_value(
        &mut self,
        defined: &HashMap<&str, i32>,
        name: &str,
        value: &Expr,
    ) -> Result<i32> {
        if let ExprKind::Ident(other) = &value.kind
            && let Some(value) = defined.get(&**other)
        {
            return Ok(*value);
        }
        let node = self.constant_expr(value)?;
        let Some(value) = node.int() else {
            let message =
                format!("enumerator '{name}' must be assigned to an integral constant expression");
            return self.error(ErrTag::DeclEnconst, message);
        };
        match i32::try_from(value as i64) {
            Ok(value) => Ok(value),
            Err(_) => {
                let message = format!("enumerator '{name}' value overflows INT_MAX ({})", i32::MAX);
                self.error(ErrTag::DeclEnoflow, message)
            }
        }
    }

    fn define_enumerator(&mut self, id: TypeId, name: &str, value: i32) -> Result<()> {
        let Type::Enum { values, .. } = self.state.types.get_mut(id) else { return Ok(()) };
        values.push((name.into(), value));
        if self.global(name).is_some() {
            return self.error(ErrTag::DeclIdred, format!("identifier redeclared: {name}"));
        }
        let mut root = Node::new(self.place, Kind::Int(i64::from(value) as u64));
        self.assign_type(&mut root, id, false);
        let mut ident = Ident::new(name, IdKind::Enum, Cooking::Inline, self.state.generation);
        ident.flags.inline = true;
        ident.flags.referred = true;
        ident.ty = Some(id);
        ident.inline = Some(Inline { root: Some(Box::new(root)), ..Inline::default() });
        self.insert(Scope::Global, ident);
        Ok(())
    }

    /// Cooks an expression that must be a constant.
    pub fn constant_expr(&mut self, expr: &Expr) -> Result<Node> {
        let node = self.build(expr)?;
        self.cook(node, Use::READ)
    }
}
