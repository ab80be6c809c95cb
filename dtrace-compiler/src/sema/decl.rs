//! Declarations: of variables and of names for types (dt_decl.c; `dt_node_decl`, dt_parser.c).

use dtrace_abi::ErrTag;
use dtrace_abi::dif::CtfKind;

use super::ident::Signature;
use super::prototype::Allowed;
use super::{IdKind, IdentId, Scope, Session};
use crate::error::Result;
use crate::syntax::{Class, Declarator, Dim, Param, Part, Spec, Specs};
use crate::types::{DEEPEST, TypeId};

impl Session<'_> {
    /// Returns the type that results from a declarator and a base type.
    pub fn apply_parts(&mut self, base: TypeId, parts: &[Part]) -> Result<TypeId> {
        let mut ty = base;
        for (index, part) in parts.iter().enumerate().rev() {
            let special = self.types().special();
            ty = match part {
                Part::Pointer(_) => self.state.types.pointer(ty),
                Part::Function(params) => {
                    self.parameters(params, "function", Allowed::FUNCTION)?;
                    special.function
                }
                Part::Array(Dim::Keys(keys)) => {
                    if index > 0 && matches!(parts[index - 1], Part::Array(_)) {
                        let message = "cannot declare array of associative arrays";
                        return self.error(ErrTag::DeclDynobj, message);
                    }
                    self.parameters(keys, "array", Allowed::KEYS)?;
                    special.dynamic
                }
                Part::Array(_) if self.types().is_void(ty) => {
                    return self.error(ErrTag::DeclVoidobj, "cannot declare array of void");
                }
                Part::Array(Dim::Open) => self.state.types.array(ty, 0),
                Part::Array(Dim::Size(size)) => {
                    let size = self.constant_expr(size)?;
                    let Some(count) = size.positive() else {
                        let message = "positive integral constant expression or tuple signature expected as array declaration subscript";
                        return self.error(ErrTag::DeclArrsub, message);
                    };
                    let array = u32::try_from(count).map(|count| self.state.types.array(ty, count));
                    match array {
                        Ok(array) if !self.types().is_too_large(array) => array,
                        _ => return self.error(ErrTag::DeclArrbig, "array dimension too big"),
                    }
                }
            };
            self.check_depth(ty)?;
        }
        Ok(ty)
    }

    /// Checks that a type does not have too many levels.
    pub fn check_depth(&self, ty: TypeId) -> Result<()> {
        if self.types().is_too_deep(ty) {
            let message = format!("type has more than {DEEPEST} levels");
            return self.error(ErrTag::Syntax, message);
        }
        Ok(())
    }

    /// Compiles a declaration.
    pub fn declare(&mut self, specs: &Specs, declarators: &[Declarator]) -> Result<()> {
        if specs.classes.len() > 1 {
            let message = "only one storage class allowed in a declaration";
            return self.error(ErrTag::DeclClass, message);
        }
        let (base, _) = self.base_type(specs)?;
        if declarators.is_empty() {
            let defines = |spec: &Spec| matches!(spec, Spec::Record { .. } | Spec::Enum(_));
            if !specs.specs.iter().any(defines) {
                return self.error(ErrTag::DeclUseless, "useless declaration");
            }
        }
        for declarator in declarators {
            self.place = declarator.place;
            self.declare_one(specs.classes.first().copied(), base, declarator)?;
        }
        Ok(())
    }

    fn declare_one(
        &mut self,
        class: Option<Class>,
        base: TypeId,
        declarator: &Declarator,
    ) -> Result<()> {
        let Some(name) = &declarator.name else { return Ok(()) };
        let ty = self.apply_parts(base, &declarator.parts)?;
        if name.contains('`') {
            let message =
                format!("D scoping operator may not be used in a declaration name ({name})");
            return self.error(ErrTag::DeclScope, message);
        }
        let function = self.types().kind(ty) == CtfKind::Function;
        match class {
            Some(Class::Static) | None if function => Ok(()),
            Some(Class::Extern) => Ok(()),
            Some(Class::Auto | Class::Register | Class::Static) => {
                let message = "specified storage class not appropriate in D";
                self.error(ErrTag::DeclBadclass, message)
            }
            Some(Class::Typedef) => {
                if self.global(name).is_some() {
                    let message = format!("global variable identifier redeclared: {name}");
                    return self.error(ErrTag::DeclIdred, message);
                }
                if self.types().declared(name).is_some() {
                    return self.error(ErrTag::DeclIdred, format!("typedef redeclared: {name}"));
                }
                self.state.types.typedef(name, ty);
                Ok(())
            }
            Some(Class::This) => self.declare_variable(Scope::Local, name, ty, base, declarator),
            Some(Class::SelfVar) => {
                self.declare_variable(Scope::Thread, name, ty, base, declarator)
            }
            None => self.declare_variable(Scope::Global, name, ty, base, declarator),
        }
    }

    fn declare_variable(
        &mut self,
        scope: Scope,
        name: &str,
        ty: TypeId,
        base: TypeId,
        declarator: &Declarator,
    ) -> Result<()> {
        let keys = match declarator.parts.first() {
            Some(Part::Array(Dim::Open)) => {
                let message = format!(
                    "array declaration requires array dimension or tuple signature: {name}"
                );
                return self.error(ErrTag::DeclArrnull, message);
            }
            Some(Part::Array(Dim::Keys(keys))) => Some(&keys[..]),
            _ => None,
        };
        let existing = self.lookup(scope, name);
        if existing.is_some_and(|id| self.ident(id).generation == 0) {
            let message = format!("built-in identifier redeclared: {name}");
            return self.error(ErrTag::DeclIdred, message);
        }
        if self.types().declared(name).is_some() {
            let message = format!("typedef identifier redeclared: {name}");
            return self.error(ErrTag::DeclIdred, message);
        }
        let mut ty = ty;
        if keys.is_some() {
            if scope == Scope::Local {
                let message =
                    format!("associative arrays may not be declared as local variables: {name}");
                return self.error(ErrTag::DeclLocassc, message);
            }
            ty = self.apply_parts(base, &declarator.parts[1..])?;
        }
        let kind = if keys.is_some() { IdKind::Array } else { IdKind::Scalar };
        let params = match keys {
            Some(keys) => self.key_params(keys)?,
            None => Vec::new(),
        };
        match existing {
            Some(id) => self.compare(id, kind, ty, &params),
            None => self.create_declared(scope, name, kind, ty, keys.map(|_| params)),
        }
    }

    fn key_params(&mut self, keys: &[Param]) -> Result<Vec<TypeId>> {
        keys.iter().map(|key| Ok(self.param_type(key, "array")?.0)).collect()
    }

    /// Checks that a repeated declaration of a variable has the same kind, type and keys as the first one.
    fn compare(&mut self, id: IdentId, kind: IdKind, ty: TypeId, keys: &[TypeId]) -> Result<()> {
        let ident = self.ident(id);
        let name = &ident.name;
        let previous = ident.ty.unwrap_or(self.types().special().void);
        if ident.kind != kind || previous != ty {
            let message = format!(
                "identifier redeclared: {name}\n\t current: {} {}\n\tprevious: {} {}",
                kind.name(),
                self.types().name(ty),
                ident.kind.name(),
                self.types().name(previous)
            );
            return self.error(ErrTag::DeclIdred, message);
        }
        let Some(signature) = ident.signature.as_ref().filter(|_| kind == IdKind::Array) else {
            return Ok(());
        };
        for (index, key) in keys.iter().enumerate() {
            let Some(Some(param)) = signature.params.get(index) else { continue };
            if param.ty != *key {
                let number = index + 1;
                let message = format!(
                    "identifier redeclared: {name}\n\t current: {}, key #{number} of type {}\n\tprevious: {}, key #{number} of type {}",
                    kind.name(),
                    self.types().name(*key),
                    ident.kind.name(),
                    self.types().name(param.ty)
                );
                return self.error(ErrTag::DeclIdred, message);
            }
        }
        if signature.params.len() != keys.len() {
            let message = format!(
                "identifier redeclared: {name}\n\t current: {} of {}, tuple length {}\n\tprevious: {} of {}, tuple length {}",
                kind.name(),
                self.types().name(ty),
                keys.len(),
                ident.kind.name(),
                self.types().name(previous),
                signature.params.len()
            );
            return self.error(ErrTag::DeclIdred, message);
        }
        Ok(())
    }

    fn create_declared(
        &mut self,
        scope: Scope,
        name: &str,
        kind: IdKind,
        ty: TypeId,
        keys: Option<Vec<TypeId>>,
    ) -> Result<()> {
        let type_kind = self.types().kind(ty);
        if self.types().is_void(ty) {
            let message = format!("cannot have void object: {name}");
            return self.error(ErrTag::DeclVoidobj, message);
        }
        let empty =
            matches!(type_kind, CtfKind::Struct | CtfKind::Union) && self.types().size(ty) == 0;
        if empty || type_kind == CtfKind::Forward {
            let type_name = self.types().name(ty);
            let message = format!("incomplete struct/union/enum {type_name}: {name}");
            return self.error(ErrTag::DeclIncomplete, message);
        }
        let id = self.create(name, scope, kind)?;
        let signature = keys.map(|keys| Signature {
            params: keys.into_iter().map(|key| Some(self.param(key))).collect(),
            ..Signature::default()
        });
        let ident = self.ident_mut(id);
        ident.flags.declared = true;
        ident.ty = Some(ty);
        ident.signature = signature;
        Ok(())
    }
}
