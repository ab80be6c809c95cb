//! Reads and writes of this process's memory at any address that a program in D computes.
//!
//! The kernel copies the memory: `process_vm_readv(2)` and `process_vm_writev(2)` of the process itself, to which no ptrace policy applies.
//! They return an error for a bad address: no signal is raised, no memory of a device is read, and no read-only page is written. The
//! protection keys of a thread (pkeys(7)) do not apply to them. They are system calls, so they work in signal handlers. The caller
//! preserves `errno`.
//!
//! # No read waits
//!
//! A page that is not in memory has to be fetched: from a disk, from a server (NFS, FUSE), or from a thread of this process
//! (`userfaultfd(2)`), which may be the thread that hits the probe. So `/proc/self/pagemap` tells first whether the page is in memory, and
//! if not, nothing is copied. `mincore(2)` cannot tell: it returns `true` for each page of a file that the user may not write to, and for
//! shared pages that a userfaultfd holds back.
//!
//! Between the two system calls another thread can discard the page, or the kernel can evict it. Then the copy fetches it again.
//!
//! `start` fetches the constants of the program, so that programs in D can read them before the program has used them.

use std::cell::Cell;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::image::Image;
use crate::proc_file::PAGES;

/// The size of a page in bytes; 0 until [`prepare`] has been called.
static PAGE_SIZE: AtomicUsize = AtomicUsize::new(0);

/// Bits of an entry of `/proc/self/pagemap` (Linux, `Documentation/admin-guide/mm/pagemap.rst`).
const PRESENT: u64 = 1 << 63;
const WRITE_PROTECTED: u64 = 1 << 57;
/// The number of entries that are read at once.
const ENTRIES: usize = 16;

thread_local! {
    /// The page that this hit found in memory last; 0 for none. Neither allocated nor dropped, so signal handlers can use it.
    static SEEN: Cell<usize> = const { Cell::new(0) };
}

/// Reads the page size, opens the map of pages, and fetches the program's constants. Called before the first hit, and not in probe
/// context.
pub(crate) fn prepare() -> std::io::Result<()> {
    // SAFETY: returns a number and changes nothing.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    PAGE_SIZE.store(usize::try_from(size).unwrap_or(4096), Ordering::Release);
    PAGES.open()?;
    Image::here().data().iter().for_each(fetch);
    Ok(())
}

/// Forgets the pages that an earlier hit found in memory. Probe context.
pub(crate) fn begin_hit() {
    SEEN.set(0);
}

/// Makes the kernel fetch all pages of a range, except those that cannot be read.
fn fetch(range: &Range<usize>) {
    let page = PAGE_SIZE.load(Ordering::Acquire).max(1);
    let mut byte = [0; 1];
    for address in (range.start & !(page - 1)..range.end).step_by(page) {
        copy(address.max(range.start), &mut byte);
    }
}

/// Returns whether all pages of a range are in memory, none of them with a forbidden bit. A page that this hit found last is not looked up
/// again.
fn are_mapped(address: usize, length: usize, forbidden: u64) -> bool {
    let size = PAGE_SIZE.load(Ordering::Acquire);
    let Some(last) = address.checked_add(length - 1) else { return false };
    // In a child that was made by `_Fork` or the bare system call, the file still describes its parent.
    if size == 0 || !PAGES.is_of_this_process() {
        return false;
    }
    let (first, last) = (address / size, last / size);
    if forbidden == 0 && first == last && SEEN.get() == first {
        return true;
    }
    let mut page = first;
    while page <= last {
        let mut entries = [0; ENTRIES * size_of::<u64>()];
        let count = ENTRIES.min(last - page + 1);
        let Some(into) = entries.get_mut(..count * size_of::<u64>()) else { return false };
        let wanted = into.len();
        if PAGES.read_at(into, (page * size_of::<u64>()) as u64).ok() != Some(wanted) {
            return false;
        }
        let mut entries = into.as_chunks().0.iter().map(|entry| u64::from_ne_bytes(*entry));
        if !entries.all(|entry| entry & PRESENT != 0 && entry & forbidden == 0) {
            return false;
        }
        page += count;
    }
    SEEN.set(last);
    true
}

/// Returns the description of a range for the kernel.
fn range(address: usize, length: usize) -> libc::iovec {
    libc::iovec { iov_base: std::ptr::without_provenance_mut::<c_void>(address), iov_len: length }
}

/// Fills `into` from an address, and fetches pages if necessary. Returns `false` if some of it cannot be read.
fn copy(address: usize, into: &mut [u8]) -> bool {
    let to = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let from = range(address, into.len());
    // SAFETY: the kernel writes at most `into.len()` bytes to `into`, and checks the other address.
    let copied = unsafe { libc::process_vm_readv(libc::getpid(), &to, 1, &from, 1, 0) };
    usize::try_from(copied) == Ok(into.len())
}

