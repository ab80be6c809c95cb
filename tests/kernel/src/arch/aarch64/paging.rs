//! Translation tables: the direct map, the kernel's own image, stacks, and modules.

use alloc::alloc::{alloc_zeroed, dealloc, handle_alloc_error};
use alloc::vec::Vec;
use core::alloc::Layout;
use core::arch::asm;
use core::ptr::NonNull;

use aarch64_cpu::asm::barrier::{ISH, NSH, SY, dsb, isb};
use aarch64_cpu::registers::{PAR_EL1, ReadWriteable, Readable, TCR_EL1};
use aarch64_paging::Mapping;
use aarch64_paging::descriptor::{El1Attributes, PhysicalAddress};
use aarch64_paging::paging::{Constraints, El1And0, MemoryRegion, PageTable, Translation, VaRange};
use sdt_core::patch::machine;
use spin::Mutex;
use stand_in_base::image::{PAGE, Protection};

use super::{boot, cpu};

/// Where the kernel and its modules live: physical addresses plus this (FreeBSD's
/// `VM_MIN_KERNEL_ADDRESS`, `sys/arm64/include/vmparam.h`).
pub(crate) const KERNEL_BASE: u64 = 0xffff_0000_0000_0000;
/// Where physical memory is mapped, data only (FreeBSD's `DMAP_MIN_ADDRESS`).
pub(crate) const DIRECT_MAP: u64 = 0xffff_a000_0000_0000;
/// Physical memory that the boot tables and the direct map reach, and the heap lies in.
pub(crate) const BOOT_MAP_SIZE: u64 = 2 << 30;
/// Where RAM begins; what is below are devices.
pub(super) const RAM: u64 = 1 << 30;

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

/// The kernel's tables, once [`init`] has built them.
static TABLES: Mutex<Option<Tables>> = Mutex::new(None);

/// Where the direct map shows a physical address.
pub(crate) const fn direct(physical: u64) -> u64 {
    DIRECT_MAP + physical
}

/// First physical address behind the kernel's image.
pub(crate) fn kernel_image_end() -> u64 {
    &raw const kernel_end as u64 - KERNEL_BASE
}

/// Page frames out of the heap, which lies in the direct map.
struct Frames;

impl Frames {
    fn page(&self) -> Option<PhysicalAddress> {
        // SAFETY: the layout is not empty.
        let page = unsafe { alloc_zeroed(PAGE_LAYOUT) };
        (!page.is_null()).then(|| PhysicalAddress((page as u64 - DIRECT_MAP) as usize))
    }

    /// # Safety
    /// The frame came from [`Self::page`] and nothing maps or uses it any more.
    unsafe fn free(&self, frame: PhysicalAddress) {
        let page = direct(frame.0 as u64) as *mut u8;
        // SAFETY: the caller's contract.
        unsafe { dealloc(page, PAGE_LAYOUT) };
    }
}

impl Translation<El1Attributes> for Frames {
    fn allocate_table(&mut self) -> (NonNull<PageTable<El1Attributes>>, PhysicalAddress) {
        let frame = self.page().unwrap_or_else(|| handle_alloc_error(PAGE_LAYOUT));
        (self.physical_to_virtual(frame), frame)
    }

    unsafe fn deallocate_table(&mut self, table: NonNull<PageTable<El1Attributes>>) {
        let frame = PhysicalAddress((table.as_ptr() as u64 - DIRECT_MAP) as usize);
        // SAFETY: the caller's contract: it is one of ours.
        unsafe { self.free(frame) };
    }

    fn physical_to_virtual(&self, physical: PhysicalAddress) -> NonNull<PageTable<El1Attributes>> {
        NonNull::new(direct(physical.0 as u64) as *mut _).expect("the direct map is not at 0")
    }
}

type Tables = Mapping<Frames, El1And0>;

/// Memory types by their index in MAIR_EL1, which [`boot`] sets.
const DEVICE: El1Attributes = El1Attributes::ATTRIBUTE_INDEX_0;
const NORMAL: El1Attributes =
    El1Attributes::ATTRIBUTE_INDEX_1.union(El1Attributes::INNER_SHAREABLE);
