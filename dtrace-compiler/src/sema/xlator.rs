//! Translators: expressions for the members of one struct from another one (dt_xlator.c).

use std::collections::HashMap;

use dtrace_abi::ErrTag;
use dtrace_abi::dif::CtfKind;
use dtrace_abi::stability::Attribute;

use super::cook::Use;
use super::ident::Cooking;
use super::state::Xlator;
use super::{IdKind, Ident, IdentId, Kind, Node, Session, XlatorId};
use crate::error::Result;
use crate::syntax::{Item, ItemKind};
use crate::types::TypeId;

impl Session<'_> {
    /// Returns the translator from a value to a type, and whether the value is a pointer: preferably one from exactly
    /// this type, then from the type behind typedefs, then one whose input is compatible.
    pub fn find_xlator(&mut self, from: &Node, to: TypeId) -> Option<(XlatorId, bool)> {
        let pointer = self.types().kind(to) == CtfKind::Pointer;
        let output = if pointer { self.types().target(to)? } else { to };
        if !matches!(self.types().kind(output), CtfKind::Struct | CtfKind::Union) {
            return None;
        }
        let exact = self.find_exact(self.ty(from), output);
        let found = exact.or_else(|| {
            self.state.xlators.iter().position(|xlator| {
                !xlator.gone
                    && self.types().compatible(xlator.output, output)
                    && self.is_assignable(from, &self.type_node(xlator.input))
            })
        });
        found.map(|at| (XlatorId(at), pointer))
    }

    fn find_exact(&self, input: TypeId, output: TypeId) -> Option<usize> {
        self.state.xlators.iter().position(|xlator| {
            !xlator.gone
                && self.types().compatible(xlator.input, input)
                && self.types().compatible(xlator.output, output)
        })
    }

    pub fn cook_xlate(&mut self, mut node: Node) -> Result<Node> {
        let Kind::Xlate(to, value, _) = node.kind else { return Ok(node) };
        let value = self.cook_boxed(*value, Use::READ)?;
        let Some((xlator, pointer)) = self.find_xlator(&value, to.ty) else {
            let message = format!(
                "cannot translate from \"{}\" to \"{}\"",
                self.type_name(&value),
                self.types().name(to.ty)
            );
            return self.error(ErrTag::XlateNone, message);
        };
        let attr = value.attr.min(self.state.xlators[xlator.0].attr);
        node.kind = Kind::Xlate(to, value, Some((xlator, pointer)));
        self.assign_type(&mut node, self.types().special().dynamic, false);
        self.assign_attr(&mut node, attr)?;
        Ok(node)
    }

    /// Declares a translator.
    pub fn declare_xlator(&mut self, item: &Item) -> Result<()> {
        let ItemKind::Translator { output, input, param, members } = &item.kind else {
            return Ok(());
        };
        let output = self.type_ref(output)?.ty;
        let input = self.type_ref(input)?.ty;
        let mut built = Vec::new();
        let scope = self.xlator_scope(param, input);
        let param = scope.values().copied().next();
        for member in members {
            built.push((member, self.build(&member.value)?));
        }
        self.place = item.place;
        if self.find_exact(input, output).is_some() {
            let message = format!(
                "translator from {} to {} has already been declared",
                self.types().name(input),
                self.types().name(output)
            );
            return self.error(ErrTag::XlateRedecl, message);
        }
        match self.types().kind(output) {
            CtfKind::Struct | CtfKind::Union => {}
            CtfKind::Forward => {
                let name = self.types().name(output);
                let message = format!("incomplete struct/union/enum {name}");
                return self.error(ErrTag::XlateSou, message);
            }
            _ => {
                let message = "translator output type must be a struct or union";
                return self.error(ErrTag::XlateSou, message);
            }
        }
        let Some(param) = param else { return Ok(()) };
        let output_pointer = self.state.types.pointer(output);
        let mut attr = Attribute::MAX;
        let mut cooked = Vec::new();
        self.scopes.push(scope);
        for (member, value) in built {
            let Some(info) = self.types().member(output, &member.name) else {
                let message = format!(
                    "translator member {} is not a member of {}",
                    member.name,
                    self.types().c_name(output)
                );
                return self.error(ErrTag::XlateMemb, message);
            };
            let value = self.cook(value, Use::READ)?;
            let mut target = self.type_node(info.ty);
            target.place = member.place;
            attr = attr.min(value.attr);
            if !self.is_assignable(&target, &value) {
                let message = format!(
                    "translator member {} definition uses incompatible types: \"{}\" = \"{}\"",
                    member.name,
                    self.type_name(&target),
                    self.type_name(&value)
                );
                return self.error(ErrTag::XlateIncompat, message);
            }
            cooked.push((member.name.clone(), target, value));
        }
        self.scopes.pop();
        let mut since = None;
        if let Some(pragma) = self.pragmas.remove("translator") {
            attr = pragma.attr.unwrap_or(attr);
            since = pragma.since;
        }
        self.state.xlators.push(Xlator {
            input,
            output,
            output_pointer,
            param,
            members: cooked,
            attr,
            since,
            gone: false,
        });
        Ok(())
    }

    fn xlator_scope(&mut self, name: &str, ty: TypeId) -> HashMap<String, IdentId> {
        let mut ident = Ident::new(name, IdKind::Scalar, Cooking::Known, self.state.generation);
        ident.ty = Some(ty);
        ident.flags.referred = true;
        let id = self.state.add(ident);
        HashMap::from([(name.to_string(), id)])
    }
}
