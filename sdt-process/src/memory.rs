//! This process's memory at addresses of which nothing is known.
//!
//! The kernel copies it (`process_vm_readv(2)`, of the process itself, which no policy about tracing others has a say in), and
//! answers with an error where it cannot: no signal is raised, no page of a device's is read, and nothing is written that the
//! process could not write itself. Plain system calls, so all of it is safe in signal handlers; `errno` is the caller's to keep.

use std::ffi::c_void;

fn piece(address: usize, length: usize) -> libc::iovec {
    libc::iovec { iov_base: std::ptr::without_provenance_mut::<c_void>(address), iov_len: length }
}

/// Copies memory, all of `into`, or says that some of it cannot be read.
pub(crate) fn read(address: u64, into: &mut [u8]) -> bool {
    let Ok(address) = usize::try_from(address) else { return false };
    let to = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let from = piece(address, into.len());
    // SAFETY: the kernel writes to `into`, no more than its length.
    let copied = unsafe { libc::process_vm_readv(libc::getpid(), &to, 1, &from, 1, 0) };
    usize::try_from(copied) == Ok(into.len())
}

/// Copies all of `from` to memory, or says that some of it cannot be written; then some of it may have been.
///
/// # Safety
/// Whoever lives there expects it.
pub(crate) unsafe fn write(from: &[u8], address: u64) -> bool {
    let Ok(address) = usize::try_from(address) else { return false };
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
        // SAFETY: pages of the test's own, of which the second cannot be read.
        let pages = unsafe {
            let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let pages = libc::mmap(std::ptr::null_mut(), 2 * PAGE, libc::PROT_READ, kind, -1, 0);
            assert_ne!(pages, libc::MAP_FAILED);
            assert_eq!(libc::mprotect(pages.add(PAGE), PAGE, libc::PROT_NONE), 0);
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
}
