//! The heap: all RAM behind the kernel, in the direct map.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicUsize, Ordering};

use talc::base::Talc;
use talc::base::binning::DefaultBinning;
use talc::source::Manual;

use crate::lock::IrqMutex;

struct Heap;

static HEAP: IrqMutex<Talc<Manual, DefaultBinning>> = IrqMutex::new(Talc::new(Manual));

#[global_allocator]
static ALLOCATOR: Heap = Heap;

const LAST_RESORT: usize = 256 << 10;

/// The memory from which a panicking CPU allocates, because a stopped CPU may hold the heap's lock. It is never freed.
struct LastResort {
    bytes: UnsafeCell<[u8; LAST_RESORT]>,
    used: AtomicUsize,
}

// SAFETY: every byte is given out once, by an atomic addition.
unsafe impl Sync for LastResort {}

static LAST: LastResort =
    LastResort { bytes: UnsafeCell::new([0; LAST_RESORT]), used: AtomicUsize::new(0) };

impl LastResort {
    fn allocate(&self, layout: Layout) -> *mut u8 {
        let start = self.bytes.get().cast::<u8>();
        let padded = layout.size() + layout.align();
        let used = self.used.fetch_add(padded, Ordering::Relaxed);
        if used + padded > LAST_RESORT {
            return core::ptr::null_mut();
        }
        let at = start.wrapping_add(used);
        at.wrapping_add(at.align_offset(layout.align()))
    }

    fn owns(&self, pointer: *mut u8) -> bool {
        let start = self.bytes.get().cast::<u8>();
        (start..start.wrapping_add(LAST_RESORT)).contains(&pointer)
    }
}

// SAFETY: talc keeps GlobalAlloc's contract; the last resort gives out each byte once.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if crate::panic::panicked() {
            return LAST.allocate(layout);
        }
        // SAFETY: `alloc` is never called with a size of 0.
        unsafe { HEAP.lock().allocate(layout) }
            .map_or(core::ptr::null_mut(), core::ptr::NonNull::as_ptr)
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if crate::panic::panicked() || LAST.owns(pointer) {
            return;
        }
        // SAFETY: `alloc` returned the pointer for this layout.
        unsafe { HEAP.lock().deallocate(pointer, layout) }
    }
}

/// Sets the memory of the heap.
///
/// # Panics
/// When it is too small to be a heap.
///
/// # Safety
/// Nothing else uses the bytes from `start` on, and they stay mapped.
pub(crate) unsafe fn init(start: *mut u8, size: usize) {
    // SAFETY: nothing else uses the bytes, and they stay mapped.
    let claimed = unsafe { HEAP.lock().claim(start, size) };
    assert!(claimed.is_some(), "too little memory");
}
