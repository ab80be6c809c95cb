//! Inlines: names for expressions (`dt_node_inline`, dt_parser.c).

use std::collections::HashMap;

use dtrace_abi::ErrTag;
use dtrace_abi::dif::CtfKind;

use super::cook::Use;
use super::ident::{Cooking, Inline, Signature};
use super::{IdKind, Ident, IdentId, Kind, Node, Scope, Session};
use crate::error::Result;
use crate::place::Place;
use crate::syntax::{Declarator, Dim, Expr, Param, Part, Specs};

/// The greatest length of a chain of inlines.
const CHAIN: usize = 256;

impl Session<'_> {
    /// Declares an inline, with parameters if its declarator has keys.
    pub fn declare_inline(
        &mut self,
        place: Place,
        specs: &Specs,
        declarator: &Declarator,
        value: &Expr,
    ) -> Result<()> {
        let (base, user) = self.base_type(specs)?;
        if !specs.classes.is_empty() {
            let message = "specified storage class not appropriate for inline declaration";
            return self.error(ErrTag::DeclBadclass, message);
        }
        let Some(name) = &declarator.name else {
            return self.error(ErrTag::DeclUseless, "inline declaration requires a name");
        };
        let keys = match declarator.parts.first() {
            Some(Part::Array(Dim::Keys(keys))) => Some(&keys[..]),
            Some(Part::Array(Dim::Open)) => {
                let message = format!("inline declaration requires array tuple signature: {name}");
                return self.error(ErrTag::DeclArrnull, message);
            }
            Some(Part::Array(Dim::Size(_))) => {
                let message = format!("inline declaration cannot be of scalar array type: {name}");
                return self.error(ErrTag::DeclArrnull, message);
            }
            _ => None,
        };
        let parts = if keys.is_some() { &declarator.parts[1..] } else { &declarator.parts[..] };
        let ty = self.apply_parts(base, parts)?;
        let built = self.build(value)?;
        self.place = place;
        if let Some(previous) = self.global(name) {
            let previous = self.ident(previous);
            let message = format!(
                "identifier redefined: {name}\n\t current: inline definition\n\tprevious: {} {}",
                previous.kind.name(),
                if previous.flags.inline { "inline" } else { "" }
            );
            return self.error(ErrTag::DeclIdred, message);
        }
        let mut node = Node::new(place, Kind::Int(0));
        self.assign_type(&mut node, ty, user);
        if self.types().is_void(ty) {
            let message = format!("cannot declare void inline: {name}");
            return self.error(ErrTag::DeclVoidobj, message);
        }
        if self.kind(&node) == CtfKind::Forward {
            let type_name = self.types().name(ty);
            let message = format!("incomplete struct/union/enum {type_name}: {name}");
            return self.error(ErrTag::DeclIncomplete, message);
        }
        let mut inline = Inline::default();
        let mut signature = Signature::default();
        for param in keys.unwrap_or_default() {
            self.inline_param(param, &mut inline, &mut signature)?;
        }
        self.scopes.push(inline.scope.clone());
        let root = self.cook(built, Use::READ)?;
        self.scopes.pop();
        self.check_inline(name, &node, &root)?;
        if self.is_long_chain(&root) {
            let message = format!("inline {name} expands to a chain of more than {CHAIN} inlines");
            return self.error(ErrTag::Syntax, message);
        }

        let kind = if keys.is_some() { IdKind::Array } else { IdKind::Scalar };
        let mut ident = Ident::new(name, kind, Cooking::Inline, self.state.generation);
        ident.line = place.line;
        ident.flags.inline = true;
        ident.flags.referred = true;
        ident.flags.declared = true;
        if let Some(target) = root.ident() {
            let target = self.ident(target).flags;
            ident.flags.writable = target.writable;
            ident.flags.user = target.user;
        }
        ident.attr = ident.attr.min(root.attr);
        ident.ty = Some(ty);
        ident.signature = keys.is_some().then_some(signature);
        inline.root = Some(Box::new(root));
        ident.inline = Some(inline);
        self.insert(Scope::Global, ident);
        Ok(())
    }

    /// Returns whether a chain of inlines is too long for functions that follow it recursively.
    fn is_long_chain(&self, root: &Node) -> bool {
        let next = |node: &&Node| {
            let ident = self.ident(node.ident()?);
            ident.inline.as_ref()?.root.as_deref()
        };
        std::iter::successors(Some(root), next).nth(CHAIN).is_some()
    }

    fn inline_param(
        &mut self,
        param: &Param,
        inline: &mut Inline,
        signature: &mut Signature,
    ) -> Result<()> {
        let (ty, name) = self.param_type(param, "array")?;
        signature.params.push(Some(self.param(ty)));
        let id = name.map(|name| {
            let mut ident =
                Ident::new(&name, IdKind::Scalar, Cooking::Inline, self.state.generation);
            ident.flags.inline = true;
            ident.flags.declared = true;
            ident.ty = Some(ty);
            ident.inline = Some(Inline::default());
            let id: IdentId = self.state.add(ident);
            let scope: &mut HashMap<String, IdentId> = &mut inline.scope;
            scope.insert(name, id);
            id
        });
        inline.params.push(id);
        Ok(())
    }

    /// Checks that the value has the inline's type, or is translated to it.
    fn check_inline(&mut self, name: &str, node: &Node, root: &Node) -> Result<()> {
        let (fits, left, right) = match self.translator(root) {
            Some((xlator, _)) => {
                let output = self.state.xlators[xlator.0].output;
                let ty = self.ty(node);
                let target = match self.kind(node) {
                    CtfKind::Pointer => self.types().target(ty).unwrap_or(ty),
                    _ => ty,
                };
                let fits = self.types().compatible(target, output);
                (fits, self.types().name(target), self.types().name(output))
            }
            None => {
                // The node of the declared type is a variable, so that it does not count as a null pointer.
                let target = self.type_node(self.ty(node));
                let fits = self.is_assignable(&target, root);
                (fits, self.type_name(&target), self.type_name(root))
            }
        };
        if fits {
            return Ok(());
        }
        let message =
            format!("inline {name} definition uses incompatible types: \"{left}\" = \"{right}\"");
        self.error_at(node.place, ErrTag::OpIncompat, message)
    }
}
