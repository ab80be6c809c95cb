//! Page tables (Sv39): the direct map, the kernel's own image, stacks, and modules.

use alloc::alloc::{alloc_zeroed, dealloc};
use core::alloc::Layout;
use core::sync::atomic::{AtomicU64, Ordering};

use riscv::asm::{fence_i, sfence_vma, sfence_vma_all};
use riscv::register::satp;
use sbi_rt::HartMask;
use spin::Mutex;

use stand_in_base::image::{PAGE, Protection};

/// Where the kernel is, less its physical address (FreeBSD's KERNBASE).
pub(crate) const KERNEL_BASE: u64 = 0xffff_ffc0_0000_0000;
/// Where physical memory is mapped, data only (FreeBSD's DMAP_MIN_ADDRESS).
pub(crate) const DIRECT_MAP: u64 = 0xffff_ffd0_0000_0000;
/// Physical memory in the direct map, by the boot table too: RAM that is used, and the devices.
pub(crate) const BOOT_MAP_SIZE: u64 = 4 << 30;

/// satp's mode field.
pub(super) const SV39: u64 = (satp::Mode::Sv39 as u64) << 60;

const GIB: u64 = 1 << 30;
/// Levels of tables, the root being the last one.
const LEVELS: u32 = 3;
const VALID: u64 = 1;
/// Read, write, execute: a leaf has one of them at least, a pointer to a table none.
const LEAF: u64 = 2 | 4 | 8;

/// What may be done with a page. Accessed and dirty are always set: the hardware may fault instead of
/// setting them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaf(u64);

impl Leaf {
    const GLOBAL: u64 = 32;
    const ACCESSED: u64 = 64;
    const DIRTY: u64 = 128;

    /// No page.
    pub(super) const NONE: Self = Self(0);
    /// Constants.
    pub(super) const READ: Self = Self::new(2);
    /// Data.
    pub(super) const READ_WRITE: Self = Self::new(2 | 4);
    /// The kernel's code.
    pub(super) const READ_EXECUTE: Self = Self::new(2 | 8);
    /// Code that is written to by plain stores.
    pub(super) const ALL: Self = Self::new(2 | 4 | 8);

    const fn new(rights: u64) -> Self {
        Self(VALID | rights | Self::GLOBAL | Self::ACCESSED | Self::DIRTY)
    }
}

/// The protections of a module's pages.
///
/// FreeBSD/riscv allocates the memory of modules by `malloc_exec` (`sys/kern/link_elf.c`), readable,
/// writable and executable in one, and its DTrace providers patch text by plain stores, without an alias
/// or a switch. So here, too, the code of modules is writable: what stores there must not fault where it
/// would not on FreeBSD. Data is stricter here, it is not executable.
impl From<Protection> for Leaf {
    fn from(protection: Protection) -> Self {
        match protection {
            Protection::Execute => Self::ALL,
            Protection::Read => Self::READ,
            Protection::Write => Self::READ_WRITE,
        }
    }
}

/// The entry that maps 1 GiB in the root table.
pub(super) const fn gigapage(physical: u64, leaf: Leaf) -> u64 {
    entry(physical, leaf.0)
}

const fn entry(physical: u64, flags: u64) -> u64 {
    physical >> 2 | flags
}

const fn target(entry: u64) -> u64 {
    (entry >> 10) << 12
}

const PAGE_LAYOUT: Layout = match Layout::from_size_align(PAGE, PAGE) {
    Ok(layout) => layout,
    Err(_) => panic!("a page is a valid layout"),
};

unsafe extern "C" {
    static kernel_text_start: u8;
    static kernel_text_end: u8;
    static kernel_rodata_end: u8;
    static kernel_end: u8;
}

/// Where the direct map shows a physical address.
pub(crate) const fn direct(physical: u64) -> u64 {
    DIRECT_MAP + physical
}

/// Physical address of something in the kernel's image.
pub(super) fn kernel_physical(address: u64) -> u64 {
    address - KERNEL_BASE
}

/// First physical address behind the kernel's image.
pub(crate) fn kernel_image_end() -> u64 {
    kernel_physical(&raw const kernel_end as u64)
}

