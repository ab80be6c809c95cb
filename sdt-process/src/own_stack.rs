//! The part of this thread's stack that can be read by loads.
//!
//! A stack pointer alone proves nothing: programs switch stacks for coroutines, signal handlers run on memory of any kind, and the memory
//! next to such a stack can be unmapped at any time, even if the kernel has merged it with the thread's stack into one mapping. So the
//! limits come from the C library and from the kernel, once for each thread (`PROCMAP_QUERY` of `/proc/self/maps`, Linux 6.11):
//!
//! | thread | proof that everything from the stack pointer up to the limit is mapped while the thread runs |
//! |---|---|
//! | one that the C library has made | the block that the library has reserved for the thread contains the stack pointer ([`stack_block`]), and one mapping without a file contains everything from there to the limit: the thread's descriptor (`pthread_self`), or the end of the block |
//! | the first | one mapping contains the stack pointer and the random bytes that the kernel has put above the stack (`AT_RANDOM`), which are the limit |
//! | any other stack, an alternate signal stack, a stack in a file, and any stack before Linux 6.11 | none: the stack is read like any memory ([`memory`](crate::memory)) |
//!
//! If a program unmaps or protects memory of its own running stack, such a load raises SIGSEGV. No other program is
//! affected.
//!
//! A load above the stack pointer never waits longer than the thread itself may have to: compiled code loads from and stores to its frames
//! at any time, so a thread whose stack is filled by a userfaultfd cannot be the one that fills it. Pages below the stack pointer are not
//! read.

use std::arch::asm;
use std::cell::Cell;

use crate::proc_file::MAPS;
use crate::{hit, stack_block};

/// The limits of a stack, as a thread has found them.
#[derive(Clone, Copy)]
struct Limits {
    /// The lowest address that was in the mapping.
    low: usize,
    /// The end of the part that can be read by loads.
    end: usize,
    /// The number of queries that this thread may still make.
    queries: u8,
}

thread_local! {
    /// The limits of this thread's stack. Neither allocated nor dropped, so signal handlers can use it.
    static LIMITS: Cell<Limits> = const { Cell::new(Limits { low: 0, end: 0, queries: 16 }) };
}

/// Returns the stack pointer of the function that this is inlined into.
#[inline(always)]
pub(crate) fn stack_pointer() -> usize {
    let pointer;
    // SAFETY: copies the stack pointer and touches nothing else.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!("mov {}, rsp", out(reg) pointer, options(nomem, nostack, preserves_flags));
        #[cfg(target_arch = "aarch64")]
        asm!("mov {}, sp", out(reg) pointer, options(nomem, nostack, preserves_flags));
        #[cfg(target_arch = "riscv64")]
        asm!("mv {}, sp", out(reg) pointer, options(nomem, nostack, preserves_flags));
    }
    pointer
}

/// Returns the thread pointer of this thread, from which the C library finds its thread-local variables.
#[inline(always)]
pub(crate) fn thread_pointer() -> usize {
    let pointer;
    // SAFETY: copies the thread pointer and touches nothing else. On x86_64, the word to which it points holds its own address.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!("mov {}, fs:0", out(reg) pointer, options(readonly, nostack, preserves_flags));
        #[cfg(target_arch = "aarch64")]
        asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nomem, nostack, preserves_flags));
        #[cfg(target_arch = "riscv64")]
        asm!("mv {}, tp", out(reg) pointer, options(nomem, nostack, preserves_flags));
    }
    pointer
}

/// Returns whether all these bytes are above the stack pointer and proved to be this thread's stack, so that loads can read them until the
/// caller returns. Probe context.
pub(crate) fn contains(address: usize, length: usize) -> bool {
    let here = stack_pointer();
    let Some(past) = address.checked_add(length) else { return false };
    // An alternate stack is memory of any kind, so the kernel cannot prove anything.
    let is_alternate = || hit::current().is_some_and(|hit| hit.alternate_end.is_some());
    here <= address && !is_alternate() && end(here).is_some_and(|end| past <= end)
}

/// Returns the end of the part of this thread's stack that begins at `here`, the stack pointer or that of the code that a signal handler
/// has interrupted, or `None` if nothing is proved. Probe context.
pub(crate) fn end(here: usize) -> Option<usize> {
    let limits = LIMITS.get();
    if (limits.low..limits.end).contains(&here) {
        return Some(limits.end);
    }
    // The number of queries is limited, for threads that switch stacks often, or whose stack grows often.
    let queries = limits.queries.checked_sub(1)?;
    LIMITS.set(Limits { queries, ..limits });
    let (low, end) = query(here)?;
    LIMITS.set(Limits { low, end, queries });
    Some(end)
}

