//! Resolves names (`dt_xcook_ident`, dt_parser.c).

use dtrace_abi::ErrTag;
use dtrace_abi::stability::Attribute;

use super::ident::Cooking;
use super::{IdKind, Ident, IdentId, Kind, Node, Scope, Session};
use crate::error::Result;
use crate::types::TypeId;

impl Session<'_> {
    /// Resolves a name of a kind. If it does not exist and `create` is set, creates a variable.
    pub fn find_name(
        &mut self,
        node: Node,
        scope: Scope,
        kind: IdKind,
        create: bool,
    ) -> Result<Node> {
        let name = match &node.kind {
            Kind::Ident(name) | Kind::AggIdent(name) => name.clone(),
            _ => return Ok(node),
        };
        if scope != Scope::Agg && name.contains('`') {
            return self.find_symbol(node, scope, &name);
        }
        let mut found = self
            .lookup(scope, &name)
            .or_else(|| self.lookup_in_modules(scope, &name).filter(|_| !create));
        if found.is_none() && scope == Scope::Global && self.declare_conventional(None, &name) {
            found = self.lookup(scope, &name);
        }
        let id = match found {
            Some(id) => {
                let found = self.ident(id);
                if found.kind != kind && scope == Scope::Global {
                    let message = format!(
                        "{} '{}' may not be referenced as {}",
                        found.kind.name(),
                        found.name,
                        kind.name()
                    );
                    return self.error(ErrTag::IdentBadref, message);
                }
                id
            }
            None if create => self.create(&name, scope, kind)?,
            None => {
                let at = if scope == Scope::Agg { "@" } else { "" };
                let message = format!("failed to resolve {at}{name}: Unknown variable name");
                return self.unknown_name(
                    ErrTag::IdentUndef,
                    message,
                    self.similar_name(scope, &name),
                );
            }
        };
        self.name_node(node, id)
    }

    /// Returns the node of a resolved name.
    fn name_node(&mut self, mut node: Node, id: IdentId) -> Result<Node> {
        let ident = self.ident(id);
        let (kind, writable, attr) = (ident.kind, ident.flags.writable, ident.attr);
        node.kind = match kind {
            IdKind::Agg => Kind::Agg { ident: id, keys: Vec::new(), func: None },
            _ => Kind::Var(id, Vec::new()),
        };
        let attr = if matches!(kind, IdKind::Array | IdKind::Agg) {
            self.assign_type(&mut node, self.types().special().dynamic, false);
            attr
        } else {
            node = self.cook_ident(node, id)?;
            node.attr
        };
        node.flags.lvalue = true;
        node.flags.writable |= writable;
        self.assign_attr(&mut node, attr)?;
        Ok(node)
    }

    /// Creates a variable or an aggregation that is not declared.
    pub fn create(&mut self, name: &str, scope: Scope, kind: IdKind) -> Result<IdentId> {
        let Some(number) = self.table_mut(scope).next_number() else {
            let what = self.table(scope).what;
            return self.error(
                ErrTag::IdOflow,
                format!("cannot create {name}: limit on number of {what} variables exceeded"),
            );
        };
        let cooking = match kind {
            IdKind::Array | IdKind::Agg => Cooking::Keys,
            _ => Cooking::Known,
        };
        let mut ident = Ident::new(name, kind, cooking, self.state.generation);
        ident.id = number;
        ident.line = self.place.line;
        ident.flags.writable = true;
        ident.flags.local = scope == Scope::Local;
        ident.flags.thread = scope == Scope::Thread;
        Ok(self.insert(scope, ident))
    }

    /// Adds a name, and applies earlier pragmas for it.
    pub fn insert(&mut self, scope: Scope, mut ident: Ident) -> IdentId {
        let name = ident.name.clone();
        if scope == Scope::Global {
            self.apply_pragma(&mut ident);
        }
        let id = self.state.add(ident);
        match self.types().declaring().filter(|_| scope == Scope::Global) {
            Some(room) => self.state.modules[room].names.insert(name, id),
            None => self.table_mut(scope).names.insert(name, id),
        };
        id
    }

    /// Returns the type for a symbol of unknown type by its size in bytes.
    fn plain_type(&mut self, size: u64) -> Option<TypeId> {
        let types = &mut self.state.types;
        match size {
            0 => None,
            1 | 2 | 4 | 8 => types.lookup(&format!("uint{}_t", size * 8)),
            _ => {
                let byte = types.lookup("uint8_t")?;
                Some(types.array(byte, u32::try_from(size).ok()?))
            }
        }
    }

    /// Resolves a symbol of a module.
    fn find_symbol(&mut self, mut node: Node, scope: Scope, name: &str) -> Result<Node> {
        let mark = name.rfind('`').unwrap_or(0);
        let user = mark > 0 && name[..mark].ends_with('`');
        let module = if user { &name[..mark - 1] } else { &name[..mark] };
        let symbol_name = &name[mark + 1..];
        let types = &mut self.state.types;
        let found = (scope == Scope::Global && !user)
            .then(|| {
                let module = (!module.is_empty()).then_some(module);
                self.surroundings.symbol(module, symbol_name, types)
            })
            .flatten();
        let Some(symbol) = found else {
            let marks = if user { "``" } else { "`" };
            let is_unknown = !module.is_empty() && !self.surroundings.has("module", module);
            let what = if is_unknown { "module" } else { "symbol" };
            let message =
                format!("failed to resolve {module}{marks}{symbol_name}: Unknown {what} name");
            return self.error(ErrTag::IdentUndef, message);
        };
        let Some(ty) = symbol.ty.or_else(|| self.plain_type(symbol.size)) else {
            let message = format!(
                "no symbolic type information is available for {}`{}: Unknown type name",
                symbol.module, symbol.name
            );
            return self.error(ErrTag::SymNotypes, message);
        };
        let mut ident =
            Ident::new(symbol_name, IdKind::Symbol, Cooking::Known, self.state.generation);
        ident.attr = Attribute::PRIVATE;
        ident.ty = Some(ty);
        ident.line = self.place.line;
        ident.symbol = Some(symbol);
        let id = self.state.add(ident);
        node.kind = Kind::Sym(id);
        node.flags.lvalue = true;
        self.assign_type(&mut node, ty, false);
        self.assign_attr(&mut node, Attribute::PRIVATE)?;
        Ok(node)
    }
}
