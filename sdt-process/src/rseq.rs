//! A mark of a thread that the kernel removes when it delivers a signal to the thread. Reading and setting it takes no system call.
//!
//! # How it works
//!
//! The mark uses restartable sequences (`rseq(2)`, Linux 4.18). glibc registers an area of each thread with the kernel, since version 2.35.
//! A field of this area, `rseq_cs`, points to the description of a critical section: a range of code, and an address for aborts. The
//! documentation of the field (`include/uapi/linux/rseq.h`) says when the kernel sets it to null: when it aborts the section, and when it
//! preempts the thread, or delivers a signal to it, outside of the range. The kernel does so before the handler of the signal runs.
//!
//! The mark is the address of [`SECTION`], whose range no thread ever executes. So the kernel never aborts it. It only removes the mark at
//! the next signal or preemption.
//!
//! # Which kernels
//!
//! | kernel | removes the mark |
//! |---|---|
//! | 4.18 to 6.18 | at each preemption and each signal |
//! | from 6.19 | the same, or only if an interrupt or a fault has entered the kernel, and not if a system call has. This depends on the version, and on the size of the area |
//!
//! A mark that remains when a system call raises a signal is useless. So [`prepare`] lets a thread sleep with a mark a few times, and marks
//! are used only if the kernel has removed each of them. Threads have no marks if the C library is not glibc, is older, is linked statically,
//! or does not register areas (`GLIBC_TUNABLES=glibc.pthread.rseq=0`).
//!
//! # Why this is safe
//!
//! - **The kernel ends a process for an invalid description.** It reads the description when it preempts a marked thread. `SECTION` passes
//!   all checks of all versions: version and flags are 0, the range and the address for aborts are in this program, the address is outside
//!   of the range, and the signature with which glibc registers is in front of it. The memory is constant and stays mapped: the image that
//!   contains this crate is never unloaded after `start` ([`Image::keep`](crate::image::Image::keep)).
//! - **Other code uses the field for its own sections.** Such code sets the field in the instruction in front of its section, so a function
//!   call or a jump to a site is never in between. A breakpoint within a section raises a signal, for which the kernel first aborts the
//!   section and sets the field to null. So a mark never replaces the pointer of a section that is being executed. If other code replaces
//!   the mark, the thread has no mark.
//! - **A program that takes back the registration.** The kernel sets the number of the CPU in the area to a negative one, and ignores the area
//!   from then on. A mark counts only in an area with a number of a CPU.
//! - **`fork`.** The child has the registration, the area, and the mark of the thread that forked, and is in the same context. A program that
//!   `exec` starts has an area of its own.
//! - **A thread that ends.** A new thread may get its memory. When the C library registers the area again, the kernel removes the mark.
//! - **`vfork`.** The child uses the area of its parent, but the kernel does not know it there, so signals of the child do not remove marks.
//!   Only a child that installs another alternate stack before it executes a program could notice; POSIX forbids this.

use std::ffi::CStr;
use std::sync::atomic::{AtomicI32, AtomicIsize, AtomicPtr, AtomicU32, Ordering};
use std::time::Duration;

use crate::own_stack::thread_pointer;

/// `struct rseq_cs`: the description of a critical section.
#[repr(C, align(32))]
struct Section {
    version: u32,
    flags: u32,
    /// The start of the range.
    start: &'static u32,
    /// The size of the range in bytes.
    length: u64,
    /// The address at which an aborted section continues.
    abort: &'static u32,
}

/// The number in front of each address for aborts, with which glibc registers areas (`RSEQ_SIG`).
#[cfg(target_arch = "x86_64")]
const SIGNATURE: u32 = 0x5305_3053;
#[cfg(target_arch = "aarch64")]
const SIGNATURE: u32 = 0xd428_bc00;
#[cfg(target_arch = "riscv64")]
const SIGNATURE: u32 = 0xf140_1073;

/// The addresses of [`SECTION`]: the signature, the address for aborts, and the range. They are data, so no thread executes them.
static ADDRESSES: [u32; 3] = [SIGNATURE, 0, 0];

/// The description of which the address is the mark.
static SECTION: Section =
    Section { version: 0, flags: 0, start: &ADDRESSES[2], length: 4, abort: &ADDRESSES[1] };

/// The first fields of `struct rseq`, the area of a thread. The kernel changes them while the thread is not running.
#[repr(C)]
struct Area {
    cpu_start: AtomicU32,
    /// The number of the CPU; negative if the area is not registered.
    cpu: AtomicI32,
    section: AtomicPtr<Section>,
}

/// The distance from the thread pointer to the area; 0 if marks are not used.
static OFFSET: AtomicIsize = AtomicIsize::new(0);

/// The time in which a thread sleeps to find out whether the kernel removes its mark.
const SLEEP: Duration = Duration::from_micros(50);
/// The number of sleeps. A kernel that does not remove marks at system calls may remove one: if it preempts the thread before it sleeps.
const SLEEPS: usize = 4;

impl Area {
    /// Returns the area of this thread at this distance from its thread pointer.
    ///
    /// # Safety
    /// The C library has this distance in `__rseq_offset`, and does not have 0 in `__rseq_size`. The result is not used in another thread.
    #[inline(always)]
    unsafe fn of_this_thread(offset: isize) -> &'static Self {
        let address = thread_pointer().wrapping_add_signed(offset);
        // SAFETY: glibc keeps the area at this distance in each thread until the thread ends. It is aligned to 32 bytes, and its fields are
        // atomic.
        unsafe { &*std::ptr::with_exposed_provenance(address) }
    }

    /// Returns whether the kernel uses the area. If the program takes back the registration, a mark remains in the area.
    #[inline(always)]
    fn is_registered(&self) -> bool {
        self.cpu.load(Ordering::Relaxed) >= 0
    }

    #[inline(always)]
    fn is_marked(&self) -> bool {
        std::ptr::eq(self.section.load(Ordering::Relaxed), &raw const SECTION)
            && self.is_registered()
    }

    fn mark(&self) {
        if self.is_registered() {
            self.section.store((&raw const SECTION).cast_mut(), Ordering::Relaxed);
        }
    }
}

