//! Cooks the operators `.` and `->`.

use dtrace_abi::ErrTag;
use dtrace_abi::dif::CtfKind;

use super::cook::Use;
use super::{IdKind, Kind, Node, Scope, Session};
use crate::error::Result;
use crate::suggest::closest;
use crate::types::{Type, TypeId};

/// The greatest number of members that an error lists.
const LISTED: usize = 16;

impl Session<'_> {
    /// Cooks `->`: `self->x` and `this->x` are variables; anything else is a member.
    pub fn cook_arrow(&mut self, node: Node, how: Use) -> Result<Node> {
        if let Some(argument) = self.cook_named(&node)? {
            return Ok(argument);
        }
        let scope = match &node.kind {
            Kind::Arrow(base, _) => match &base.kind {
                Kind::Ident(name) if name == "self" => Some(Scope::Thread),
                Kind::Ident(name) if name == "this" => Some(Scope::Local),
                _ => None,
            },
            _ => None,
        };
        let (Some(scope), Kind::Arrow(_, name)) = (scope, &node.kind) else {
            return self.cook_member(node);
        };
        let variable = Node::new(node.place, Kind::Ident(name.clone()));
        let variable = match self.lookup(scope, name) {
            // A type other than a scalar is not an error here, because brackets may follow.
            Some(id) => {
                let kind = self.ident(id).kind;
                self.find_name(variable, scope, kind, false)?
            }
            None => self.find_name(variable, scope, IdKind::Scalar, true)?,
        };
        if how == Use::NONE { Ok(variable) } else { self.cook(variable, how) }
    }

    /// Cooks `.`: `args.x` is an argument of the probe; anything else is a member.
    pub fn cook_dot(&mut self, node: Node) -> Result<Node> {
        match self.cook_named(&node)? {
            Some(argument) => Ok(argument),
            None => self.cook_member(node),
        }
    }

    fn cook_member(&mut self, mut node: Node) -> Result<Node> {
        let kind = std::mem::replace(&mut node.kind, Kind::Int(0));
        let (base, name, arrow) = match kind {
            Kind::Dot(base, name) => (base, name, false),
            Kind::Arrow(base, name) => (base, name, true),
            kind => {
                node.kind = kind;
                return Ok(node);
            }
        };
        let text = if arrow { "->" } else { "." };
        let base = Self::without_text(self.cook_boxed(*base, Use::READ)?);
        let translator = self.translator(&base);
        let (mut ty, user) = match translator {
            Some((xlator, pointer)) => {
                let xlator = &self.state.xlators[xlator.0];
                if xlator.member(&name).is_none() {
                    let message =
                        format!("translator does not define conversion for member: {name}");
                    return self.error(ErrTag::XlateNoconv, message);
                }
                (if pointer { xlator.output_pointer } else { xlator.output }, false)
            }
            None => (self.ty(&base), base.flags.user),
        };
        ty = self.types().resolve(ty);
        if arrow {
            let target = match self.types().get(ty) {
                Type::Pointer(target) => *target,
                _ => {
                    let message = "operator -> must be applied to a pointer";
                    return self.error(ErrTag::OpPtr, message);
                }
            };
            ty = self.types().resolve(target);
        }
        ty = self.defined(ty, text)?;
        if !matches!(self.types().kind(ty), CtfKind::Struct | CtfKind::Union) {
            let name = self.types().c_name(ty);
            let message = if arrow {
                format!(
                    "operator -> cannot be applied to pointer to type \"{name}\"; must be applied to a struct or union pointer"
                )
            } else {
                format!(
                    "operator . cannot be applied to type \"{name}\"; must be applied to a struct or union"
                )
            };
            let is_pointer = !arrow && self.types().kind(ty) == CtfKind::Pointer;
            let arrow = "-> has the members of a struct behind a pointer".to_owned();
            return self.error_with_hint(ErrTag::OpSou, message, is_pointer.then_some(arrow));
        }
        let Some(member) = self.types().member(ty, &name) else {
            let names = self.types().member_names(ty);
            let record = self.types().c_name(ty);
            let message = match self.types().missing(ty, &name) {
                Some(why) => format!("{name} of {record} has no value: {why}"),
                None if self.types().is_of_debug(ty) && (1..=LISTED).contains(&names.len()) => {
                    format!("{record} has no member {name}, only {}", names.join(", "))
                }
                None => format!("{name} is not a member of {record}"),
            };
            let similar = closest(&name, names.into_iter());
            return self.unknown_name(ErrTag::TypeMember, message, similar);
        };
        self.describe(member.ty);
        self.assign_type(&mut node, member.ty, false);
        let kind = self.types().kind(member.ty);
        let whole = kind != CtfKind::Array || self.is_string(&node);
        if whole && (arrow || base.flags.lvalue) {
            node.flags.lvalue = true;
        }
        node.flags.writable |= base.flags.writable;
        if user && (kind == CtfKind::Pointer || node.flags.by_ref) {
            node.flags.user = true;
        }
        let attr = base.attr;
        node.kind = if arrow { Kind::Arrow(base, name) } else { Kind::Dot(base, name) };
        self.assign_attr(&mut node, attr)?;
        Ok(node)
    }

    /// Returns the definition of a struct that was only mentioned.
    fn defined(&mut self, mut ty: TypeId, text: &str) -> Result<TypeId> {
        while let Type::Forward(..) = self.types().get(ty) {
            let tag = self.types().c_name(ty);
            match self.type_named(&tag).map(|found| self.types().resolve(found)) {
                Some(found) if found != ty => ty = found,
                _ if self.types().is_of_debug(ty) => {
                    let message = format!(
                        "the members of {tag} are unknown: its debug information is damaged, or too large"
                    );
                    return self.error(ErrTag::OpIncomplete, message);
                }
                _ => {
                    let message = format!(
                        "operator {text} cannot be applied to a forward declaration: no {tag} definition is available"
                    );
                    return self.error(ErrTag::OpIncomplete, message);
                }
            }
        }
        Ok(ty)
    }
}