const PRESENT: El1Attributes = El1Attributes::VALID.union(El1Attributes::ACCESSED);
/// What protections differ in.
const PROTECTION: El1Attributes =
    El1Attributes::READ_ONLY.union(El1Attributes::UXN).union(El1Attributes::PXN);

fn protected(protection: Protection) -> El1Attributes {
    match protection {
        Protection::Execute => El1Attributes::READ_ONLY | El1Attributes::UXN,
        Protection::Read => El1Attributes::READ_ONLY | El1Attributes::UXN | El1Attributes::PXN,
        Protection::Write => El1Attributes::UXN | El1Attributes::PXN,
    }
}

fn region(start: u64, size: u64) -> MemoryRegion {
    MemoryRegion::new(start as usize, (start + size) as usize)
}

/// Builds the kernel's tables and switches to them. Once, by the first CPU, with the heap ready.
///
/// # Panics
/// When the heap cannot hold the tables.
pub(super) fn init() {
    let mut tables = Tables::with_asid_and_va_range(Frames, 0, 0, El1And0, VaRange::Upper);
    let mut map = |start: u64, size: u64, physical: u64, flags: El1Attributes| {
        let physical = PhysicalAddress(physical as usize);
        tables
            .map_range(&region(start, size), physical, PRESENT | flags, Constraints::empty())
            .unwrap_or_else(|error| panic!("the kernel's tables: {error}"));
    };
    let data = protected(Protection::Write);
    map(direct(0), RAM, 0, DEVICE | data);
    map(direct(RAM), BOOT_MAP_SIZE - RAM, RAM, NORMAL | data);
    let edges = [
        (&raw const kernel_text_start, &raw const kernel_text_end, Protection::Execute),
        (&raw const kernel_text_end, &raw const kernel_rodata_end, Protection::Read),
        (&raw const kernel_rodata_end, &raw const kernel_end, Protection::Write),
    ];
    for (start, end, protection) in edges {
        let (start, end) = (start as u64, end as u64);
        map(start, end - start, start - KERNEL_BASE, NORMAL | protected(protection));
    }
    dsb(ISH);
    let root = tables.root_address().0 as u64;
    tables.mark_active();
    *TABLES.lock() = Some(tables);
    // SAFETY: the tables map everything in use: the image, and the heap in the direct map.
    unsafe { boot::replace_tables(root) };
}

/// Takes the boot tables of the lower half out of use on the CPU that runs this, which runs in the
/// kernel's tables.
pub(super) fn leave_lower_half() {
    TCR_EL1.modify(TCR_EL1::EPD0::DisableTTBR0Walks);
    isb(SY);
    flush_own();
}

/// Makes the CPU that runs this forget its translations.
fn flush_own() {
    // SAFETY: translations are looked up again.
    unsafe { asm!("tlbi vmalle1", options(nostack, preserves_flags)) };
    dsb(NSH);
    isb(SY);
}

/// Physical address of the kernel's root table.
pub(super) fn root() -> u64 {
    with_tables(|tables| tables.root_address().0 as u64)
}

/// There were not enough page frames.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutOfMemory;

/// Maps fresh zeroed pages, readable and writable, at an address that has none.
pub(crate) fn map(address: u64, pages: usize) -> Result<(), OutOfMemory> {
    let flags = PRESENT | NORMAL | protected(Protection::Write);
    for index in 0..pages {
        let Some(frame) = Frames.page() else {
            // SAFETY: these pages were mapped by this very call and nobody has used them.
            unsafe { unmap(address, index) };
            return Err(OutOfMemory);
        };
        let page = region(address + (index * PAGE) as u64, PAGE as u64);
        with_tables(|tables| tables.map_range(&page, frame, flags, single_pages()))
            .unwrap_or_else(|error| panic!("mapping {page}: {error}"));
    }
    Ok(())
}

/// Every page has a frame of its own.
fn single_pages() -> Constraints {
    Constraints::NO_BLOCK_MAPPINGS | Constraints::NO_CONTIGUOUS_HINT
}

