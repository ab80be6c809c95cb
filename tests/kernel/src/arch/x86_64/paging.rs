//! Page tables: the direct map, the kernel's own image, stacks, and modules.

use alloc::alloc::{alloc_zeroed, dealloc};
use core::alloc::Layout;
use core::sync::atomic::{AtomicU64, Ordering};

use spin::Mutex;
use x86_64::registers::control::{Cr3, Cr3Flags};
use x86_64::structures::paging::mapper::{Mapper, OffsetPageTable};
use x86_64::structures::paging::{
    FrameAllocator, Page, PageTable, PageTableFlags, PhysFrame, Size2MiB, Size4KiB,
};
use x86_64::{PhysAddr, VirtAddr};

use stand_in_base::image::{PAGE, Protection};

/// Where the kernel and its modules live: the top 2 GiB, so that 32-bit sign-extended relocations
/// reach both (FreeBSD's KERNBASE).
pub(crate) const KERNEL_BASE: u64 = 0xffff_ffff_8000_0000;
/// Where physical memory is mapped, data only.
pub(crate) const DIRECT_MAP: u64 = 0xffff_8000_0000_0000;
/// Physical memory in the direct map: RAM that is used, and the interrupt controllers.
pub(crate) const DIRECT_MAP_SIZE: u64 = 4 << 30;
/// Physical memory that the boot tables reach, and the heap lies in.
pub(crate) const BOOT_MAP_SIZE: u64 = 1 << 30;

const PAGE_LAYOUT: Layout = match Layout::from_size_align(PAGE, PAGE) {
    Ok(layout) => layout,
    Err(_) => panic!("a page is a valid layout"),
};

unsafe extern "C" {
    static kernel_text_start: u8;
    static kernel_text_end: u8;
    static kernel_rodata_end: u8;
    static kernel_end: u8;
    static boot_pml4: u8;
}

/// The kernel's tables, once [`init`] has built them.
static TABLES: Mutex<Option<OffsetPageTable<'static>>> = Mutex::new(None);
static ROOT: AtomicU64 = AtomicU64::new(0);

/// Where the direct map shows a physical address.
pub(crate) const fn direct(physical: u64) -> u64 {
    DIRECT_MAP + physical
}

/// First physical address behind the kernel's image.
pub(crate) fn kernel_image_end() -> u64 {
    &raw const kernel_end as u64 - KERNEL_BASE
}

/// Physical address of the tables that also map low memory where it is.
pub(super) fn boot_root() -> u64 {
    &raw const boot_pml4 as u64 - KERNEL_BASE
}

/// Page frames out of the heap, which lies in the direct map.
struct Frames;

impl Frames {
    fn page(&mut self) -> Option<PhysFrame> {
        // SAFETY: the layout is not empty.
        let page = unsafe { alloc_zeroed(PAGE_LAYOUT) };
        (!page.is_null())
            .then(|| PhysFrame::containing_address(PhysAddr::new(page as u64 - DIRECT_MAP)))
    }

    /// # Safety
    /// The frame came from [`Self::page`] and nothing maps or uses it any more.
    unsafe fn free(&mut self, frame: PhysFrame) {
        let page = direct(frame.start_address().as_u64()) as *mut u8;
        // SAFETY: the caller's contract.
        unsafe { dealloc(page, PAGE_LAYOUT) };
    }
}

// SAFETY: each frame comes from the heap and is given out once.
unsafe impl FrameAllocator<Size4KiB> for Frames {
    fn allocate_frame(&mut self) -> Option<PhysFrame> {
        self.page()
    }
}

fn flags(protection: Protection) -> PageTableFlags {
    let base = PageTableFlags::PRESENT | PageTableFlags::GLOBAL;
    match protection {
        Protection::Execute => base,
        Protection::Read => base | PageTableFlags::NO_EXECUTE,
        Protection::Write => base | PageTableFlags::NO_EXECUTE | PageTableFlags::WRITABLE,
    }
}

fn page_of(address: u64) -> Page<Size4KiB> {
    Page::containing_address(VirtAddr::new(address))
}

/// Builds the kernel's tables and switches to them. Once, by the first CPU, with the heap ready.
///
/// # Panics
/// When the heap cannot hold the tables.
pub(super) fn init() {
    let root = Frames.page().expect("no memory for page tables");
    let root_table = direct(root.start_address().as_u64()) as *mut PageTable;
    // SAFETY: the frame is zeroed, ours, and mapped at DIRECT_MAP like all frames.
    let mut tables = unsafe { OffsetPageTable::new(&mut *root_table, VirtAddr::new(DIRECT_MAP)) };
    for physical in (0..DIRECT_MAP_SIZE).step_by(2 << 20) {
        let page = Page::<Size2MiB>::containing_address(VirtAddr::new(direct(physical)));
        let frame = PhysFrame::containing_address(PhysAddr::new(physical));
        // SAFETY: the direct map is raw memory; what lies in it is used through references only
        // by its owners.
        unsafe { tables.map_to(page, frame, flags(Protection::Write), &mut Frames) }
            .expect("direct map")
            .ignore();
    }
    let edges = [
        (&raw const kernel_text_start, &raw const kernel_text_end, Protection::Execute),
        (&raw const kernel_text_end, &raw const kernel_rodata_end, Protection::Read),
        (&raw const kernel_rodata_end, &raw const kernel_end, Protection::Write),
    ];
    for (start, end, protection) in edges {
        for address in (start as u64..end as u64).step_by(PAGE) {
            let frame = PhysFrame::containing_address(PhysAddr::new(address - KERNEL_BASE));
            // SAFETY: the image stays where it was, with the protection its linker script means.
            unsafe { tables.map_to(page_of(address), frame, flags(protection), &mut Frames) }
                .expect("kernel image")
                .ignore();
        }
    }
    ROOT.store(root.start_address().as_u64(), Ordering::Release);
    *TABLES.lock() = Some(tables);
    activate();
}

