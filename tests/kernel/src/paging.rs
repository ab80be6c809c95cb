//! Page tables: the direct map, the kernel's own image, stacks, and modules.

use alloc::alloc::{alloc_zeroed, dealloc};
use alloc::vec::Vec;
use core::alloc::Layout;
use core::sync::atomic::{AtomicU64, Ordering};

use memory_addr::{PhysAddr, VirtAddr};
use page_table_multiarch::{
    GenericPTE as _, MappingFlags, PageSize, PageTable64, PagingHandler, PagingMetaData as _,
};
use sdt_core::patch::machine;
use spin::Mutex;
use stand_in_base::image::{PAGE, Protection};

pub(crate) use crate::arch::layout::{
    BOOT_MAP_SIZE, DIRECT_MAP, DIRECT_MAP_SIZE, KERNEL_BASE, direct,
};
use crate::arch::layout::{CODE, DEVICES, Entry, Format};

const CONSTANTS: MappingFlags = MappingFlags::READ;
const DATA: MappingFlags = MappingFlags::READ.union(MappingFlags::WRITE);
const KERNEL_CODE: MappingFlags = MappingFlags::READ.union(MappingFlags::EXECUTE);

unsafe extern "C" {
    static kernel_text_start: u8;
    static kernel_text_end: u8;
    static kernel_rodata_end: u8;
    static kernel_end: u8;
}

type Tables = PageTable64<Format, Entry, Frames>;

/// The kernel's tables, set by [`init`].
static TABLES: Mutex<Option<Tables>> = Mutex::new(None);
/// Physical address of the root table.
static ROOT: AtomicU64 = AtomicU64::new(0);

/// Returns the physical address of a part of the kernel's image.
pub(crate) fn kernel_physical(address: u64) -> u64 {
    address - KERNEL_BASE
}

/// Returns the first physical address after the kernel's image.
pub(crate) fn kernel_image_end() -> u64 {
    kernel_physical(&raw const kernel_end as u64)
}

/// Returns the physical address of the root table.
pub(crate) fn root() -> u64 {
    ROOT.load(Ordering::Acquire)
}

/// Page frames from the heap, which lies in the direct map.
struct Frames;

impl PagingHandler for Frames {
    fn alloc_frames(count: usize, align: usize) -> Option<PhysAddr> {
        let layout = Layout::from_size_align(count * PAGE, align).ok()?;
        // SAFETY: `count` is at least 1, so the layout is not empty.
        let page = unsafe { alloc_zeroed(layout) };
        (!page.is_null()).then(|| PhysAddr::from((page as u64 - DIRECT_MAP) as usize))
    }

    fn dealloc_frames(frame: PhysAddr, count: usize) {
        let layout = Layout::from_size_align(count * PAGE, PAGE).expect("it was allocated so");
        // SAFETY: `alloc_frames` returned the frames with this layout, and their user returns them once.
        unsafe { dealloc(Self::phys_to_virt(frame).as_mut_ptr(), layout) };
    }

    fn phys_to_virt(physical: PhysAddr) -> VirtAddr {
        VirtAddr::from(direct(physical.as_usize() as u64) as usize)
    }
}

fn with_tables<R>(work: impl FnOnce(&mut Tables) -> R) -> R {
    work(TABLES.lock().as_mut().expect("paging is set up"))
}

fn pages(address: u64, count: usize) -> impl Iterator<Item = VirtAddr> {
    (0..count).map(move |page| VirtAddr::from(address as usize + page * PAGE))
}

/// Builds the kernel's tables and switches to them. The first CPU calls this function once, after the heap has been initialised.
///
/// # Panics
/// If the heap has no room for the tables.
pub(crate) fn init() {
    let mut tables = Tables::try_new().expect("memory for page tables");
    let mut map = |from: u64, to: u64, base: u64, flags, huge| {
        let physical = |at: VirtAddr| PhysAddr::from(at.as_usize() - base as usize);
        let (start, size) = (VirtAddr::from(from as usize), (to - from) as usize);
        let mapped = tables.cursor().map_region(start, physical, size, flags, huge);
        mapped.unwrap_or_else(|error| panic!("mapping {from:#x}: {error:?}"));
    };
    map(direct(0), direct(DEVICES), DIRECT_MAP, DATA | MappingFlags::DEVICE, true);
    map(direct(DEVICES), direct(DIRECT_MAP_SIZE), DIRECT_MAP, DATA, true);
    for (start, end, flags) in [
        (&raw const kernel_text_start, &raw const kernel_text_end, KERNEL_CODE),
        (&raw const kernel_text_end, &raw const kernel_rodata_end, CONSTANTS),
        (&raw const kernel_rodata_end, &raw const kernel_end, DATA),
    ] {
        map(start as u64, end as u64, KERNEL_BASE, flags, false);
    }
    let root = tables.root_paddr().as_usize() as u64;
    ROOT.store(root, Ordering::Release);
    *TABLES.lock() = Some(tables);
    // SAFETY: the tables map everything in use: the image, the heap, the stack.
    unsafe { crate::arch::switch_tables(root) };
}