/// Asks the kernel for the limits of the stack that `here` is on.
fn query(here: usize) -> Option<(usize, usize)> {
    // SAFETY: returns a number that never changes.
    let random = unsafe { libc::getauxval(libc::AT_RANDOM) } as usize;
    let stack = mapping(here)?;
    if here < random && random < stack.end {
        return Some((stack.start, random));
    }
    let block = stack_block::of_this_thread().filter(|block| block.contains(&here))?;
    let end = block.end.min(stack_block::descriptor());
    let is_own = here < end && end <= stack.end && !stack.has_file;
    is_own.then(|| (stack.start.max(block.start), end))
}

/// A mapping of this process.
#[derive(Clone, Copy)]
pub(crate) struct Mapping {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) has_file: bool,
}

/// `struct procmap_query` (Linux, `include/uapi/linux/fs.h`).
#[repr(C)]
#[derive(Default)]
struct ProcmapQuery {
    size: u64,
    query_flags: u64,
    query_addr: u64,
    vma_start: u64,
    vma_end: u64,
    vma_flags: u64,
    vma_page_size: u64,
    vma_offset: u64,
    inode: u64,
    dev_major: u32,
    dev_minor: u32,
    vma_name_size: u32,
    build_id_size: u32,
    vma_name_addr: u64,
    build_id_addr: u64,
}

/// `PROCMAP_QUERY`: `_IOWR('f', 17, struct procmap_query)`.
const PROCMAP_QUERY: u32 = 0xc068_6611;

/// Returns the mapping that contains an address; `None` before Linux 6.11, too. Probe context.
pub(crate) fn mapping(address: usize) -> Option<Mapping> {
    let size = size_of::<ProcmapQuery>() as u64;
    let mut query = ProcmapQuery { size, query_addr: address as u64, ..Default::default() };
    // In a child that was made by `_Fork` or the bare system call, the file still describes its parent.
    if !MAPS.is_of_this_process() {
        return None;
    }
    // SAFETY: the kernel writes `size` bytes to the query, which asks for no name and no build id.
    let is_known = unsafe { MAPS.ioctl(PROCMAP_QUERY, (&raw mut query).cast()) };
    let [start, end] = [query.vma_start as usize, query.vma_end as usize];
    is_known.then_some(Mapping { start, end, has_file: query.inode != 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    const _: () = assert!(size_of::<ProcmapQuery>() == 0x68);

    /// Returns whether the kernel answers at all.
    fn is_supported() -> bool {
        MAPS.open().unwrap();
        std::thread::spawn(stack_block::prepare).join().unwrap();
        mapping(is_supported as *const () as usize).is_some()
    }

    #[test]
    fn a_thread_has_a_stack_with_an_end() {
        if !is_supported() {
            eprintln!("not tested: PROCMAP_QUERY needs Linux 6.11");
            return;
        }
        let limits = std::thread::Builder::new().stack_size(1 << 20).spawn(|| {
            let here = stack_pointer();
            let found = end(here);
            assert_eq!(end(here), found, "the second time without a query");
            (here, found)
        });
        let (here, found) = limits.unwrap().join().unwrap();
        let end = found.unwrap();
        assert!(here < end && end - here < 2 << 20, "{here:#x} {end:#x}");
    }

    #[test]
    fn only_memory_above_the_stack_pointer_is_the_stack() {
        let _ = is_supported();
        let heap = Box::new([0_u8; 16]);
        let below = stack_pointer() - 4096;
        assert!(!contains(below, 16) && !contains(usize::MAX - 7, 16));
        assert!(!contains(heap.as_ptr().addr(), 16));
        let above = stack_pointer() + 64;
        if end(stack_pointer()).is_some() {
            assert!(contains(above, 16) && !contains(above, 1 << 30));
        }
    }

    /// A stack that is not the thread's, as one of a coroutine, has no proved end.
    #[test]
    fn other_memory_is_not_a_stack() {
        let _ = is_supported();
        let memory = Box::new([0_u8; 256]);
        for _ in 0..20 {
            assert_eq!(end(memory.as_ptr().addr()), None);
        }
        assert_eq!(LIMITS.get().queries, 0);
    }
}
