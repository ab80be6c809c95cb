//! Measures the greatest amount of memory that a piece of code uses: counts all memory of this program, by thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

thread_local! {
    /// The bytes that the thread has allocated and not freed since [`peak`] began, and the maximum.
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

fn note(bytes: isize) {
    // A thread that ends counts no more.
    let _ = LIVE.try_with(|live| {
        live.set(live.get() + bytes);
        let _ = MOST.try_with(|most| most.set(most.get().max(live.get())));
    });
}

// SAFETY: all calls go to the system allocator. Counting allocates nothing, since both cells are constants without destructors.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size() as isize);
        // SAFETY: the caller's contract is that of the system allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size() as isize);
        // SAFETY: the caller's contract is that of the system allocator.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        note(-(layout.size() as isize));
        // SAFETY: the caller's contract is that of the system allocator, which has allocated it.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size as isize - layout.size() as isize);
        // SAFETY: the caller's contract is that of the system allocator, which has allocated it.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// Runs a function, and returns the greatest number of bytes that it had allocated at a time, in its thread.
pub(crate) fn peak(function: impl FnOnce()) -> usize {
    LIVE.set(0);
    MOST.set(0);
    function();
    MOST.get().try_into().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_is_counted() {
        let most = peak(|| {
            let large = std::hint::black_box(vec![1_u8; 1 << 20]);
            drop(large);
            std::hint::black_box(vec![1_u8; 1 << 10]);
        });
        assert!((1 << 20..2 << 20).contains(&most), "{most}");
    }
}