/// Switches the CPU that runs this to the kernel's tables.
pub(super) fn activate() {
    let root = PhysFrame::containing_address(PhysAddr::new(ROOT.load(Ordering::Acquire)));
    // SAFETY: the tables map everything in use: the image, the heap, the stacks.
    unsafe { Cr3::write(root, Cr3Flags::empty()) };
}

/// Physical address of the kernel's tables.
pub(super) fn root() -> u64 {
    ROOT.load(Ordering::Acquire)
}

/// The physical address of what the kernel reads at an address. Any context: takes no lock, and finds what the tables have been
/// or are while somebody changes them.
pub(crate) fn physical(address: u64) -> Option<u64> {
    const LEVELS: u32 = 4;
    VirtAddr::try_new(address).ok()?;
    let mut table = root();
    for level in (0..LEVELS).rev() {
        if table >= DIRECT_MAP_SIZE {
            return None;
        }
        let shift = 12 + 9 * level;
        let entry = direct(table) + (address >> shift & 511) * 8;
        // SAFETY: the tables are in the direct map; one that is not used any more is still memory.
        let entry = unsafe { (entry as *const u64).read_volatile() };
        let flags = PageTableFlags::from_bits_truncate(entry);
        if !flags.contains(PageTableFlags::PRESENT) {
            return None;
        }
        let target = entry & 0x000f_ffff_ffff_f000;
        if level == 0 || flags.contains(PageTableFlags::HUGE_PAGE) {
            let within = (1 << shift) - 1;
            return Some(target & !within | address & within);
        }
        table = target;
    }
    None
}

/// There were not enough page frames.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutOfMemory;

/// Maps fresh zeroed pages, readable and writable, at an address that has none.
pub(crate) fn map(address: u64, pages: usize) -> Result<(), OutOfMemory> {
    for index in 0..pages {
        let at = address + (index * PAGE) as u64;
        let mapped = with_tables(|tables| {
            let frame = Frames.page().ok_or(OutOfMemory)?;
            // SAFETY: the frame is fresh, so nothing else refers to it.
            match unsafe {
                tables.map_to(page_of(at), frame, flags(Protection::Write), &mut Frames)
            } {
                Ok(flush) => {
                    flush.flush();
                    Ok(())
                }
                Err(_) => {
                    // SAFETY: the frame was not mapped.
                    unsafe { Frames.free(frame) };
                    Err(OutOfMemory)
                }
            }
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
        let page = page_of(address + (index * PAGE) as u64);
        with_tables(|tables| {
            // SAFETY: the page holds what the caller put there for this protection.
            unsafe { tables.update_flags(page, flags(protection)) }
                .expect("a page that is not mapped cannot be protected")
                .flush();
        });
    }
}

/// Lets everybody store to text that [`protect`] has protected.
pub(crate) fn allow_stores(address: u64, pages: usize) {
    for index in 0..pages {
        let page = page_of(address + (index * PAGE) as u64);
        let writable = flags(Protection::Execute) | PageTableFlags::WRITABLE;
        with_tables(|tables| {
            // SAFETY: it can be executed as before.
            unsafe { tables.update_flags(page, writable) }.expect("text is mapped").flush();
        });
    }
}

/// Unmaps pages that [`map`] mapped, and frees them once no CPU can reach them any more.
///
/// # Safety
/// Nobody uses the memory any more.
pub(crate) unsafe fn unmap(address: u64, pages: usize) {
    let mut frames = alloc::vec::Vec::with_capacity(pages);
    for index in 0..pages {
        let page = page_of(address + (index * PAGE) as u64);
        with_tables(|tables| {
            let (frame, flush) = tables.unmap(page).expect("pages to unmap are mapped");
            flush.flush();
            frames.push(frame);
        });
    }
    flush_everywhere();
    for frame in frames {
        // SAFETY: the frame is unmapped, no CPU holds a translation, and the caller is done with it.
        unsafe { Frames.free(frame) };
    }
}

/// Makes every CPU forget its translations, those of global pages too.
pub(crate) fn flush_everywhere() {
    crate::smp::rendezvous(&|_| flush_all());
}

fn flush_all() {
    use x86_64::registers::control::{Cr4, Cr4Flags};
    let cr4 = Cr4::read();
    // SAFETY: taking PGE away and giving it back flushes everything and changes nothing else. No
    // interrupt comes in between: rendezvous functions run with interrupts off.
    unsafe {
        Cr4::write(cr4 - Cr4Flags::PAGE_GLOBAL);
        Cr4::write(cr4);
    }
}

fn with_tables<R>(work: impl FnOnce(&mut OffsetPageTable<'static>) -> R) -> R {
    work(TABLES.lock().as_mut().expect("paging is set up"))
}
