//! Sizes, and where members stand.

use super::{DEEPEST, Member, Type, TypeId, Types};

/// The most bytes that a type may have: offsets in bits, and sums of a few, stay far from where numbers end.
const MOST: u64 = 1 << 48;

/// Properties of a type that depend on other types. They are stored when the type is added, since a struct may contain
/// another one along more paths than can be followed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Extent {
    /// Of a struct or union: the alignment in bytes.
    align: u64,
    /// Of a struct or union: the levels of its deepest member.
    levels: u32,
    /// Pointers and arrays from here to the next struct, union or plain type.
    links: u32,
}

impl Types {
    /// What is stored about a type that is added.
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

    /// Arrays and structs that are within each other, this type included.
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

    /// Whether a type has more than [`DEEPEST`] levels, so that no function may recurse through it.
    pub(crate) fn is_too_deep(&self, id: TypeId) -> bool {
        self.extents[id.0 as usize].links > DEEPEST || self.levels(id) > DEEPEST
    }

    /// Size in bytes; 0 of what has none.
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

    /// Whether a type is larger than anything that there could be.
    pub(crate) fn is_too_large(&self, id: TypeId) -> bool {
        self.size(id) > MOST
    }

    /// What an address of a type is a multiple of. Of a struct only the first member counts, of a
    /// union all do (libctf's `ctf_type_align`).
    fn align(&self, id: TypeId) -> u64 {
        let id = self.resolve(id);
        match self.get(id) {
            Type::Pointer(_) | Type::Function => 8,
            Type::Array(of, _) => self.align(*of),
            Type::Record { .. } => self.extents[id.0 as usize].align,
            _ => self.size(id),
        }
    }

    /// Adds a member to a struct or union: behind the byte where the last one ends, as its own type's
    /// alignment wants it. A struct ends where its last member does (libctf's `ctf_add_member`).
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

    /// Gives a struct or union all of its members, whose offsets are known.
    pub(crate) fn set_members(&mut self, record: TypeId, given: Vec<Member>) {
        if let Type::Record { members, .. } = self.get_mut(record) {
            *members = given;
        }
        self.extents[record.0 as usize] = self.extent(self.get(record));
    }

    /// Bits that a value takes: those of a bit-field, or all of its bytes'.
    fn bits(&self, id: TypeId) -> u64 {
        match self.get(self.resolve(id)) {
            Type::Int { bits, .. } | Type::Float { bits, .. } => (*bits).into(),
            _ => self.size(id).saturating_mul(8),
        }
    }
}

/// Bytes that an integer of so many bits is loaded from: a power of two.
pub(crate) const fn integer_size(bits: u32) -> u64 {
    if bits == 0 { 0 } else { (bits.div_ceil(8) as u64).next_power_of_two() }
}