/// There were not enough page frames.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutOfMemory;

/// A zeroed page frame out of the heap, which lies in the direct map. Returns its physical address.
fn new_frame() -> Result<u64, OutOfMemory> {
    // SAFETY: the layout is not empty.
    let page = unsafe { alloc_zeroed(PAGE_LAYOUT) };
    if page.is_null() { Err(OutOfMemory) } else { Ok(page as u64 - DIRECT_MAP) }
}

/// # Safety
/// The frame came from [`new_frame`] and nothing maps or uses it any more.
unsafe fn free_frame(physical: u64) {
    // SAFETY: the caller's contract.
    unsafe { dealloc(direct(physical) as *mut u8, PAGE_LAYOUT) };
}

/// The kernel's tables, by the physical address of the root.
#[derive(Debug)]
struct Tables(u64);

static TABLES: Mutex<Option<Tables>> = Mutex::new(None);
static ROOT: AtomicU64 = AtomicU64::new(0);

impl Tables {
    /// The entry for an address at a level, 0 being that of pages of 4 KiB. Tables on the way there are
    /// made of the frames that `missing` gives; `None` when it gives none.
    fn entry(
        &mut self,
        address: u64,
        level: u32,
        mut missing: impl FnMut() -> Option<u64>,
    ) -> Option<&mut u64> {
        let mut table = self.0;
        let mut at = LEVELS - 1;
        loop {
            let index = address >> (12 + 9 * at) & 511;
            // SAFETY: tables are frames of the heap, mapped by the direct map; only this, which holds the
            // lock, refers to them.
            let entry = unsafe { &mut *((direct(table) + index * 8) as *mut u64) };
            if at == level {
                return Some(entry);
            }
            if *entry & VALID == 0 {
                *entry = self::entry(missing()?, VALID);
            }
            if *entry & LEAF != 0 {
                return None;
            }
            table = target(*entry);
            at -= 1;
        }
    }

    /// Maps a page that is not mapped.
    fn map(&mut self, address: u64, physical: u64, leaf: Leaf) -> Result<(), OutOfMemory> {
        let slot = self.entry(address, 0, || new_frame().ok()).ok_or(OutOfMemory)?;
        assert!(*slot & VALID == 0, "{address:#x} is mapped already");
        *slot = entry(physical, leaf.0);
        sfence_vma(0, address as usize);
        Ok(())
    }

    /// The entry of a page that is mapped.
    fn mapped(&mut self, address: u64) -> Option<&mut u64> {
        self.entry(address, 0, || None).filter(|entry| **entry & VALID != 0)
    }
}

/// Builds the kernel's tables and switches to them. Once, by the first CPU, with the heap ready.
///
/// # Panics
/// When the heap cannot hold the tables.
pub(super) fn init() {
    let root = new_frame().expect("no memory for page tables");
    let mut tables = Tables(root);
    for physical in (0..BOOT_MAP_SIZE).step_by(GIB as usize) {
        let slot = tables.entry(direct(physical), LEVELS - 1, || None);
        *slot.expect("the root table is there") = gigapage(physical, Leaf::READ_WRITE);
    }
    let edges = [
        (&raw const kernel_text_start, &raw const kernel_text_end, Leaf::READ_EXECUTE),
        (&raw const kernel_text_end, &raw const kernel_rodata_end, Leaf::READ),
        (&raw const kernel_rodata_end, &raw const kernel_end, Leaf::READ_WRITE),
    ];
    for (start, end, leaf) in edges {
        for address in (start as u64..end as u64).step_by(PAGE) {
            tables.map(address, kernel_physical(address), leaf).expect("kernel image");
        }
    }
    ROOT.store(root, Ordering::Release);
    *TABLES.lock() = Some(tables);
    // SAFETY: the tables map everything in use: the image, the heap, the stack.
    unsafe { satp::write(satp::Satp::from_bits((SV39 | root >> 12) as usize)) };
    sfence_vma_all();
}

/// Physical address of the kernel's root table.
pub(super) fn root() -> u64 {
    ROOT.load(Ordering::Acquire)
}

