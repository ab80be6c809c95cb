//! The parameters that the boot code passes to the kernel.

/// A range of physical memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// The address of the first byte.
    pub start: u64,
    /// The address after the last byte.
    pub end: u64,
}

impl Region {
    /// No memory.
    pub const EMPTY: Self = Self { start: 0, end: 0 };
}

/// The machine, as the boot protocol describes it.
#[derive(Clone, Copy, Debug)]
pub struct BootInfo {
    /// Physical address of the firmware's description of the machine: the ACPI root pointer on x86_64,
    /// the device tree elsewhere; 0 when there is none.
    pub firmware: u64,
    /// The regions of RAM; unused elements are [`Region::EMPTY`].
    pub ram: [Region; Self::MAX_REGIONS],
}

impl BootInfo {
    /// The maximum number of regions; others are ignored.
    pub const MAX_REGIONS: usize = 16;

    /// Returns the RAM from `from` to the end of the region that contains `from`, but at most to `limit`.
    pub fn ram_from(&self, from: u64, limit: u64) -> Option<Region> {
        self.ram
            .iter()
            .find(|region| region.start <= from && from < region.end)
            .map(|region| Region { start: from, end: region.end.min(limit) })
            .filter(|region| region.start < region.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_region_behind_the_kernel_is_cut_at_the_limit() {
        let mut boot = BootInfo { firmware: 0, ram: [Region::EMPTY; BootInfo::MAX_REGIONS] };
        boot.ram[0] = Region { start: 0, end: 0x9f000 };
        boot.ram[1] = Region { start: 0x10_0000, end: 0x1000_0000 };
        assert_eq!(
            boot.ram_from(0x30_0000, 0x800_0000),
            Some(Region { start: 0x30_0000, end: 0x800_0000 })
        );
        assert_eq!(boot.ram_from(0xa_0000, u64::MAX), None);
        assert_eq!(boot.ram_from(0x30_0000, 0x30_0000), None);
    }
}
