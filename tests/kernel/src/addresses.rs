//! Allocation of address ranges for modules.

use alloc::vec::Vec;
use core::ops::Range;

/// A part of the address space from which modules get their ranges of addresses.
///
/// Released addresses are reused last, so that accesses to an unloaded module fault for as long as possible. A gap separates two
/// adjacent ranges.
#[derive(Debug)]
pub struct Addresses {
    space: Range<u64>,
    gap: u64,
    next: u64,
    used: Vec<Range<u64>>,
}

impl Addresses {
    /// Creates an allocator of the addresses in `space` that leaves `gap` bytes unused after each reserved range.
    pub const fn new(space: Range<u64>, gap: u64) -> Self {
        Self { next: space.start, space, gap, used: Vec::new() }
    }

    /// Reserves `size` contiguous bytes and returns their start; `None` if there are not enough.
    pub fn reserve(&mut self, size: u64) -> Option<u64> {
        let wanted = size.checked_add(self.gap)?;
        let start = self.fit(self.next, wanted).or_else(|| self.fit(self.space.start, wanted))?;
        self.next = start + wanted;
        self.used.push(start..start + wanted);
        self.used.sort_by_key(|range| range.start);
        Some(start)
    }

    /// Releases a range, identified by its start; returns whether the range was reserved.
    pub fn give_back(&mut self, start: u64) -> bool {
        let before = self.used.len();
        self.used.retain(|range| range.start != start);
        self.used.len() < before
    }

    fn fit(&self, from: u64, size: u64) -> Option<u64> {
        let mut at = from;
        for range in self.used.iter().filter(|range| range.end > from) {
            if range.start.saturating_sub(at) >= size {
                break;
            }
            at = at.max(range.end);
        }
        (at.checked_add(size)? <= self.space.end).then_some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_back_as_late_as_possible() {
        let mut addresses = Addresses::new(0x1000..0x6000, 0x800);
        let first = addresses.reserve(0x800);
        assert_eq!(first, Some(0x1000));
        assert_eq!(addresses.reserve(0x1800), Some(0x2000));
        assert!(addresses.give_back(0x1000));
        assert_eq!(addresses.reserve(0x800), Some(0x4000));
        assert_eq!(addresses.reserve(0x800), Some(0x5000));
        assert_eq!(addresses.reserve(0x800), Some(0x1000));
        assert_eq!(addresses.reserve(1), None);
        assert!(!addresses.give_back(0x3000));
    }

    #[test]
    fn what_does_not_fit_a_hole_goes_behind_it() {
        let mut addresses = Addresses::new(0..0x100, 0);
        for _ in 0..4 {
            addresses.reserve(0x40).unwrap();
        }
        addresses.give_back(0x40);
        assert_eq!(addresses.reserve(0x80), None);
        addresses.give_back(0x80);
        assert_eq!(addresses.reserve(0x80), Some(0x40));
        assert_eq!(addresses.reserve(u64::MAX), None);
    }
}
