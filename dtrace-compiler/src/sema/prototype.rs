//! Parameters and keys in declarations (`dt_decl_prototype`, dt_decl.c).

use dtrace_abi::ErrTag;

use super::Session;
use crate::error::Result;
use crate::syntax::{Class, Param};
use crate::types::TypeId;

/// The exceptions that a declaration of parameters allows.
#[derive(Clone, Copy)]
pub(crate) struct Allowed {
    /// `...` is allowed.
    pub variable: bool,
    /// `(void)` is allowed.
    pub void: bool,
    /// A parameter without a name is allowed.
    pub anonymous: bool,
    /// A duplicate name is allowed.
    pub repeated: bool,
}

impl Allowed {
    pub const KEYS: Self = Self { variable: false, void: false, anonymous: true, repeated: false };
    pub const FUNCTION: Self =
        Self { variable: true, void: true, anonymous: true, repeated: false };
    pub const INPUT: Self = Self { variable: false, void: true, anonymous: true, repeated: false };
    pub const OUTPUT: Self = Self { variable: false, void: true, anonymous: false, repeated: true };
}

/// A parameter's type and name; no type is `...`.
pub(crate) type Parameter = (Option<TypeId>, Option<String>);

impl Session<'_> {
    /// Checks parameters against the rules, and returns their types and names. `(void)` means no parameters.
    pub fn parameters(
        &mut self,
        params: &[Param],
        what: &str,
        allowed: Allowed,
    ) -> Result<Vec<Parameter>> {
        let mut all: Vec<Parameter> = Vec::new();
        let mut voids = false;
        for (index, param) in params.iter().enumerate() {
            let Param::Type(specs, declarator) = param else {
                if !allowed.variable {
                    let message =
                        format!("{what} prototype may not use a variable-length argument list");
                    return self.error(ErrTag::DeclProtoVarargs, message);
                }
                all.push((None, None));
                continue;
            };
            if specs.classes.iter().any(|class| *class != Class::Register) {
                let message =
                    "inappropriate storage class for function or associative array parameter";
                return self.error(ErrTag::DeclParmclass, message);
            }
            let (base, _) = self.base_type(specs)?;
            let ty = self.apply_parts(base, &declarator.parts)?;
            let name = declarator.name.clone();
            let number = index + 1;
            let void = self.types().is_void(ty);
            if ty == self.types().special().dynamic || void && !allowed.void {
                let message = format!(
                    "{what} prototype may not use parameter of type {}: {}, parameter #{number}",
                    self.types().name(ty),
                    name.as_deref().unwrap_or("(anonymous)")
                );
                return self.error(ErrTag::DeclProtoType, message);
            }
            if void {
                voids = true;
                if let Some(name) = name {
                    let message = format!("void parameter may not have a name: {name}");
                    return self.error(ErrTag::DeclProtoName, message);
                }
            }
            if let Some(name) = &name {
                if !allowed.repeated && all.iter().any(|(_, other)| other.as_ref() == Some(name)) {
                    let message = format!(
                        "parameter is already declared in {what} prototype: {name}, parameter #{number}"
                    );
                    return self.error(ErrTag::DeclProtoForm, message);
                }
            } else if !void && !allowed.anonymous {
                let message = format!("parameter declaration requires a name: parameter #{number}");
                return self.error(ErrTag::DeclProtoName, message);
            }
            all.push((Some(ty), name));
        }
        if voids {
            if params.len() > 1 {
                return self.error(ErrTag::DeclProtoVoid, "void must be sole parameter");
            }
            all.clear();
        }
        Ok(all)
    }

    /// Returns the type and the name of a parameter with a value.
    pub fn param_type(&mut self, param: &Param, what: &str) -> Result<(TypeId, Option<String>)> {
        let all = self.parameters(std::slice::from_ref(param), what, Allowed::KEYS)?;
        match all.into_iter().next() {
            Some((Some(ty), name)) => Ok((ty, name)),
            _ => Ok((self.types().special().void, None)),
        }
    }
}
