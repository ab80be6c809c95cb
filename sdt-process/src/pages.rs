//! Gives pages of the framework's memory back to the system.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use crate::memory::PAGE_SIZE;
use crate::sandbox;

/// The least number of bytes for which a system call is made.
const LEAST: usize = 64 << 10;

/// Gives back the pages that are entirely in this memory, whose contents are not needed. The system provides them again, as zeroes,
/// when they are next used. Does nothing if a filter might end the process for the system call.
pub(crate) fn give_back(memory: NonNull<[u8]>) {
    let page = PAGE_SIZE.load(Ordering::Acquire);
    if memory.len() < LEAST || page == 0 || sandbox::may_end_the_process() {
        return;
    }
    let start = memory.cast::<u8>().as_ptr();
    let before = start.align_offset(page);
    let length = memory.len().saturating_sub(before) / page * page;
    if length > 0 {
        // SAFETY: the pages are within the framework's memory, private and without a file. The framework does not need their contents, and
        // nothing else uses them. An error changes nothing.
        unsafe { libc::madvise(start.wrapping_add(before).cast(), length, libc::MADV_DONTNEED) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_pages_are_given_back_and_the_rest_stays() {
        crate::memory::prepare().unwrap();
        let page = PAGE_SIZE.load(Ordering::Acquire);
        let mut memory = vec![7_u8; LEAST + 4 * page];
        let (start, length) = (&raw mut memory[1], LEAST + 3 * page);
        give_back(NonNull::slice_from_raw_parts(NonNull::new(start).unwrap(), length));
        let memory = std::hint::black_box(memory);
        assert_eq!((memory[0], *memory.last().unwrap()), (7, 7));
        let zeroes = memory.iter().filter(|byte| **byte == 0).count();
        assert!(zeroes.is_multiple_of(page) && zeroes >= length - 2 * page, "{zeroes}");
        let small = vec![7_u8; LEAST - 1];
        let all = NonNull::slice_from_raw_parts(NonNull::from(&small[0]), small.len());
        give_back(all);
        assert!(std::hint::black_box(small).iter().all(|byte| *byte == 7));
    }
}
