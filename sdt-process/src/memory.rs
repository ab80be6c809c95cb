//! This process's memory at addresses of which nothing is known.
//!
//! The kernel copies it (`process_vm_readv(2)` of the process itself, which no policy about tracing others applies to), and
//! answers with an error where it cannot: no signal is raised, no page of a device is read, and no read-only page is written
//! to. Protection keys (pkeys(7)) are a thread's, and do not apply to it. Plain system calls, so all of it is safe in signal handlers; `errno` is the caller's to keep.
//!
//! # Nothing is waited for
//!
//! A page that is not in memory has to be fetched: from a disk, from a server (NFS, FUSE), or from a thread of this very
//! process (`userfaultfd(2)`), which may be the one in which the probe fired. So `/proc/self/pagemap` is asked first
//! whether the process has the page mapped, and the copy is not attempted if not. `mincore(2)` does not tell: it says yes to
//! every page of a file that the user could not write to, and to shared pages that a userfaultfd holds back.
//!
//! In between another thread can discard the page, or the system evict it: then the copy fetches it again. Where that
//! takes the thread that waits, it would wait for itself; the moment is that between two system calls of one thread.
//!
//! Constants of the program are fetched when tracing starts, so that they can be read before the program has used them.

use std::cell::Cell;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::image::Image;
use crate::kept::PAGES;

/// Bytes of a page; 0 until [`prepare`] has been called.
static PAGE_SIZE: AtomicUsize = AtomicUsize::new(0);

/// Bits of an entry of `/proc/self/pagemap` (Linux, `Documentation/admin-guide/mm/pagemap.rst`).
const PRESENT: u64 = 1 << 63;
const WRITE_PROTECTED: u64 = 1 << 57;
/// Entries that are read at once.
const ENTRIES: usize = 16;

thread_local! {
    // The page that was in memory when this hit asked last; no page is at 0. Neither allocated nor dropped, so signal
    // handlers can use it.
    static SEEN: Cell<usize> = const { Cell::new(0) };
}

/// Finds out how large pages are, opens the map of them, and fetches the program's constants. Before the first hit, and not in
/// probe context.
pub(crate) fn prepare() -> std::io::Result<()> {
    // SAFETY: asks for a number.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    PAGE_SIZE.store(usize::try_from(size).unwrap_or(4096), Ordering::Release);
    PAGES.open()?;
    Image::here().data().iter().for_each(fetch);
    Ok(())
}

/// A hit begins, which knows of no page yet. Probe context.
pub(crate) fn forget() {
    SEEN.set(0);
}

/// Has the kernel map all pages that these addresses are in, as if each were read. What cannot be read is left out.
fn fetch(range: &Range<usize>) {
    let page = PAGE_SIZE.load(Ordering::Acquire).max(1);
    let mut byte = [0; 1];
    for address in (range.start & !(page - 1)..range.end).step_by(page) {
        copy(address.max(range.start), &mut byte);
    }
}

/// Whether this process has all pages of a range mapped, none of them with a forbidden bit. A page that this hit has asked about
/// already is not asked about again.
fn are_mapped(address: usize, length: usize, forbidden: u64) -> bool {
    let size = PAGE_SIZE.load(Ordering::Acquire);
    let Some(last) = address.checked_add(length - 1) else { return false };
    // In a child that was made behind the back of the C library, the map is its parent's.
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

fn piece(address: usize, length: usize) -> libc::iovec {
    libc::iovec { iov_base: std::ptr::without_provenance_mut::<c_void>(address), iov_len: length }
}

/// Copies memory, all of `into`, whatever has to be fetched for it.
fn copy(address: usize, into: &mut [u8]) -> bool {
    let to = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let from = piece(address, into.len());
    // SAFETY: the kernel writes to `into`, no more than its length.
    let copied = unsafe { libc::process_vm_readv(libc::getpid(), &to, 1, &from, 1, 0) };
    usize::try_from(copied) == Ok(into.len())
}

/// Copies memory, all of `into`. Returns `false` if some of it cannot be read or is not in memory.
pub(crate) fn read(address: u64, into: &mut [u8]) -> bool {
    let Ok(address) = usize::try_from(address) else { return false };
    into.is_empty() || (are_mapped(address, into.len(), 0) && copy(address, into))
}

/// Copies all of `from` to memory. Returns `false` if some of it cannot be written, or is not in memory; then some of it may
/// have been written.
///
/// # Safety
/// The owner of the memory expects it.
pub(crate) unsafe fn write(from: &[u8], address: u64) -> bool {
    let Ok(address) = usize::try_from(address) else { return false };
    if from.is_empty() {
        return true;
    }
    // Who writes to a page that a userfaultfd protects waits for its thread.
    if !are_mapped(address, from.len(), WRITE_PROTECTED) {
        return false;
    }
    let to = piece(address, from.len());
    let from = libc::iovec { iov_base: from.as_ptr().cast_mut().cast(), iov_len: from.len() };
    // SAFETY: the kernel reads `from`; the other by contract.
    let copied = unsafe { libc::process_vm_writev(libc::getpid(), &from, 1, &to, 1, 0) };
    usize::try_from(copied) == Ok(from.iov_len)
}

/// The word at an address.
pub(crate) fn word(address: usize) -> Option<usize> {
    let mut bytes = [0; size_of::<usize>()];
    read(address as u64, &mut bytes).then(|| usize::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_is_said() {
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
    fn half_of_it_is_not_all_of_it() {
        const PAGE: usize = 65536;
        prepare().unwrap();
        // SAFETY: pages of the test's own, of which the second cannot be read.
        let pages = unsafe {
            let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let pages = libc::mmap(std::ptr::null_mut(), 2 * PAGE, libc::PROT_READ, kind, -1, 0);
            assert_ne!(pages, libc::MAP_FAILED);
            assert_eq!(libc::mprotect(pages.add(PAGE), PAGE, libc::PROT_NONE), 0);
            // In memory from here on.
            pages.cast::<u8>().add(PAGE - 1).read_volatile();
            pages.addr()
        };
        let end = (pages + PAGE) as u64;
        assert!(read(end - 4, &mut [1; 4]));
        assert!(!read(end - 4, &mut [1; 5]) && !read(end, &mut [1; 1]));
        // SAFETY: nobody lives there.
        assert!(!unsafe { write(&[1], end - 4) }, "it can be read, and not be written");
        let mut mine = [0; 3];
        // SAFETY: the array expects it.
        assert!(unsafe { write(b"abc", (&raw mut mine).addr() as u64) });
        assert_eq!(std::hint::black_box(mine), *b"abc");
    }

    /// A page that the process has not touched has to be fetched, whoever by: it is not read until the process has.
    #[test]
    fn pages_that_are_not_in_memory_are_not_fetched() {
        prepare().unwrap();
        // SAFETY: pages of the test's own.
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
            assert!(!read(at(0), &mut vec![0; 1 << 20]), "not all of them are");
            std::ptr::write_bytes(pages, 1, 1 << 20);
            assert!(read(at(1), &mut vec![0; (1 << 20) - 1]));
            assert_eq!(libc::munmap(pages.cast(), 1 << 20), 0);
            forget();
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
