//! Properties of nodes (libdtrace's `dt_node_is_*`, dt_parser.c).

use dtrace_abi::dif::{CtfKind, DifType, TypeKind};

use super::{IdKind, IdentId, Kind, Node, Session, XlatorId};
use crate::types::TypeId;

impl Session<'_> {
    /// Returns the type of a node; an unknown type counts as void.
    pub fn ty(&self, node: &Node) -> TypeId {
        node.ty.unwrap_or(self.types().special().void)
    }

    pub fn kind(&self, node: &Node) -> CtfKind {
        self.types().kind(self.ty(node))
    }

    fn is_void_type(&self, ty: TypeId) -> bool {
        self.types().is_void(ty)
    }

    pub fn is_integer(&self, node: &Node) -> bool {
        match self.kind(node) {
            CtfKind::Integer => !self.is_void_type(self.ty(node)),
            kind => kind == CtfKind::Enum,
        }
    }

    pub fn is_scalar(&self, node: &Node) -> bool {
        self.is_integer(node) || self.kind(node) == CtfKind::Pointer
    }

    /// Returns whether a node is arithmetic; in D only integers are.
    pub fn is_arith(&self, node: &Node) -> bool {
        self.is_integer(node)
    }

    pub fn is_float(&self, node: &Node) -> bool {
        use crate::types::Type;
        matches!(
            self.types().get(self.types().resolve(self.ty(node))),
            Type::Float { real: true, .. }
        )
    }

    /// Returns whether a node is a pointer to a type without a size: void, or a function.
    pub fn is_void_or_function_pointer(&self, node: &Node) -> bool {
        self.kind(node) == CtfKind::Pointer
            && self.types().target(self.ty(node)).is_some_and(|target| {
                self.types().kind(target) == CtfKind::Function || self.is_void_type(target)
            })
    }

    /// Returns whether a node is a variable of unknown type, or a translated value.
    pub fn is_dynamic(&self, node: &Node) -> bool {
        if let Kind::Var(id, _) = &node.kind
            && let Some(inline) = &self.ident(*id).inline
        {
            return inline.root.as_ref().is_some_and(|root| self.is_dynamic(root));
        }
        node.ty == Some(self.types().special().dynamic)
    }

    pub fn is_string(&self, node: &Node) -> bool {
        node.ty == Some(self.types().special().string)
    }

    pub fn is_stack(&self, node: &Node) -> bool {
        node.ty == Some(self.types().special().stack)
    }

    pub fn is_symaddr(&self, node: &Node) -> bool {
        node.ty == Some(self.types().special().symaddr)
    }

    pub fn is_usymaddr(&self, node: &Node) -> bool {
        node.ty == Some(self.types().special().usymaddr)
    }

    /// Returns whether a node is a pointer to, or an array of, characters.
    pub fn is_string_like(&self, node: &Node) -> bool {
        matches!(self.kind(node), CtfKind::Pointer | CtfKind::Array)
            && self.types().target(self.ty(node)).is_some_and(|target| self.types().is_char(target))
    }

    /// Returns whether a node is a pointer or an array, but not a string.
    pub fn is_pointer(&self, node: &Node) -> bool {
        !self.is_string(node) && matches!(self.kind(node), CtfKind::Pointer | CtfKind::Array)
    }

    pub fn is_void(&self, node: &Node) -> bool {
        !self.is_dynamic(node)
            && !self.is_stack(node)
            && !self.is_symaddr(node)
            && !self.is_usymaddr(node)
            && self.is_void_type(self.ty(node))
    }

    /// Returns the common type of two nodes that can be compared or assigned as pointers: pointers to compatible types, or one
    /// pointer to void, or one constant 0.
    pub fn pointer_type(&self, left: &Node, right: &Node) -> Option<TypeId> {
        if self.is_dynamic(left) || self.is_dynamic(right) {
            return None;
        }
        let null = |node: &Node| self.is_integer(node).then(|| node.int() == Some(0));
        let (left_null, right_null) = (null(left), null(right));
        if left_null.is_some() && right_null.is_some()
            || left_null == Some(false)
            || right_null == Some(false)
            || left_null.is_none() && right_null.is_none() && left.flags.user != right.flags.user
        {
            return None;
        }
        let left_ty = self.ty(if left_null.is_some() { right } else { left });
        let right_ty = self.ty(if right_null.is_some() { left } else { right });
        let types = self.types();
        let (left_target, right_target) = (types.target(left_ty)?, types.target(right_ty)?);
        let (left_void, right_void) = (types.is_void(left_target), types.is_void(right_target));
        (left_void || right_void || types.compatible(left_target, right_target))
            .then(|| types.resolve(if right_void { left_ty } else { right_ty }))
    }

    /// Returns whether a value of the type of `right` can be assigned to the type of `left`.
    pub fn is_assignable(&self, left: &Node, right: &Node) -> bool {
        let both = |is: fn(&Self, &Node) -> bool| is(self, left) && is(self, right);
        if both(Self::is_integer)
            || both(Self::is_string_like)
            || both(Self::is_stack)
            || both(Self::is_symaddr)
            || both(Self::is_usymaddr)
        {
            return true;
        }
        match self.kind(left) {
            CtfKind::Function | CtfKind::Struct | CtfKind::Union => {
                self.types().compatible(self.ty(left), self.ty(right))
            }
            _ => self.pointer_type(left, right).is_some(),
        }
    }

    /// Returns the size of a node's value in bytes.
    pub fn size(&self, node: &Node) -> u64 {
        if let Kind::Str(bytes) = &node.kind {
            return bytes.len() as u64 + 1;
        }
        if self.is_dynamic(node) {
            return match self.translator(node) {
                Some((xlator, pointer)) if !pointer => {
                    self.types().size(self.state.xlators[xlator.0].output)
                }
                Some(_) => 8,
                None => 0,
            };
        }
        self.types().size(self.ty(node))
    }

    /// Returns the type of a node in DIF (`dt_node_diftype`).
    pub fn dif_type(&self, node: &Node) -> DifType {
        let ty = self.ty(node);
        let (kind, ckind) = if self.is_string(node) {
            (TypeKind::String, CtfKind::Unknown)
        } else {
            (TypeKind::Ctf, self.types().kind(ty))
        };
        let flags = match (node.flags.by_ref, node.flags.user) {
            (false, _) => 0,
            (true, false) => DifType::BYREF,
            (true, true) => DifType::BYUREF,
        };
        let size = u32::try_from(self.types().size(ty)).unwrap_or(u32::MAX);
        DifType { kind: kind.number(), ckind: ckind.number(), flags, pad: 0, size }
    }

    /// Returns the name of a node's type in errors.
    pub fn type_name(&self, node: &Node) -> String {
        if self.is_dynamic(node) {
            if let Some((_, pointer)) = self.translator(node) {
                let kind = if pointer { IdKind::XlatorPointer } else { IdKind::XlatorData };
                return kind.name().into();
            }
            if let Some(id) = node.ident() {
                return self.ident(self.resolve(id)).kind.name().into();
            }
        }
        let user = if node.flags.user { "userland " } else { "" };
        let name = match node.ty {
            Some(ty) => self.types().name(ty),
            None => "<none>".into(),
        };
        format!("{user}{name}")
    }

    /// Returns the name to which an inline refers; a name that is not an inline stays unchanged.
    pub fn resolve(&self, mut id: IdentId) -> IdentId {
        while let Some(root) =
            self.ident(id).inline.as_ref().and_then(|inline| inline.root.as_ref())
        {
            match root.ident() {
                Some(next) => id = next,
                None => break,
            }
        }
        id
    }

    /// Returns the translator of a node's members, and whether the node is a pointer.
    pub fn translator(&self, node: &Node) -> Option<(XlatorId, bool)> {
        match &node.kind {
            Kind::Xlate(_, _, xlator) => *xlator,
            Kind::Arg { xlator, .. } => *xlator,
            Kind::Var(id, _) => {
                let root = self.ident(*id).inline.as_ref()?.root.as_ref()?;
                self.translator(root)
            }
            _ => None,
        }
    }

    /// Returns whether a name was neither declared nor used before.
    pub fn is_fresh(&self, id: IdentId) -> bool {
        let ident = self.ident(id);
        let flags = ident.flags;
        ident.generation == self.state.generation
            && !(flags.referred || flags.modified || flags.declared)
    }
}
