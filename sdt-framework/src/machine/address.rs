//! Addresses that programs see.
//!
//! A register of DIF holds 64 bits, and an address of the kernel is one like any other number. What belongs
//! to the program itself (scratch, variables, strings) has addresses too, but made-up ones: the upper byte is
//! [`OURS`], which no kernel's memory has (on x86_64, aarch64 and riscv64 such addresses are not canonical;
//! on machines of 32 bits there are none). So nothing that a program computes leads from one to the other,
//! and the memory of the program is only ever reached through slices.

/// The upper byte of addresses that are not the kernel's.
pub const OURS: u8 = 0x44;

/// The target of an address of the machine ([`OURS`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Region {
    /// Scratch space of this firing.
    Scratch = 1,
    /// Strings of programs; they cannot be written.
    Literals = 2,
    /// A global variable that is held by reference.
    Global = 3,
    /// A clause-local one, of this CPU.
    Local = 4,
    /// The value of a dynamic variable.
    Dynamic = 5,
    /// A name that the kernel supplies: a part of the probe's description, the process's name and so on.
    Text = 6,
}

/// The parts of an address: the kind of its object, the number of the object, and the offset in the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
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

impl Place {
    /// The beginning of an item; of its number 24 bits count.
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

/// An address that is [`OURS`] and leads nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoPlace;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_come_back() {
        let place = Place { region: Region::Dynamic, item: 0x12_3456, offset: 0xabcdef };
        assert_eq!(place.address(), 0x4405_1234_56ab_cdef);
        assert_eq!(Place::of(place.address()), Some(Ok(place)));
        assert_eq!(Place::of(0xffff_8000_0000_0000), None);
        assert_eq!(Place::of(0), None);
        assert_eq!(Place::of(0x44ff << 48), Some(Err(NoPlace)));
    }
}
