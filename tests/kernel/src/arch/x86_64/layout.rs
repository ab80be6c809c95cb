//! The memory map.

pub(crate) use page_table_entry::x86_64::X64PTE as Entry;
use page_table_multiarch::MappingFlags;
pub(crate) use page_table_multiarch::x86_64::X64PagingMetaData as Format;

/// Address of the kernel and its modules, which have the top 2 GiB: 32-bit sign-extended relocations reach both (FreeBSD's
/// KERNBASE).
pub(crate) const KERNEL_BASE: u64 = 0xffff_ffff_8000_0000;
/// Address at which physical memory is mapped as data.
pub(crate) const DIRECT_MAP: u64 = 0xffff_8000_0000_0000;
/// Physical memory in the direct map: RAM that is used, and the interrupt controllers.
pub(crate) const DIRECT_MAP_SIZE: u64 = 4 << 30;
/// Physical memory that the boot tables map. The heap lies in it.
pub(crate) const BOOT_MAP_SIZE: u64 = 1 << 30;
/// Bytes of device memory at physical address 0.
pub(crate) const DEVICES: u64 = 0;
/// Rights of a module's code.
pub(crate) const CODE: MappingFlags = MappingFlags::READ.union(MappingFlags::EXECUTE);

/// Returns the address at which the direct map shows a physical address.
pub(crate) const fn direct(physical: u64) -> u64 {
    DIRECT_MAP + physical
}