/// The physical address of what the kernel reads at an address. Any context: takes no lock, and finds what the tables have been
/// or are while somebody changes them.
pub(crate) fn physical(address: u64) -> Option<u64> {
    /// Bits of an address that Sv39 translates; those above are all as the highest of them.
    const BITS: u32 = 39;
    let unused = 64 - BITS;
    if (address.cast_signed() << unused >> unused).cast_unsigned() != address {
        return None;
    }
    let mut table = root();
    for level in (0..LEVELS).rev() {
        let shift = 12 + 9 * level;
        let index = address >> shift & 511;
        let at = direct(table) + index * 8;
        if table >= BOOT_MAP_SIZE {
            return None;
        }
        // SAFETY: the tables are in the direct map; one that is not used any more is still memory.
        let entry = unsafe { (at as *const u64).read_volatile() };
        if entry & VALID == 0 {
            return None;
        }
        if entry & LEAF != 0 {
            let offset = address & ((1 << shift) - 1);
            return Some(target(entry) & !((1 << shift) - 1) | offset);
        }
        table = target(entry);
    }
    None
}

/// Maps fresh zeroed pages, readable and writable, at an address that has none.
pub(crate) fn map(address: u64, pages: usize) -> Result<(), OutOfMemory> {
    for index in 0..pages {
        let at = address + (index * PAGE) as u64;
        let mapped = new_frame().and_then(|frame| {
            with_tables(|tables| tables.map(at, frame, Leaf::READ_WRITE)).inspect_err(|_| {
                // SAFETY: the frame was not mapped.
                unsafe { free_frame(frame) };
            })
        });
        if mapped.is_err() {
            // SAFETY: these pages were mapped by this very call and nobody has used them.
            unsafe { unmap(address, index) };
            return mapped;
        }
    }
    Ok(())
}

/// Changes the protection of pages that [`map`] mapped. Other CPUs may see the old one until their
/// translations are flushed.
pub(crate) fn protect(address: u64, pages: usize, protection: Protection) {
    for index in 0..pages {
        let at = address + (index * PAGE) as u64;
        with_tables(|tables| {
            let slot = tables.mapped(at).expect("a page that is not mapped cannot be protected");
            *slot = entry(target(*slot), Leaf::from(protection).0);
        });
        sfence_vma(0, at as usize);
    }
}

/// Unmaps pages that [`map`] mapped, and frees them once no CPU can reach them any more.
///
/// # Safety
/// Nobody uses the memory any more.
pub(crate) unsafe fn unmap(address: u64, pages: usize) {
    let mut frames = alloc::vec::Vec::with_capacity(pages);
    for index in 0..pages {
        let at = address + (index * PAGE) as u64;
        with_tables(|tables| {
            let slot = tables.mapped(at).expect("pages to unmap are mapped");
            frames.push(target(*slot));
            *slot = 0;
        });
    }
    flush_everywhere();
    for frame in frames {
        // SAFETY: the frame is unmapped, no CPU holds a translation, and the caller is done with it.
        unsafe { free_frame(frame) };
    }
}

/// Makes every CPU forget its translations and the instructions it has fetched ahead: code may have come
/// or gone. A hart's own fences do not reach others, so these go by SBI, as on FreeBSD
/// (`pmap_invalidate_all`, `pmap_sync_icache` of `sys/riscv/riscv/pmap.c`). SBI's calls return when all
/// harts are done, interrupts on or off, and cover this one too.
pub(crate) fn flush_everywhere() {
    // What was stored is to be seen by the harts before they are told.
    riscv::asm::fence();
    let fenced = sbi_rt::remote_sfence_vma(HartMask::all(), 0, usize::MAX);
    assert!(fenced.is_ok(), "SBI does not flush translations: {:?}", fenced.err());
    let fenced = sbi_rt::remote_fence_i(HartMask::all());
    assert!(fenced.is_ok(), "SBI does not flush instructions: {:?}", fenced.err());
    sfence_vma_all();
    fence_i();
}

fn with_tables<R>(work: impl FnOnce(&mut Tables) -> R) -> R {
    work(TABLES.lock().as_mut().expect("paging is set up"))
}
