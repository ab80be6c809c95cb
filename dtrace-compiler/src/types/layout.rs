//! Sizes of types, and offsets of members.

use super::store::Types;
use super::ty::{DEEPEST, Extent, Member, Type, TypeId};

/// The largest size of a type in bytes. The limit prevents overflow of sums of offsets in bits.
const MOST: u64 = 1 << 48;

impl Types {
    /// Returns the properties that are stored with a new type.
    pub(super) fn extent(&self, ty: &Type) -> Extent {
        match ty {
            Type::Pointer(to) | Type::Array(to, _) => {
                let links = self.extents[to.0 as usize].links.saturating_add(1);
                Extent { links, ..Extent::default() }
            }
            Type::Typedef(_, to) => {
                Extent { links: self.extents[to.0 as usize].links, ..Extent::default() }
            }
            Type::Record { union, members, .. } => {
                let counted = if *union { members.len() } else { 1 };
                let counted = members.iter().take(counted);
                let levels = members.iter().map(|member| self.levels(member.ty)).max();
                Extent {
                    align: counted.map(|member| self.align(member.ty)).max().unwrap_or(0),
                    levels: levels.unwrap_or(0),
                    links: 0,
                }
            }
            _ => Extent::default(),
        }
    }

    /// Returns the number of nested arrays and structs, with this type.
    pub(crate) fn levels(&self, id: TypeId) -> u32 {
        let (mut count, mut at) = (0_u32, self.resolve(id));
        while let Type::Array(of, _) = self.get(at) {
            (count, at) = (count.saturating_add(1), self.resolve(*of));
        }
        match self.get(at) {
            Type::Record { .. } => {
                count.saturating_add(1).saturating_add(self.extents[at.0 as usize].levels)
            }
            _ => count,
        }
    }

    /// Returns whether a type has more than [`DEEPEST`] levels, so that no function may recurse through it.
    pub(crate) fn is_too_deep(&self, id: TypeId) -> bool {
        self.extents[id.0 as usize].links > DEEPEST || self.levels(id) > DEEPEST
    }

    /// Returns the size in bytes; 0 for a type without size.
    pub fn size(&self, id: TypeId) -> u64 {
        match self.get(self.resolve(id)) {
            Type::Int { bits, .. } | Type::Float { bits, .. } => integer_size(*bits),
            Type::Pointer(_) => 8,
            Type::Array(of, count) => self.size(*of).saturating_mul((*count).into()),
            Type::Record { size, .. } => *size,
            Type::Enum { .. } => 4,
            Type::Function | Type::Forward(..) | Type::Typedef(..) => 0,
        }
    }

    /// Returns whether a type exceeds the largest size.
    pub(crate) fn is_too_large(&self, id: TypeId) -> bool {
        self.size(id) > MOST
    }

    /// Returns the alignment of a type. For a struct only the first member counts, for a union all members (libctf's
    /// `ctf_type_align`).
    fn align(&self, id: TypeId) -> u64 {
        let id = self.resolve(id);
        match self.get(id) {
            Type::Pointer(_) | Type::Function => 8,
            Type::Array(of, _) => self.align(*of),
            Type::Record { .. } => self.extents[id.0 as usize].align,
            _ => self.size(id),
        }
    }

    /// Adds a member to a struct or union, at the next aligned offset after the last byte of the previous member. A
    /// struct ends with its last member (libctf's `ctf_add_member`).
    pub(crate) fn add_member(&mut self, record: TypeId, name: Option<String>, ty: TypeId) {
        let (size, own_align, levels) = (self.size(ty), self.align(ty), self.levels(ty));
        let align = own_align.max(1);
        let last_end = match self.get(record) {
            Type::Record { union: false, members, .. } => {
                members.last().map_or(0, |last| last.offset.saturating_add(self.bits(last.ty)))
            }
            _ => 0,
        };
        let Type::Record { members, size: whole, union, .. } = self.get_mut(record) else { return };
        let offset = last_end.div_ceil(8).checked_next_multiple_of(align).unwrap_or(u64::MAX);
        let counts = *union || members.is_empty();
        members.push(Member { name, ty, offset: offset.saturating_mul(8) });
        *whole = (*whole).max(offset.saturating_add(size));
        let extent = &mut self.extents[record.0 as usize];
        extent.align = if counts { extent.align.max(own_align) } else { extent.align };
        extent.levels = extent.levels.max(levels);
    }

    /// Sets all members of a struct or union, with their offsets.
    pub(crate) fn set_members(&mut self, record: TypeId, given: Vec<Member>) {
        if let Type::Record { members, .. } = self.get_mut(record) {
            *members = given;
        }
        self.extents[record.0 as usize] = self.extent(self.get(record));
    }

    /// Returns the size of a value in bits: that of a bit-field, or of all bytes.
    fn bits(&self, id: TypeId) -> u64 {
        match self.get(self.resolve(id)) {
            Type::Int { bits, .. } | Type::Float { bits, .. } => (*bits).into(),
            _ => self.size(id).saturating_mul(8),
        }
    }
}

/// Returns the number of bytes from which an integer is loaded: a power of two.
pub(crate) const fn integer_size(bits: u32) -> u64 {
    if bits == 0 { 0 } else { (bits.div_ceil(8) as u64).next_power_of_two() }
}
