//! The numbers of this process and thread, without a system call for each hit.
//!
//! A `fork` makes cached numbers wrong. Handlers of `pthread_atfork` do not run in a child that was made by `_Fork` or the bare system
//! call. So the cache is in a page that the kernel fills with zeros in every child (`MADV_WIPEONFORK`, madvise(2), Linux 4.14). If the page
//! cannot be mapped, nothing is cached.
//!
//! Each process that fills the page takes a new *generation*, a number that none of its ancestors has had. A thread's number is
//! cached with the generation, as thread-local variables are copied into a child. The process number cannot replace the
//! generation: in a pid namespace of its own, a child may have the number of its parent.
//!
//! The child of a `vfork` uses the memory of its parent until it executes a program. If it hits a probe, `pid` and `tid` are those of the
//! parent.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// The cache of a process.
struct Cached {
    /// The number of the process; 0 until it is known.
    process: AtomicU32,
    /// The generation; 0 until it is known.
    generation: AtomicU32,
}

/// The page with the cache; null until [`prepare`].
static CACHED: AtomicPtr<Cached> = AtomicPtr::new(ptr::null_mut());

/// The last generation that this process or an ancestor of it took.
static GENERATIONS: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// The number of this thread, and the generation in which it was read. Neither allocated nor dropped, so signal handlers can use it.
    static THREAD: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
}

/// Maps the page of the cache, once. Called before the first hit.
pub(crate) fn prepare() {
    if !CACHED.load(Ordering::Acquire).is_null() {
        return;
    }
    let (how, all) = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: maps new memory. The kernel rounds the size up to a page.
    let page = unsafe { libc::mmap(ptr::null_mut(), size_of::<Cached>(), all, how, -1, 0) };
    if page == libc::MAP_FAILED {
        return;
    }
    // SAFETY: concerns the page that was just mapped.
    if unsafe { libc::madvise(page, size_of::<Cached>(), libc::MADV_WIPEONFORK) } == 0 {
        CACHED.store(page.cast(), Ordering::Release);
    } else {
        // SAFETY: unmaps the page that was just mapped; nothing refers to it.
        unsafe { libc::munmap(page, size_of::<Cached>()) };
    }
}

/// Returns the cache after filling in the numbers of this process; `None` if the page was not mapped.
fn cached() -> Option<&'static Cached> {
    // SAFETY: the pointer is null, or refers to the page that `prepare` mapped, which is never unmapped. Every bit
    // pattern is a valid `Cached`, so a page of zeros is one, too.
    let cached = unsafe { CACHED.load(Ordering::Acquire).as_ref() }?;
    if cached.generation.load(Ordering::Acquire) == 0 {
        cached.process.store(system_process(), Ordering::Relaxed);
        let generation = GENERATIONS.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        // If two threads fill the page at the same time, each may read the same thread's number again. The result is
        // the same.
        cached.generation.store(generation.max(1), Ordering::Release);
    }
    Some(cached)
}

/// Returns the number of this process. Probe context.
pub(crate) fn process() -> u32 {
    cached().map_or_else(system_process, |cached| cached.process.load(Ordering::Relaxed))
}

/// Returns a number for the memory of this process, which differs from those of its ancestors. Probe context.
pub(crate) fn generation() -> u32 {
    cached().map_or_else(system_process, |cached| cached.generation.load(Ordering::Acquire))
}

/// Returns the number of this thread. Probe context.
pub(crate) fn thread() -> u32 {
    let Some(cached) = cached() else { return system_thread() };
    let generation = cached.generation.load(Ordering::Acquire);
    let (thread, of) = THREAD.get();
    if of == generation {
        return thread;
    }
    let thread = system_thread();
    THREAD.set((thread, generation));
    thread
}

/// Returns whether the thread-local variables belong to this thread. `false` if another thread uses the same ones and
/// has stored its number there. Probe context.
pub(crate) fn is_own() -> bool {
    thread() == system_thread()
}

fn system_process() -> u32 {
    // SAFETY: returns a number and changes nothing.
    unsafe { libc::getpid() }.unsigned_abs()
}

fn system_thread() -> u32 {
    // SAFETY: returns a number and changes nothing.
    unsafe { libc::gettid() }.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `check` in a child that was made by the bare system call, and returns whether it returned `true`.
    fn in_child(check: fn() -> bool) -> bool {
        // SAFETY: the child calls only async-signal-safe functions and ends by `_exit`.
        unsafe {
            let child = libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) as libc::pid_t;
            if child == 0 {
                libc::_exit(i32::from(!check()));
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
            status == 0
        }
    }

    #[test]
    fn numbers_are_those_of_the_system() {
        prepare();
        for _ in 0..2 {
            assert_eq!((process(), thread()), (system_process(), system_thread()));
        }
        let other = || (process(), thread()) == (system_process(), system_thread());
        assert!(std::thread::spawn(other).join().unwrap());
    }

    #[test]
    fn a_child_has_its_own_numbers_and_generation() {
        static BEFORE: AtomicU32 = AtomicU32::new(0);
        prepare();
        BEFORE.store(generation(), Ordering::Relaxed);
        let _ = (process(), thread());
        assert!(in_child(|| (process(), thread()) == (system_process(), system_thread())));
        assert!(in_child(|| generation() != BEFORE.load(Ordering::Relaxed)));
        assert!(in_child(|| generation() == generation()));
        assert_eq!(generation(), BEFORE.load(Ordering::Relaxed), "the parent's stays");
    }
}
