//! The memory map.

pub(crate) use page_table_entry::x86_64::X64PTE as Entry;
use page_table_multiarch::MappingFlags;
pub(crate) use page_table_multiarch::x86_64::X64PagingMetaData as Format;

/// Start of the addresses of the kernel and its modules (FreeBSD's KERNBASE): the top 2 GiB, which 32-bit sign-extended
/// relocations reach.
pub(crate) const KERNEL_BASE: u64 = 0xffff_ffff_8000_0000;
/// Address at which physical memory is mapped as data.
pub(crate) const DIRECT_MAP: u64 = 0xffff_8000_0000_0000;
/// The size in bytes of the physical memory in the direct map: the RAM in use, and the interrupt controllers.
pub(crate) const DIRECT_MAP_SIZE: u64 = 4 << 30;
/// The size in bytes of the physical memory that the boot tables map. It contains the heap.
pub(crate) const BOOT_MAP_SIZE: u64 = 1 << 30;
/// Bytes of device memory at physical address 0.
pub(crate) const DEVICES: u64 = 0;
/// Rights of a module's code.
pub(crate) const CODE: MappingFlags = MappingFlags::READ.union(MappingFlags::EXECUTE);

/// Returns the address of a physical address in the direct map.
pub(crate) const fn direct(physical: u64) -> u64 {
    DIRECT_MAP + physical
}
