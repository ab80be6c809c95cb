//! Relations between types, and their parts.

use dtrace_abi::dif::CtfKind;

use super::store::Types;
use super::ty::{Type, TypeId};

/// The offset and type of a member of a struct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemberInfo {
    pub ty: TypeId,
    /// In bits.
    pub offset: u64,
}

impl Types {
    /// Returns the type behind all typedefs.
    pub fn resolve(&self, id: TypeId) -> TypeId {
        let id = self.roots[id.0 as usize];
        match self.get(id) {
            Type::Forward(kind, tag) => self.definition(id, kind.name(), tag).unwrap_or(id),
            _ => id,
        }
    }

    /// Returns the kind of the type behind all typedefs, as in DIF.
    pub fn kind(&self, id: TypeId) -> CtfKind {
        match self.get(self.resolve(id)) {
            Type::Int { .. } => CtfKind::Integer,
            Type::Float { .. } => CtfKind::Float,
            Type::Pointer(_) => CtfKind::Pointer,
            Type::Array(..) => CtfKind::Array,
            Type::Function => CtfKind::Function,
            Type::Record { union: false, .. } => CtfKind::Struct,
            Type::Record { union: true, .. } => CtfKind::Union,
            Type::Enum { .. } => CtfKind::Enum,
            Type::Forward(..) => CtfKind::Forward,
            Type::Typedef(..) => CtfKind::Typedef,
        }
    }

    /// Returns the target of a pointer, or the element of an array.
    pub fn target(&self, id: TypeId) -> Option<TypeId> {
        match self.get(self.resolve(id)) {
            Type::Pointer(to) | Type::Array(to, _) => Some(*to),
            _ => None,
        }
    }

    /// Returns whether two types are compatible (libctf's `ctf_type_compat`).
    pub fn compatible(&self, left: TypeId, right: TypeId) -> bool {
        if left == right {
            return true;
        }
        let (left, right) = (self.resolve(left), self.resolve(right));
        if left == right {
            return true;
        }
        let known = !self.are_strangers(left, right);
        match (self.get(left), self.get(right)) {
            (Type::Enum { .. }, Type::Int { .. }) | (Type::Int { .. }, Type::Enum { .. }) => true,
            (
                Type::Int { bits: a, signed: b, char: c, .. },
                Type::Int { bits: d, signed: e, char: f, .. },
            ) => (a, b, c) == (d, e, f),
            (Type::Float { bits: a, real: b, .. }, Type::Float { bits: c, real: d, .. }) => {
                (a, b) == (c, d)
            }
            (Type::Pointer(a), Type::Pointer(b)) => self.compatible(*a, *b),
            (Type::Array(a, n), Type::Array(b, m)) => n == m && self.compatible(*a, *b),
            (
                Type::Record { union: a, tag: b, size: c, .. },
                Type::Record { union: d, tag: e, size: f, .. },
            ) => (a, b, c) == (d, e, f) && b.is_some() && known,
            (Type::Enum { tag: a, .. }, Type::Enum { tag: b, .. }) => {
                a == b && a.is_some() && known
            }
            (Type::Forward(a, b), Type::Forward(c, d)) => (a, b) == (c, d) && known,
            _ => false,
        }
    }

    /// Returns a member of a struct or union, including those of members without a name.
    pub(crate) fn member(&self, id: TypeId, name: &str) -> Option<MemberInfo> {
        let Type::Record { members, .. } = self.get(self.resolve(id)) else { return None };
        members.iter().find_map(|member| match &member.name {
            Some(found) if found == name => {
                Some(MemberInfo { ty: member.ty, offset: member.offset })
            }
            Some(_) => None,
            None => {
                let inner = self.member(member.ty, name)?;
                Some(MemberInfo { offset: member.offset + inner.offset, ..inner })
            }
        })
    }

    /// Returns the names of the members of a struct or union, including those of members without a name.
    pub(crate) fn member_names(&self, id: TypeId) -> Vec<&str> {
        let Type::Record { members, .. } = self.get(self.resolve(id)) else { return Vec::new() };
        let names = members.iter().flat_map(|member| match &member.name {
            Some(name) => vec![&**name],
            None => self.member_names(member.ty),
        });
        names.collect()
    }

    /// Returns the reason why D cannot represent a member of a struct or union.
    pub(crate) fn missing(&self, id: TypeId, name: &str) -> Option<&str> {
        let id = self.resolve(id);
        let own = self.remarks.missing.get(&id).into_iter().flatten();
        let own = own.into_iter().find(|(member, _)| member == name).map(|(_, why)| &**why);
        let Type::Record { members, .. } = self.get(id) else { return None };
        let mut inner = members.iter().filter(|member| member.name.is_none());
        own.or_else(|| inner.find_map(|member| self.missing(member.ty, name)))
    }

    /// Returns the value of an enumerator.
    pub(crate) fn enumerator(&self, id: TypeId, name: &str) -> Option<i32> {
        match self.get(self.resolve(id)) {
            Type::Enum { values, .. } => values.iter().find(|v| v.0 == name).map(|v| v.1),
            _ => None,
        }
    }

    /// Returns the bits and the sign of an integer; 0 bits for void.
    pub(crate) fn integer(&self, id: TypeId) -> Option<(u32, bool)> {
        match self.get(self.resolve(id)) {
            Type::Int { bits, signed, .. } => Some((*bits, *signed)),
            _ => None,
        }
    }

    /// Returns whether a type is void, under any name.
    pub(crate) fn is_void(&self, id: TypeId) -> bool {
        self.integer(id).is_some_and(|(bits, _)| bits == 0)
    }

    /// Returns whether a type is a signed character of eight bits, the element of strings.
    pub(crate) fn is_char(&self, id: TypeId) -> bool {
        matches!(self.get(self.resolve(id)), Type::Int { bits: 8, char: true, signed: true, .. })
    }

    /// Returns whether a type is an integer that one load cannot read: its size is not 1, 2, 4 or 8 bytes.
    pub(crate) fn is_bit_field(&self, id: TypeId) -> bool {
        self.integer(id).is_some_and(|(bits, _)| {
            bits % 8 != 0 || bits > 64 || !(bits == 0 || (bits / 8).is_power_of_two())
        })
    }
}
