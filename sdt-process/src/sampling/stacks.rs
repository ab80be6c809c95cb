//! Stacks on which samples are recorded.
//!
//! A sample can interrupt a thread anywhere, also where its stack is nearly full, and the alternate stacks that programs install, among
//! them Rust's standard library, are too small to record a hit. So only the signal frame and a few words are on the program's stack.

use std::arch::asm;
use std::ffi::c_void;
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// The size of a stack in bytes. The largest use is in `stack::NEEDED`.
const SIZE: usize = 128 << 10;

/// The stacks, and which of them are in use.
#[derive(Debug)]
pub(super) struct Stacks {
    start: usize,
    /// The distance between two stacks: the size, and a guard below.
    stride: usize,
    taken: Box<[AtomicBool]>,
}

/// A stack in use, which is free again when this is dropped.
pub(super) struct Stack<'s> {
    end: usize,
    taken: &'s AtomicBool,
}

impl Stacks {
    /// Maps this many stacks. The system provides memory when they are first used.
    ///
    /// # Errors
    /// There is no address space left.
    pub(super) fn new(count: usize) -> io::Result<Self> {
        // SAFETY: returns a number and changes nothing.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(SIZE);
        let stride = SIZE + page;
        let how = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
        let nowhere = ptr::null_mut();
        // SAFETY: maps new memory.
        let start = unsafe { libc::mmap(nowhere, count * stride, libc::PROT_NONE, how, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let stacks = Self {
            start: start.expose_provenance(),
            stride,
            taken: (0..count).map(|_| AtomicBool::new(false)).collect(),
        };
        for index in 0..count {
            let low = ptr::with_exposed_provenance_mut::<c_void>(stacks.end(index) - SIZE);
            // SAFETY: the pages are of the mapping above, and nothing uses them yet.
            if unsafe { libc::mprotect(low, SIZE, libc::PROT_READ | libc::PROT_WRITE) } != 0 {
                let error = io::Error::last_os_error();
                // SAFETY: nothing uses the mapping.
                unsafe { libc::munmap(start, count * stride) };
                return Err(error);
            }
        }
        Ok(stacks)
    }

    fn end(&self, index: usize) -> usize {
        self.start + (index + 1) * self.stride
    }

    /// Takes a free stack. Async-signal-safe.
    pub(super) fn take(&self) -> Option<Stack<'_>> {
        self.taken.iter().enumerate().find_map(|(index, taken)| {
            let is_free = !taken.swap(true, Ordering::Acquire);
            is_free.then(|| Stack { end: self.end(index), taken })
        })
    }

    /// Frees the stacks of threads that do not exist in the child of a `fork`.
    pub(super) fn release_all(&self) {
        self.taken.iter().for_each(|taken| taken.store(false, Ordering::Relaxed));
    }
}

impl Stack<'_> {
    /// Returns the end of the stack: the first address above it.
    pub(super) const fn end(&self) -> usize {
        self.end
    }

    /// Calls a function on this stack. The function does not unwind.
    pub(super) fn call<F: FnOnce()>(self, function: F) {
        extern "C" fn run<F: FnOnce()>(function: *mut c_void) {
            // SAFETY: `call` passes its option, which nothing else uses meanwhile.
            let function = unsafe { &mut *function.cast::<Option<F>>() };
            if let Some(function) = function.take() {
                function();
            }
        }
        let mut function = Some(function);
        // SAFETY: the stack is mapped and exclusively this thread's: `Stacks::take` has set `taken`. `run` gets what it expects.
        unsafe { call_on(self.end, run::<F>, (&raw mut function).cast()) };
    }
}

impl Drop for Stack<'_> {
    fn drop(&mut self) {
        self.taken.store(false, Ordering::Release);
    }
}

/// Calls a function with the stack pointer at `end`, and restores the stack pointer.
///
/// # Safety
/// `end` is the end of a stack that nothing else uses, aligned to 16 bytes, and the function may be called with the argument.
unsafe fn call_on(end: usize, function: extern "C" fn(*mut c_void), argument: *mut c_void) {
    // SAFETY: the function keeps to the calling convention of C, so it preserves the register with the old stack pointer.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!(
            "mov r12, rsp",
            "mov rsp, {end}",
            "call {function}",
            "mov rsp, r12",
            end = in(reg) end,
            function = in(reg) function,
            in("rdi") argument,
            out("r12") _,
            clobber_abi("C"),
        );
        #[cfg(target_arch = "aarch64")]
        asm!(
            "mov x20, sp",
            "mov sp, {end}",
            "blr {function}",
            "mov sp, x20",
            end = in(reg) end,
            function = in(reg) function,
            in("x0") argument,
            out("x20") _,
            clobber_abi("C"),
        );
        #[cfg(target_arch = "riscv64")]
        asm!(
            "mv s2, sp",
            "mv sp, {end}",
            "jalr {function}",
            "mv sp, s2",
            end = in(reg) end,
            function = in(reg) function,
            in("a0") argument,
            out("s2") _,
            clobber_abi("C"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_runs_on_the_stack_and_returns() {
        let stacks = Stacks::new(2).unwrap();
        let (mut here, mut sum) = (0, 0_u64);
        let stack = stacks.take().unwrap();
        let end = stack.end();
        stack.call(|| {
            here = crate::own_stack::stack_pointer();
            let bytes = std::hint::black_box([3_u8; SIZE / 8]);
            sum = bytes.iter().map(|&byte| u64::from(byte)).sum();
        });
        assert!(here < end && end - here < SIZE);
        assert_eq!(sum, 3 * SIZE as u64 / 8);
    }

    #[test]
    fn each_stack_is_taken_once() {
        let stacks = Stacks::new(2).unwrap();
        let (first, second) = (stacks.take().unwrap(), stacks.take().unwrap());
        assert!(first.end() != second.end() && stacks.take().is_none());
        drop(first);
        assert!(stacks.take().is_some());
        stacks.release_all();
        assert_eq!(std::iter::from_fn(|| stacks.take().map(std::mem::forget)).count(), 2);
        drop(second);
    }
}