/// Changes the protection of pages that [`map`] mapped. What is executable then is what all CPUs fetch,
/// once they have synchronised: see [`flush_everywhere`].
pub(crate) fn protect(address: u64, pages: usize, protection: Protection) {
    let size = pages * PAGE;
    if protection == Protection::Execute {
        // SAFETY: the pages are mapped.
        unsafe { machine::after_store(address as usize, size) };
    }
    let set = protected(protection);
    modify(address, size, set, PROTECTION.difference(set));
}

/// Makes pages of text writable as well as executable: 13.0-RELEASE has modules' text so.
pub(super) fn allow_stores(address: u64, pages: usize) {
    modify(address, pages * PAGE, El1Attributes::empty(), El1Attributes::READ_ONLY);
    flush_everywhere();
}

/// Sets and clears attributes of pages that are mapped.
fn modify(address: u64, size: usize, set: El1Attributes, clear: El1Attributes) {
    with_tables(|tables| {
        tables.modify_range(&region(address, size as u64), &|_, descriptor| {
            if descriptor.is_table() {
                return Ok(());
            }
            descriptor.modify_flags(set, clear)
        })
    })
    .unwrap_or_else(|error| panic!("protecting {address:#x}: {error}"));
}

/// Unmaps pages that [`map`] mapped, and frees them once no CPU can reach them any more.
///
/// # Safety
/// Nobody uses the memory any more.
pub(crate) unsafe fn unmap(address: u64, pages: usize) {
    let mut frames = Vec::with_capacity(pages);
    for index in 0..pages {
        let at = address + (index * PAGE) as u64;
        let frame = physical(at).expect("pages to unmap are mapped");
        frames.push(PhysicalAddress(frame as usize));
        // The crate has all CPUs forget the translation before it returns.
        let unmapped = with_tables(|tables| {
            let (page, none) = (region(at, PAGE as u64), El1Attributes::empty());
            tables.map_range(&page, PhysicalAddress(0), none, single_pages())
        });
        unmapped.unwrap_or_else(|error| panic!("unmapping {at:#x}: {error}"));
    }
    for frame in frames {
        // SAFETY: the frame is unmapped, no CPU holds a translation, and the caller is done with it.
        unsafe { Frames.free(frame) };
    }
}

/// Makes every CPU see the tables, and the code that they map, as they are now. Translations have been
/// seen to by whoever changed the tables; what a CPU has fetched ahead is dropped by itself only.
pub(crate) fn flush_everywhere() {
    crate::smp::synchronise();
}

/// The physical address of what the kernel reads at an address. Any context.
pub(crate) fn physical(address: u64) -> Option<u64> {
    let enabled = cpu::interrupts_off();
    // SAFETY: asks for a translation; the answer is in PAR_EL1 until the next one asks, which cannot be
    // in between with interrupts off.
    unsafe { asm!("at s1e1r, {}", in(reg) address, options(nostack, preserves_flags)) };
    let answer = answer(address);
    cpu::restore_interrupts(enabled);
    answer
}

/// An address by which the memory at `address` can be written to: itself, or its place in the direct
/// map. Any context.
pub(super) fn writable(address: u64) -> Option<u64> {
    let enabled = cpu::interrupts_off();
    // SAFETY: as in `physical`.
    unsafe { asm!("at s1e1w, {}", in(reg) address, options(nostack, preserves_flags)) };
    let itself = answer(address).map(|_| address);
    cpu::restore_interrupts(enabled);
    itself.or_else(|| {
        let physical = physical(address)?;
        (RAM..BOOT_MAP_SIZE).contains(&physical).then(|| direct(physical))
    })
}

/// What PAR_EL1 says about an address.
fn answer(address: u64) -> Option<u64> {
    isb(SY);
    let result = PAR_EL1.get();
    let failed = result & 1 != 0;
    (!failed).then_some(result & 0x000f_ffff_ffff_f000 | address & (PAGE as u64 - 1))
}

fn with_tables<R>(work: impl FnOnce(&mut Tables) -> R) -> R {
    work(TABLES.lock().as_mut().expect("paging is set up"))
}
