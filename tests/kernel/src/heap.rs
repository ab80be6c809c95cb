//! The heap: the RAM after the kernel, addressed through the direct map.

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

// SAFETY: `allocate` returns each byte at most once, because it advances `used` atomically.
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

// SAFETY: talc meets the contract of `GlobalAlloc`. `LastResort` allocates each byte at most once.
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
/// If the memory is too small.
///
/// # Safety
/// No other code uses the `size` bytes at `start`, and they stay mapped.
pub(crate) unsafe fn init(start: *mut u8, size: usize) {
    // SAFETY: nothing else uses the bytes, and they stay mapped.
    let claimed = unsafe { HEAP.lock().claim(start, size) };
    assert!(claimed.is_some(), "too little memory");
}
