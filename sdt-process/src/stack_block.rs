//! The memory that the C library has reserved for a thread's stack.
//!
//! `pthread_getattr_np(3)` returns it, but takes locks and allocates memory, which a hit must not do. glibc and musl both keep it in the
//! descriptor of the thread (`pthread_self`), in two neighbouring words: an end of the block, and its size. In glibc, the block contains the
//! guard pages, whose size is the next word. The worker thread asks for its own block and searches its own descriptor for these words. In
//! all other threads they are at the same place.

use std::ops::Range;
use std::sync::OnceLock;

use crate::raw_load;

/// The size of a word in bytes.
const WORD: usize = size_of::<usize>();
/// The part of the descriptor in bytes that is searched if the descriptor is not in the block, as in musl.
const SEARCHED: usize = 256;

/// The place of the two words in a descriptor.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Place {
    offset: usize,
    /// Whether the first word is the upper end of the block (musl) and not the lower one (glibc).
    is_upper: bool,
}

/// The place of the words, after [`prepare`] has searched for it. `None` inside if the descriptor has no such words.
static PLACE: OnceLock<Option<Place>> = OnceLock::new();

/// Finds the place of the words. Called in a thread that the C library has made, and not in probe context.
pub(crate) fn prepare() {
    PLACE.get_or_init(find);
}

/// Returns the block of this thread, with its guard pages if they belong to it. `None` for the first thread, for a thread that the C library has not made, and before [`prepare`] has
/// been called. Probe context.
pub(crate) fn of_this_thread() -> Option<Range<usize>> {
    // SAFETY: `pthread_self` returns the descriptor of a thread that runs.
    unsafe { of(descriptor()) }
}

/// Returns the block of the thread with this descriptor, as [`of_this_thread`] does.
///
/// # Safety
/// The thread has not ended.
unsafe fn of(descriptor: usize) -> Option<Range<usize>> {
    let place = (*PLACE.get()?)?;
    let words = descriptor + place.offset;
    // SAFETY: `find` has read words at the same place in the descriptor of another thread, and all descriptors have the same size.
    let [end, size] = [0, WORD].map(|at| unsafe { raw_load::word(words + at) });
    let start = if place.is_upper { end.checked_sub(size)? } else { end };
    // For the first thread, glibc notes a block from address 0 to the stack, and musl an empty one.
    let is_reserved = |block: &Range<usize>| block.start != 0 && !block.is_empty();
    Some(start..start.checked_add(size)?).filter(is_reserved)
}

/// Returns the address of this thread's descriptor. Probe context.
pub(crate) fn descriptor() -> usize {
    // SAFETY: `pthread_self` takes no arguments and changes nothing.
    unsafe { libc::pthread_self() as usize }
}

/// Searches the descriptor of this thread for the two words.
fn find() -> Option<Place> {
    let (block, here) = (queried()?, descriptor());
    let length = if block.contains(&here) { block.end - here } else { SEARCHED };
    (0..length.saturating_sub(2 * WORD)).step_by(WORD).find_map(|offset| {
        // SAFETY: the words are below the end of the block, which is mapped while this thread runs, or in the first bytes of the descriptor,
        // behind which musl has a kilobyte of variables.
        let [end, size, guard] =
            [0, WORD, 2 * WORD].map(|at| unsafe { raw_load::word(here + offset + at) });
        let is_upper = end == block.end && size == block.len();
        let is_lower = end.checked_add(size) == Some(block.end)
            && (end == block.start || end.checked_add(guard) == Some(block.start));
        (is_upper || is_lower).then_some(Place { offset, is_upper })
    })
}

/// Asks the C library for the block of this thread, without guard pages.
fn queried() -> Option<Range<usize>> {
    // SAFETY: `pthread_getattr_np` initialises the attributes before they are used, and they are destroyed once.
    unsafe {
        let mut attributes = std::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return None;
        }
        let (mut start, mut size) = (std::ptr::null_mut(), 0);
        let result = libc::pthread_attr_getstack(attributes.as_ptr(), &mut start, &mut size);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        let start = start.addr();
        (result == 0 && size != 0).then(|| start..start.saturating_add(size))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// The descriptor of the first thread, in which the C library runs constructors.
    static FIRST: AtomicUsize = AtomicUsize::new(0);

    // SAFETY: `.init_array` holds pointers to functions, which the C library calls with the arguments of `main`; a function may
    // ignore them.
    #[unsafe(link_section = ".init_array")]
    #[used]
    static NOTE_FIRST: extern "C" fn() = {
        extern "C" fn note() {
            FIRST.store(descriptor(), Ordering::Relaxed);
        }
        note
    };

    /// The stack of the first thread grows, so no block is reserved for it. glibc stores a block that contains almost
    /// all memory, and so all stacks of coroutines.
    #[test]
    fn the_first_thread_has_no_block() {
        std::thread::spawn(prepare).join().unwrap();
        let first = FIRST.load(Ordering::Relaxed);
        assert!(first != 0 && first != descriptor(), "tests run in other threads");
        // SAFETY: the first thread waits for the tests.
        assert_eq!(unsafe { of(first) }, None);
    }

    #[test]
    fn the_descriptor_has_the_block_that_the_library_returns() {
        std::thread::spawn(prepare).join().unwrap();
        assert!(PLACE.get().unwrap().is_some(), "this C library is not known");
        for pages in [8, 3, 100, 8] {
            let thread = std::thread::Builder::new().stack_size(pages << 16).spawn(|| {
                let block = of_this_thread().unwrap();
                let usable = queried().unwrap();
                assert!(block.start <= usable.start && block.end == usable.end, "{block:x?}");
                assert!(usable.start - block.start <= 1 << 16, "only guard pages are more");
                assert!(usable.contains(&crate::own_stack::stack_pointer()));
            });
            thread.unwrap().join().unwrap();
        }
    }
}
