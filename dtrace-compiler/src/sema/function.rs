//! Names with arguments or keys: prototypes and signatures (dt_ident.c).

use dtrace_abi::ErrTag;

use super::cook::Use;
use super::ident::{Cooking, Param, Signature};
use super::{IdKind, IdentId, Kind, Node, Session};
use crate::error::Result;
use crate::types::TypeId;

impl Session<'_> {
    /// Cooks a name with its arguments; the node gets its type and attributes (`dt_ident_cook`).
    pub fn cook_ident(&mut self, mut node: Node, id: IdentId) -> Result<Node> {
        let args = match &mut node.kind {
            Kind::Var(_, args) | Kind::Func(_, args) | Kind::Agg { keys: args, .. } => {
                std::mem::take(args)
            }
            _ => Vec::new(),
        };
        let (args, attr) = self.cook_all(args, Use::READ)?;
        let cooking = self.ident(id).cooking.clone();
        match cooking {
            Cooking::Known => {
                if let Some(ty) = self.ident(id).ty {
                    self.assign_type(&mut node, ty, false);
                }
            }
            Cooking::Named(name) => {
                let ty = self.named_type(id, &name)?;
                self.assign_type(&mut node, ty, false);
            }
            Cooking::Prototype(prototype) => {
                self.read_prototype(id, &prototype)?;
                self.check_signature(id, &args, "", "( )")?;
                let ty = self.ident(id).ty.unwrap_or(self.types().special().void);
                self.assign_type(&mut node, ty, false);
            }
            Cooking::Keys => self.cook_keys(&mut node, id, &args)?,
            Cooking::Args => return self.cook_args(node, id, &args),
            Cooking::Regs => self.cook_regs(&mut node, id, &args)?,
            Cooking::Inline => {
                if self.ident(id).kind == IdKind::Array {
                    self.cook_keys(&mut node, id, &args)?;
                } else if let Some(ty) = self.ident(id).ty {
                    self.assign_type(&mut node, ty, false);
                }
            }
        }
        match &mut node.kind {
            Kind::Var(_, slot) | Kind::Func(_, slot) | Kind::Agg { keys: slot, .. } => *slot = args,
            _ => {}
        }
        let ident = self.ident(id);
        node.flags.user |= ident.flags.user;
        let attr = attr.min(ident.attr);
        self.assign_attr(&mut node, attr)?;
        Ok(node)
    }

    fn named_type(&mut self, id: IdentId, type_name: &str) -> Result<TypeId> {
        if let Some(ty) = self.ident(id).ty {
            return Ok(ty);
        }
        let Some(ty) = self.type_named(type_name) else {
            let name = &self.ident(id).name;
            let message = format!(
                "failed to resolve type {type_name} for identifier {name}: {}",
                unknown_type(type_name)
            );
            return self.error(ErrTag::Unknown, message);
        };
        self.ident_mut(id).ty = Some(ty);
        Ok(ty)
    }

    /// Reads a prototype such as `int(const char *, [int])`, once.
    fn read_prototype(&mut self, id: IdentId, prototype: &str) -> Result<()> {
        if self.ident(id).signature.is_some() {
            return Ok(());
        }
        let (returns, params) = prototype.split_once('(').unwrap_or((prototype, ")"));
        let params = params.strip_suffix(')').unwrap_or(params);
        let Some(returned) = self.type_named(returns) else {
            let name = &self.ident(id).name;
            let message =
                format!("failed to resolve type of {name} ({returns}): {}", unknown_type(returns));
            return self.error(ErrTag::Unknown, message);
        };
        let is_agg = self.ident(id).kind == IdKind::AggFunc;
        let mut signature = Signature::default();
        let params = params.split(',').map(str::trim).filter(|param| !param.is_empty());
        for (index, param) in params.enumerate() {
            let name = match param.strip_prefix('[').and_then(|param| param.strip_suffix(']')) {
                Some(inner) => {
                    signature.optional_from.get_or_insert(index);
                    inner
                }
                None => param,
            };
            if name == "..." {
                signature.variable_from = Some(index);
            }
            signature.params.push(if matches!(name, "@" | "...") {
                None
            } else if let Some(ty) = self.type_named(name) {
                Some(self.param(ty))
            } else {
                let function = &self.ident(id).name;
                let number = index + 1;
                let message = format!(
                    "failed to resolve type of {function} arg#{number} ({name}): {}",
                    unknown_type(name)
                );
                return self.error(ErrTag::Unknown, message);
            });
        }
        let dynamic = self.types().special().dynamic;
        let ident = self.ident_mut(id);
        ident.signature = Some(signature);
        ident.ty = Some(if is_agg { dynamic } else { returned });
        Ok(())
    }

    pub fn param(&self, ty: TypeId) -> Param {
        let mut node = Node::new(self.place, Kind::Int(0));
        self.assign_type(&mut node, ty, false);
        // The node of the expected type must not be a constant, because a zero would count as a null pointer.
        node.kind = Kind::Ident(String::new());
        Param { ty, node: Box::new(node) }
    }

    /// Checks keys: the first use determines the types of all later uses.
    fn cook_keys(&mut self, node: &mut Node, id: IdentId, keys: &[Node]) -> Result<()> {
        if self.ident(id).signature.is_some() {
            let prefix = if self.ident(id).kind == IdKind::Agg { "@" } else { "" };
            self.check_signature(id, keys, prefix, "[ ]")?;
        } else {
            let mut signature = Signature::default();
            for (index, key) in keys.iter().enumerate() {
                if self.is_dynamic(key) || self.is_void(key) {
                    let message = format!(
                        "{} expression may not be used as {} index: key #{}",
                        self.type_name(key),
                        self.ident(id).kind.name(),
                        index + 1
                    );
                    return self.error(ErrTag::KeyType, message);
                }
                let mut param = self.param(self.ty(key));
                self.propagate(key, &mut param.node);
                signature.params.push(Some(param));
            }
            let dynamic = self.types().special().dynamic;
            let ident = self.ident_mut(id);
            ident.signature = Some(signature);
            if !ident.flags.declared {
                ident.ty = Some(dynamic);
            }
        }
        if let Some(ty) = self.ident(id).ty {
            self.assign_type(node, ty, false);
        }
        Ok(())
    }

    /// Checks arguments against a signature (`dt_idcook_sign`).
    fn check_signature(
        &self,
        id: IdentId,
        args: &[Node],
        prefix: &str,
        suffix: &str,
    ) -> Result<()> {
        let ident = self.ident(id);
        let Some(signature) = &ident.signature else { return Ok(()) };
        let (count, expected) = (args.len(), signature.params.len());
        let (wrong, limit) = match (signature.variable_from, signature.optional_from) {
            (Some(from), _) => (count < from, from),
            (None, Some(from)) => (count < from || count > expected, count),
            (None, None) => (count != expected, expected),
        };
        let name = &ident.name;
        let is_key = matches!(ident.kind, IdKind::Array | IdKind::Agg);
        if wrong {
            let message = format!(
                "{prefix}{name}{suffix} prototype mismatch: {count} {}{}passed, {}{} expected",
                if is_key { "key" } else { "arg" },
                if count == 1 { " " } else { "s " },
                if signature.optional_from.is_some() { "at least " } else { "" },
                signature.optional_from.unwrap_or(limit)
            );
            return self.error(ErrTag::ProtoLen, message);
        }
        for (index, arg) in args.iter().take(limit).enumerate() {
            let Some(Some(param)) = signature.params.get(index) else { continue };
            if self.is_assignable(&param.node, arg) {
                continue;
            }
            let word = if is_key { "key" } else { "argument" };
            let message = format!(
                "{prefix}{name}{suffix} {word} #{} is incompatible with prototype:\n\tprototype: {}\n\t{word:>9}: {}",
                index + 1,
                self.type_name(&param.node),
                self.type_name(arg)
            );
            return self.error(ErrTag::ProtoArg, message);
        }
        Ok(())
    }
}

/// Returns the reason why a type does not exist: the module is missing, or the type.
fn unknown_type(name: &str) -> &'static str {
    if name.contains('`') { "Unknown module name" } else { "Unknown type name" }
}
