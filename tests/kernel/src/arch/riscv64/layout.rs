//! The memory map.

pub(crate) use page_table_entry::riscv::Rv64PTE as Entry;
use page_table_multiarch::MappingFlags;
pub(crate) use page_table_multiarch::riscv::Sv39MetaData;

/// The format of the tables.
pub(crate) type Format = Sv39MetaData<memory_addr::VirtAddr>;

/// Address of the kernel, minus its physical address (FreeBSD's KERNBASE).
pub(crate) const KERNEL_BASE: u64 = 0xffff_ffc0_0000_0000;
/// Address at which physical memory is mapped as data (FreeBSD's DMAP_MIN_ADDRESS).
pub(crate) const DIRECT_MAP: u64 = 0xffff_ffd0_0000_0000;
/// The size in bytes of the physical memory in the direct map: the RAM in use, and the devices.
pub(crate) const DIRECT_MAP_SIZE: u64 = BOOT_MAP_SIZE;
/// The size in bytes of the physical memory that the boot table maps.
pub(crate) const BOOT_MAP_SIZE: u64 = 4 << 30;
/// Bytes of device memory at physical address 0 that need attributes of their own.
pub(crate) const DEVICES: u64 = 0;
/// Rights of a module's code.
///
/// FreeBSD/riscv allocates the memory of modules by `malloc_exec` (`sys/kern/link_elf.c`), readable, writable and executable, and
/// its DTrace providers patch text by plain stores. So a module's code is writable here, too. Its data is not executable, which is
/// stricter than FreeBSD.
pub(crate) const CODE: MappingFlags =
    MappingFlags::READ.union(MappingFlags::WRITE).union(MappingFlags::EXECUTE);

/// Returns the address of a physical address in the direct map.
pub(crate) const fn direct(physical: u64) -> u64 {
    DIRECT_MAP + physical
}
