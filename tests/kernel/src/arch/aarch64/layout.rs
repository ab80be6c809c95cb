//! The memory map.

pub(crate) use page_table_entry::aarch64::A64PTE as Entry;
use page_table_multiarch::MappingFlags;
pub(crate) use page_table_multiarch::aarch64::A64PagingMetaData as Format;

/// Address of the kernel and its modules, minus their physical address (FreeBSD's `VM_MIN_KERNEL_ADDRESS`,
/// `sys/arm64/include/vmparam.h`).
pub(crate) const KERNEL_BASE: u64 = 0xffff_0000_0000_0000;
/// Address at which physical memory is mapped as data (FreeBSD's `DMAP_MIN_ADDRESS`).
pub(crate) const DIRECT_MAP: u64 = 0xffff_a000_0000_0000;
/// The size in bytes of the physical memory in the direct map.
pub(crate) const DIRECT_MAP_SIZE: u64 = BOOT_MAP_SIZE;
/// The size in bytes of the physical memory that the boot tables map. It contains the heap.
pub(crate) const BOOT_MAP_SIZE: u64 = 2 << 30;
/// Bytes of device memory at physical address 0; RAM follows.
pub(crate) const DEVICES: u64 = 1 << 30;
/// Rights of a module's code.
pub(crate) const CODE: MappingFlags = MappingFlags::READ.union(MappingFlags::EXECUTE);

/// Returns the address of a physical address in the direct map.
pub(crate) const fn direct(physical: u64) -> u64 {
    DIRECT_MAP + physical
}
