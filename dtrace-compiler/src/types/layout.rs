//! Sizes, and where members stand.

use super::{Member, Type, TypeId, Types};

/// The most bytes that a type may have: offsets in bits, and sums of a few, stay far from where numbers end.
const MOST: u64 = 1 << 48;

impl Types {
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
            Type::Record { union, members, .. } => {
                let count = if *union { members.len() } else { 1 };
                members.iter().take(count).map(|member| self.align(member.ty)).max().unwrap_or(0)
            }
            _ => self.size(id),
        }
    }

    /// Adds a member to a struct or union: behind the byte where the last one ends, as its own type's
    /// alignment wants it. A struct ends where its last member does (libctf's `ctf_add_member`).
    pub(crate) fn add_member(&mut self, record: TypeId, name: Option<String>, ty: TypeId) {
        let (size, align) = (self.size(ty), self.align(ty).max(1));
        let last_end = match self.get(record) {
            Type::Record { union: false, members, .. } => {
                members.last().map_or(0, |last| last.offset.saturating_add(self.bits(last.ty)))
            }
            _ => 0,
        };
        let Type::Record { members, size: whole, .. } = self.get_mut(record) else { return };
        let offset = last_end.div_ceil(8).checked_next_multiple_of(align).unwrap_or(u64::MAX);
        members.push(Member { name, ty, offset: offset.saturating_mul(8) });
        *whole = (*whole).max(offset.saturating_add(size));
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