/// The error if too few page frames are free.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutOfMemory;

/// Maps `count` zeroed pages, readable and writable, at addresses that are not mapped.
///
/// # Errors
/// If there is not enough memory; then no page is mapped.
pub(crate) fn map(address: u64, count: usize) -> Result<(), OutOfMemory> {
    for (index, page) in pages(address, count).enumerate() {
        let mapped = with_tables(|tables| {
            let frame = Frames::alloc_frame()?;
            let mapped = tables.cursor().map(page, frame, PageSize::Size4K, DATA);
            mapped.inspect_err(|_| Frames::dealloc_frame(frame)).ok()
        });
        if mapped.is_none() {
            // SAFETY: this call mapped these pages, and nothing has used them.
            unsafe { unmap(address, index) };
            return Err(OutOfMemory);
        }
    }
    Ok(())
}

/// Changes the protection of pages that [`map`] mapped. Other CPUs may use the old protection until [`flush_everywhere`].
pub(crate) fn protect(address: u64, count: usize, protection: Protection) {
    let flags = match protection {
        Protection::Execute => {
            // SAFETY: the pages are mapped.
            unsafe { machine::after_store(address as usize, count * PAGE) };
            CODE
        }
        Protection::Read => CONSTANTS,
        Protection::Write => DATA,
    };
    set_flags(address, count, flags);
}

/// Makes pages that [`protect`] made executable writable as well. Other CPUs may fault until [`flush_everywhere`].
pub(crate) fn allow_stores(address: u64, count: usize) {
    set_flags(address, count, KERNEL_CODE | MappingFlags::WRITE);
}

fn set_flags(address: u64, count: usize, flags: MappingFlags) {
    let start = VirtAddr::from(address as usize);
    let set = with_tables(|tables| tables.cursor().protect_region(start, count * PAGE, flags));
    set.unwrap_or_else(|error| panic!("protecting {address:#x}: {error:?}"));
}

/// Unmaps pages that [`map`] mapped, and frees them once no CPU can reach them.
///
/// # Safety
/// No code uses the memory any more.
pub(crate) unsafe fn unmap(address: u64, count: usize) {
    let unmap = |page| with_tables(|tables| tables.cursor().unmap(page));
    let frames: Vec<_> =
        pages(address, count).map(|page| unmap(page).expect("the page is mapped").0).collect();
    flush_everywhere();
    frames.into_iter().for_each(Frames::dealloc_frame);
}

/// Flushes the TLB and synchronises the instruction stream of every CPU, so that all use the current tables and code.
pub(crate) fn flush_everywhere() {
    crate::smp::rendezvous(&|_| {
        Format::flush_tlb(None);
        machine::synchronise_cpu();
    });
}

/// Returns the physical address of an address that the kernel can read. Any context: takes no lock; while another CPU
/// changes the tables, the result may be that of before or after the change.
pub(crate) fn physical(address: u64) -> Option<u64> {
    translate(address).map(|(physical, _)| physical)
}

/// Returns an address at which the memory at `address` can be written: itself, or its place in the direct map. Any context.
#[cfg(target_arch = "aarch64")]
pub(crate) fn writable(address: u64) -> Option<u64> {
    let (physical, flags) = translate(address)?;
    Some(if flags.contains(MappingFlags::WRITE) { address } else { direct(physical) })
}

fn translate(address: u64) -> Option<(u64, MappingFlags)> {
    // The kernel uses only the upper half of the address space.
    if address.cast_signed() >= 0 || !Format::vaddr_is_valid(address as usize) {
        return None;
    }
    let mut table = root();
    for level in (0..Format::LEVELS).rev() {
        if table >= DIRECT_MAP_SIZE {
            return None;
        }
        let shift = 12 + 9 * level;
        let slot = direct(table) + (address >> shift & 511) * 8;
        // SAFETY: the direct map maps the memory of all tables, and still maps it after a table has been freed.
        let entry = unsafe { (slot as *const Entry).read_volatile() };
        if !entry.is_present() {
            return None;
        }
        let target = entry.paddr().as_usize() as u64;
        if level == 0 || entry.is_huge() {
            let within = (1 << shift) - 1;
            return Some((target & !within | address & within, entry.flags()));
        }
        table = target;
    }
    None
}
