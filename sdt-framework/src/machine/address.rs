//! The addresses that programs use.
//!
//! A register of DIF has 64 bits. An address in the kernel is a number like any other. The program's own objects (scratch space,
//! variables, strings) have artificial addresses: the upper byte is [`OURS`], which no kernel address has (on x86_64, aarch64 and
//! riscv64 such addresses are not canonical; on 32-bit machines they do not exist). So no address refers to both kinds of memory,
//! and the machine accesses the program's own memory only through slices.

/// The upper byte of addresses that are not the kernel's.
pub const OURS: u8 = 0x44;

/// The target of an address of the machine ([`OURS`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Region {
    /// Scratch space of this hit.
    Scratch = 1,
    /// Strings of programs; they cannot be written.
    Literals = 2,
    /// A global variable that is held by reference.
    Global = 3,
    /// A clause-local variable of this CPU that is held by reference.
    Local = 4,
    /// The value of a dynamic variable.
    Dynamic = 5,
    /// A name that the kernel supplies: a part of the probe's description, the process's name and so on.
    Text = 6,
}

/// The parts of an address: the kind of its object, the number of the object, and the offset in the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectAddress {
    /// The region.
    pub region: Region,
    /// The index of the variable, chunk or text: 24 bits.
    pub item: u32,
    /// The offset in bytes: 24 bits.
    pub offset: u32,
}

/// Bits of an offset.
const OFFSET: u32 = 24;
/// The highest item, and the highest offset.
pub const MOST: u32 = (1 << OFFSET) - 1;

impl ObjectAddress {
    /// Returns the beginning of an item. Only the lower 24 bits of `item` are used.
    pub const fn start(region: Region, item: u32) -> Self {
        Self { region, item: item & MOST, offset: 0 }
    }

    /// The address.
    pub const fn address(self) -> u64 {
        (OURS as u64) << 56
            | (self.region as u64) << 48
            | ((self.item & MOST) as u64) << OFFSET
            | (self.offset & MOST) as u64
    }

    /// Returns the target of an address; `None` if it is in the kernel.
    #[inline]
    pub const fn of(address: u64) -> Option<Result<Self, NoPlace>> {
        if (address >> 56) as u8 != OURS {
            return None;
        }
        let region = match (address >> 48) as u8 {
            1 => Region::Scratch,
            2 => Region::Literals,
            3 => Region::Global,
            4 => Region::Local,
            5 => Region::Dynamic,
            6 => Region::Text,
            _ => return Some(Err(NoPlace)),
        };
        let (item, offset) = ((address >> OFFSET) as u32 & MOST, address as u32 & MOST);
        Some(Ok(Self { region, item, offset }))
    }
}

/// The error for an address that has the upper byte [`OURS`], but no valid region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoPlace;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_come_back() {
        let place = ObjectAddress { region: Region::Dynamic, item: 0x12_3456, offset: 0xabcdef };
        assert_eq!(place.address(), 0x4405_1234_56ab_cdef);
        assert_eq!(ObjectAddress::of(place.address()), Some(Ok(place)));
        assert_eq!(ObjectAddress::of(0xffff_8000_0000_0000), None);
        assert_eq!(ObjectAddress::of(0), None);
        assert_eq!(ObjectAddress::of(0x44ff << 48), Some(Err(NoPlace)));
    }
}