/// Returns the area of this thread, if marks are used.
#[inline(always)]
fn area() -> Option<&'static Area> {
    let offset = OFFSET.load(Ordering::Relaxed);
    // SAFETY: `prepare` has stored the distance of the C library, which registers areas. The callers use the area at once.
    (offset != 0).then(|| unsafe { Area::of_this_thread(offset) })
}

/// Returns whether this thread has a mark: it has called [`mark`], and the kernel has delivered no signal to it since. Probe context.
#[inline(always)]
pub(crate) fn is_marked() -> bool {
    area().is_some_and(Area::is_marked)
}

/// Marks this thread, if marks are used. Probe context.
pub(crate) fn mark() {
    if let Some(area) = area() {
        area.mark();
    }
}

/// Finds out whether marks can be used, and uses them from then on. Takes a fraction of a millisecond. Not called in probe context.
pub(crate) fn prepare() {
    let Some(offset) = offset() else { return };
    // SAFETY: `offset` returns the distance of the C library, which registers areas. The area is used in this thread.
    let area = unsafe { Area::of_this_thread(offset) };
    let is_removed = |_| {
        area.mark();
        let was_marked = area.is_marked();
        std::thread::sleep(SLEEP);
        was_marked && !area.is_marked()
    };
    if (0..SLEEPS).all(is_removed) {
        OFFSET.store(offset, Ordering::Relaxed);
    }
}

/// Returns the distance from the thread pointer to the area, if the C library registers areas.
fn offset() -> Option<isize> {
    let size = variable::<u32>(c"__rseq_size")?;
    let offset = variable::<isize>(c"__rseq_offset")?;
    // SAFETY: glibc defines the variables with these types, and changes them only before the program runs.
    let (size, offset) = unsafe { (*size, *offset) };
    (size != 0).then_some(offset)
}

/// Returns the address of a variable of the C library.
fn variable<T>(name: &CStr) -> Option<*const T> {
    // SAFETY: the name is a string.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!address.is_null()).then_some(address.cast_const().cast())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    const _: () = assert!(size_of::<Section>() == 32 && size_of::<Area>() == 16);

    /// Returns whether marks are used on this machine.
    fn is_used() -> bool {
        std::thread::spawn(prepare).join().unwrap();
        area().is_some()
    }

    /// The kernel checks the same (`rseq_get_rseq_cs`, up to Linux 6.18), and ends the process if a check fails.
    #[test]
    fn the_description_is_valid() {
        let address = |of: &u32| std::ptr::from_ref(of).addr() as u64;
        let Section { version, flags, start, length, abort } = SECTION;
        let (start, abort) = (address(start), address(abort));
        assert_eq!((version, flags), (0, 0));
        assert!(length != 0 && start.checked_add(length).is_some());
        assert!(abort.wrapping_sub(start) >= length, "outside of the range");
        assert_eq!(abort - 4, address(&ADDRESSES[0]), "behind the signature");
    }

    #[test]
    fn a_signal_removes_the_mark_and_ordinary_code_does_not() {
        static WAS_MARKED: AtomicBool = AtomicBool::new(true);
        extern "C" fn handler(_: libc::c_int) {
            WAS_MARKED.store(is_marked(), Ordering::Relaxed);
            // The handler leaves a mark of its own, which remains when it returns.
            mark();
        }
        if !is_used() {
            eprintln!("not tested: the C library or the kernel does not support marks");
            return;
        }
        // SAFETY: the handler is async-signal-safe, and no other test uses the signal.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as extern "C" fn(libc::c_int) as usize;
            assert_eq!(libc::sigaction(libc::SIGWINCH, &action, std::ptr::null_mut()), 0);
        }
        for _ in 0..100 {
            // The thread may be preempted in between, so several attempts are made.
            let remains = || {
                mark();
                is_marked()
            };
            assert!((0..100).any(|_| remains()));
            WAS_MARKED.store(true, Ordering::Relaxed);
            mark();
            // SAFETY: the signal has a handler.
            unsafe { libc::raise(libc::SIGWINCH) };
            assert!(!WAS_MARKED.load(Ordering::Relaxed));
        }
    }

    #[test]
    fn a_mark_that_the_kernel_will_not_remove_does_not_count() {
        if !is_used() {
            return;
        }
        std::thread::spawn(|| {
            let area = area().unwrap();
            const UNREGISTER: libc::c_int = 1;
            let size = variable::<u32>(c"__rseq_size").unwrap();
            // SAFETY: glibc has registered the area with this size, or with 32 bytes before it had other sizes.
            let is_unregistered = unsafe {
                [*size, 32].into_iter().any(|size| {
                    let area = std::ptr::from_ref(area);
                    libc::syscall(libc::SYS_rseq, area, size, UNREGISTER, SIGNATURE) == 0
                })
            };
            assert!(is_unregistered);
            area.section.store((&raw const SECTION).cast_mut(), Ordering::Relaxed);
            assert!(!is_marked());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn each_thread_has_a_mark_of_its_own() {
        if !is_used() {
            return;
        }
        // New threads get the memory of threads that ended with a mark.
        for _ in 0..100 {
            std::thread::spawn(|| {
                assert!(!is_marked());
                mark();
            })
            .join()
            .unwrap();
        }
    }
}