/// Fills `into` from an address. Returns `false` if some of it cannot be read or is not in memory. Probe context.
pub(crate) fn read(address: u64, into: &mut [u8]) -> bool {
    let Ok(address) = usize::try_from(address) else { return false };
    into.is_empty() || (are_mapped(address, into.len(), 0) && copy(address, into))
}

/// Copies all of `from` to an address. Returns `false` if some of it cannot be written or is not in memory; then some of it may have been
/// written. Probe context.
///
/// # Safety
/// The program tolerates that this memory changes: no Rust reference to it forbids the change.
pub(crate) unsafe fn write(from: &[u8], address: u64) -> bool {
    let Ok(address) = usize::try_from(address) else { return false };
    if from.is_empty() {
        return true;
    }
    // A write to a page that a userfaultfd write-protects would wait for the thread that handles it.
    if !are_mapped(address, from.len(), WRITE_PROTECTED) {
        return false;
    }
    let to = range(address, from.len());
    let from = libc::iovec { iov_base: from.as_ptr().cast_mut().cast(), iov_len: from.len() };
    // SAFETY: the kernel reads `from` and checks the other address; the caller guarantees that the memory may change.
    let copied = unsafe { libc::process_vm_writev(libc::getpid(), &from, 1, &to, 1, 0) };
    usize::try_from(copied) == Ok(from.iov_len)
}

/// Returns the word at an address.
pub(crate) fn word(address: usize) -> Option<usize> {
    let mut bytes = [0; size_of::<usize>()];
    read(address as u64, &mut bytes).then(|| usize::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_address_is_not_read() {
        prepare().unwrap();
        let text = *b"readable";
        let at = text.as_ptr().addr() as u64;
        let mut into = [0; 8];
        assert!(read(at, &mut into));
        assert_eq!(into, text);
        for nowhere in [0, 8, u64::MAX - 3, 0xffff_8000_0000_0000, 0x1234_5678_9abc_def0] {
            assert!(!read(nowhere, &mut into), "{nowhere:#x}");
            assert_eq!(word(nowhere as usize), None);
        }
    }

    #[test]
    fn a_range_is_read_as_a_whole_or_not_at_all() {
        const PAGE: usize = 65536;
        prepare().unwrap();
        // SAFETY: maps new pages, and makes the second unreadable.
        let pages = unsafe {
            let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let pages = libc::mmap(std::ptr::null_mut(), 2 * PAGE, libc::PROT_READ, kind, -1, 0);
            assert_ne!(pages, libc::MAP_FAILED);
            assert_eq!(libc::mprotect(pages.add(PAGE), PAGE, libc::PROT_NONE), 0);
            // Fetches the page.
            pages.cast::<u8>().add(PAGE - 1).read_volatile();
            pages.addr()
        };
        let end = (pages + PAGE) as u64;
        assert!(read(end - 4, &mut [1; 4]));
        assert!(!read(end - 4, &mut [1; 5]) && !read(end, &mut [1; 1]));
        // SAFETY: no Rust value is in this page.
        assert!(!unsafe { write(&[1], end - 4) }, "the page is read-only");
        let mut array = [0; 3];
        // SAFETY: `array` is not borrowed.
        assert!(unsafe { write(b"abc", (&raw mut array).addr() as u64) });
        assert_eq!(std::hint::black_box(array), *b"abc");
    }

    /// A page that the process has not used yet would have to be fetched, so it is not read.
    #[test]
    fn pages_that_are_not_in_memory_are_not_fetched() {
        prepare().unwrap();
        // SAFETY: uses only pages that it has mapped.
        unsafe {
            let how = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let all = libc::PROT_READ | libc::PROT_WRITE;
            let pages = libc::mmap(std::ptr::null_mut(), 1 << 20, all, how, -1, 0).cast::<u8>();
            let at = |offset| (pages.addr() + offset) as u64;
            assert!(!read(at(0), &mut [0; 8]) && !write(&[1], at(0)));
            pages.write_volatile(7);
            let mut into = [0; 8];
            assert!(read(at(0), &mut into) && into[0] == 7);
            assert!(write(&[8], at(0)) && pages.read_volatile() == 8);
            assert!(!read(at(0), &mut vec![0; 1 << 20]), "only the first page is in memory");
            std::ptr::write_bytes(pages, 1, 1 << 20);
            assert!(read(at(1), &mut vec![0; (1 << 20) - 1]));
            assert_eq!(libc::munmap(pages.cast(), 1 << 20), 0);
            begin_hit();
            assert!(!read(at(0), &mut into));
        }
    }

    #[test]
    fn constants_are_fetched_before_they_are_used() {
        static LARGE: [u8; 1 << 18] = [7; 1 << 18];
        prepare().unwrap();
        let start = (&raw const LARGE).addr() as u64;
        for offset in (0..LARGE.len() as u64).step_by(4096) {
            let mut byte = [0];
            assert!(read(start + offset, &mut byte) && byte == [7], "{offset:#x}");
        }
    }
}
