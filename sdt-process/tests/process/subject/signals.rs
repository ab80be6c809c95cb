//! Signal handlers of the subject.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use recording_host::Done;
use sdt_core::sdt_probe;

use super::stacks::{getcontext, makecontext, swapcontext};
use super::work;

/// The number of calls of each handler, whether its probe is enabled or not.
pub(super) static SIGNALLED: AtomicU64 = AtomicU64::new(0);
pub(super) static TRAPPED: AtomicU64 = AtomicU64::new(0);

pub(super) extern "C" fn on_signal(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let times = SIGNALLED.fetch_add(1, Ordering::Relaxed);
    sdt_probe!(super::subject::signalled, times);
}

pub(super) type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

/// The handler of SIGTRAP that is installed before `start`. It resumes after the breakpoint; on x86_64 the instruction
/// pointer is already there.
pub(super) extern "C" fn on_trap(
    _: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    TRAPPED.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the kernel passes a valid context to a handler with SA_SIGINFO.
    let (info, _context) =
        unsafe { (&*info, &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext) };
    if info.si_code == libc::TRAP_BRKPT {
        #[cfg(target_arch = "aarch64")]
        (_context.pc += 4);
        #[cfg(target_arch = "riscv64")]
        (_context.__gregs[libc::REG_PC] += 4);
    }
}

/// A breakpoint instruction that belongs to no probe.
pub(super) fn breakpoint() {
    // SAFETY: the handler of SIGTRAP resumes behind the instruction.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        std::arch::asm!("int3");
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!("brk #1");
        #[cfg(target_arch = "riscv64")]
        std::arch::asm!(".option push", ".option norvc", "ebreak", ".option pop");
    }
}

/// Installs a handler of SIGUSR2 that blocks all signals and hits a site.
pub(super) fn handle_with_all_blocked() {
    // SAFETY: the handler is async-signal-safe: it increments a counter and hits a probe.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as Handler as usize;
        action.sa_flags = libc::SA_RESTART | libc::SA_SIGINFO;
        libc::sigfillset(&mut action.sa_mask);
        assert_eq!(libc::sigaction(libc::SIGUSR2, &action, std::ptr::null_mut()), 0);
    }
}

/// Makes part of this thread's stack the alternate one, with these `flags`, handles a signal there, and returns how many bytes below it have
/// changed. Before that, a function hits a probe on the same pages as part of the ordinary stack.
fn below_a_stack(bytes: usize, flags: libc::c_int) -> usize {
    const DEPTH: usize = 512 << 10;
    const BELOW: usize = 128 << 10;
    const PATTERN: u8 = 0x5a;

    /// Hits a probe with the stack pointer near this address.
    #[inline(never)]
    fn hit_at(address: usize) {
        let room = std::hint::black_box([0_u8; 256]);
        if (&raw const room).addr() > address {
            hit_at(address);
        } else {
            work(0, 0);
        }
        std::hint::black_box(&room);
    }

    thread::spawn(move || {
        let here = 0_u8;
        let bottom = ((&raw const here).addr() - DEPTH) & !4095;
        let stack = std::ptr::with_exposed_provenance_mut::<u8>(bottom);
        let mut changed = 0;
        // A function has hit a probe just before at each address in the alternate stack where the handler can hit its site.
        for at in (bottom..bottom + bytes).step_by(1024) {
            hit_at(at);
            // SAFETY: no frame of this thread is that far below. The handler is async-signal-safe.
            unsafe {
                let mut before: libc::stack_t = std::mem::zeroed();
                let own = libc::stack_t { ss_sp: stack.cast(), ss_flags: flags, ss_size: bytes };
                assert_eq!(libc::sigaltstack(&own, &mut before), 0);
                hit_at(bottom + bytes + 4096);
                std::ptr::write_bytes(stack.sub(BELOW), PATTERN, BELOW);
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = on_signal as Handler as usize;
                action.sa_flags = libc::SA_ONSTACK | libc::SA_SIGINFO;
                assert_eq!(libc::sigaction(libc::SIGUSR2, &action, std::ptr::null_mut()), 0);
                libc::raise(libc::SIGUSR2);
                let below = std::slice::from_raw_parts(stack.sub(BELOW), BELOW);
                changed += below.iter().filter(|byte| **byte != PATTERN).count();
                assert_eq!(libc::sigaltstack(&before, std::ptr::null_mut()), 0);
            }
        }
        changed
    })
    .join()
    .unwrap()
}

/// Part of an ordinary stack becomes the alternate one.
pub(super) fn below_a_reused_stack(bytes: usize) -> usize {
    below_a_stack(bytes, 0)
}

/// The kernel disarms the alternate stack while a handler runs on it.
pub(super) fn below_a_disarmed_stack(bytes: usize) -> usize {
    const AUTODISARM: libc::c_int = 1 << 31;
    below_a_stack(bytes, AUTODISARM)
}

/// Installs a handler.
pub(super) fn handle(signal: libc::c_int, handler: Handler) {
    // SAFETY: the handlers are async-signal-safe: they increment counters and hit probes.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_RESTART | libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
    }
}
/// Makes a thread work until it has handled this many signals. Returns how often it has worked.
pub(super) fn count(times: u64) -> u64 {
    let before = SIGNALLED.load(Ordering::Relaxed);
    let done = &AtomicBool::new(false);
    thread::scope(|scope| {
        let (sender, receiver) = std::sync::mpsc::channel();
        let worker = scope.spawn(move || {
            // SAFETY: returns a number and changes nothing.
            sender.send(unsafe { libc::pthread_self() }).unwrap();
            let mut n = 0;
            while !done.load(Ordering::Acquire) {
                work(0, n);
                n += 1;
                if n % 64 == 63 {
                    thread::sleep(Duration::from_millis(1));
                }
            }
            n
        });
        let end = Done(done);
        let thread = receiver.recv().unwrap();
        for sent in 0..times {
            // SAFETY: the thread exists until this function tells it to end.
            unsafe { libc::pthread_kill(thread, libc::SIGUSR1) };
            // The kernel queues one signal of a kind.
            while SIGNALLED.load(Ordering::Relaxed) - before <= sent {
                assert!(!worker.is_finished(), "the thread to be signalled has ended");
                std::hint::spin_loop();
            }
        }
        drop(end);
        worker.join().unwrap()
    })
}

/// Makes a thread handle this many signals on an alternate stack of this size, below which no memory is mapped.
pub(super) fn on_alternate_stack(bytes: usize, times: u64) {
    const PAGE: usize = 4096;
    thread::spawn(move || {
        // SAFETY: the memory is newly mapped, and is the alternate stack until the thread ends. The handler is async-signal-safe.
        unsafe {
            let (none, how) = (std::ptr::null_mut(), libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            let memory = libc::mmap(none, bytes + PAGE, libc::PROT_NONE, how, -1, 0);
            assert_ne!(memory, libc::MAP_FAILED);
            let start = memory.add(PAGE);
            assert_eq!(libc::mprotect(start, bytes, libc::PROT_READ | libc::PROT_WRITE), 0);
            let stack = libc::stack_t { ss_sp: start, ss_flags: 0, ss_size: bytes };
            let mut before: libc::stack_t = std::mem::zeroed();
            assert_eq!(libc::sigaltstack(&stack, &mut before), 0);
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_signal as Handler as usize;
            action.sa_flags = libc::SA_ONSTACK | libc::SA_SIGINFO;
            assert_eq!(libc::sigaction(libc::SIGUSR2, &action, none.cast()), 0);
            for _ in 0..times {
                libc::raise(libc::SIGUSR2);
            }
            // Restores the alternate stack of Rust's standard library, which frees it when the thread ends.
            assert_eq!(libc::sigaltstack(&before, none.cast()), 0);
            assert_eq!(libc::munmap(memory, bytes + PAGE), 0);
        }
    })
    .join()
    .unwrap();
}

thread_local! {
    /// The number of calls of [`sigaltstack`] in this thread.
    static QUERIES: Cell<u64> = const { Cell::new(0) };
    /// The contexts of the thread, of a signal handler, of the coroutine that the handler has interrupted, and of another one.
    static CONTEXTS: RefCell<Vec<libc::ucontext_t>> = const { RefCell::new(Vec::new()) };
}

const THREAD: usize = 0;
const HANDLER: usize = 1;
const FIRST: usize = 2;
const OTHER: usize = 3;

/// Replaces the C library's function, and counts its calls.
#[unsafe(no_mangle)]
unsafe extern "C" fn sigaltstack(
    new: *const libc::stack_t,
    old: *mut libc::stack_t,
) -> libc::c_int {
    QUERIES.set(QUERIES.get() + 1);
    // SAFETY: the contract of this function is that of the system call.
    unsafe { libc::syscall(libc::SYS_sigaltstack, new, old) as libc::c_int }
}

/// Works this often, and returns how often the kernel was asked for the alternate stack meanwhile.
pub(super) fn queries(times: u64) -> u64 {
    let before = QUERIES.get();
    (0..times).for_each(|n| work(0, n));
    QUERIES.get() - before
}

/// Returns a pointer to a context of this thread.
fn context(which: usize) -> *mut libc::ucontext_t {
    CONTEXTS.with_borrow_mut(|contexts| &raw mut *contexts.get_mut(which).unwrap())
}

/// Hits a probe on the alternate stack, lets a coroutine run on another stack, and hits the probe again.
extern "C" fn on_signal_and_switch(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    interrupted: *mut libc::c_void,
) {
    on_signal(signal, info, interrupted);
    // SAFETY: `run_coroutines` has made the coroutine.
    unsafe { swapcontext(context(HANDLER), context(OTHER)) };
    on_signal(signal, info, interrupted);
}

/// Hits a probe, and continues the handler.
extern "C" fn resume_handler() {
    work(0, 1);
    // SAFETY: the handler has stored its context.
    unsafe { swapcontext(context(OTHER), context(HANDLER)) };
}

/// Hits a probe, and never continues the handler. A later signal uses the same alternate stack.
extern "C" fn leave_handler() {
    work(0, 1);
    handle_on_alternate_stack(on_signal);
    // SAFETY: the signal has a handler.
    unsafe { libc::raise(libc::SIGUSR2) };
    work(0, 2);
}

/// Hits a probe, and handles a signal.
extern "C" fn raise_in_coroutine() {
    work(0, 0);
    // SAFETY: the signal has a handler.
    unsafe { libc::raise(libc::SIGUSR2) };
}

fn handle_on_alternate_stack(handler: Handler) {
    // SAFETY: the handlers are async-signal-safe: they increment counters, hit probes, and switch contexts.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_ONSTACK | libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGUSR2, &action, std::ptr::null_mut()), 0);
    }
}

/// In a thread, installs eight alternate stacks of this size, one after the other, with these `flags`, and hits probes before, on and after
/// each of them. If `switches`, coroutines then do this with the last one.
pub(super) fn around_alternate_stacks(bytes: usize, flags: libc::c_int, switches: bool) {
    thread::spawn(move || {
        let mut stacks: Vec<_> = (0..8).map(|_| vec![0_u8; bytes]).collect();
        // SAFETY: the alternate stacks are memory of this function, and none of them is used after it.
        unsafe {
            let mut before: libc::stack_t = std::mem::zeroed();
            assert_eq!(libc::sigaltstack(std::ptr::null(), &mut before), 0);
            for stack in &mut stacks {
                work(0, 0);
                let ss_sp = stack.as_mut_ptr().cast();
                let own = libc::stack_t { ss_sp, ss_flags: flags, ss_size: bytes };
                assert_eq!(libc::sigaltstack(&own, std::ptr::null_mut()), 0);
                if flags != 0 {
                    // A disarmed stack is recognised only after a hit outside of it.
                    work(0, 1);
                }
                handle_on_alternate_stack(on_signal);
                libc::raise(libc::SIGUSR2);
                work(0, 2);
                libc::raise(libc::SIGUSR2);
            }
            if switches {
                run_coroutines(raise_in_coroutine, resume_handler);
                run_coroutines(raise_in_coroutine, leave_handler);
            }
            assert_eq!(libc::sigaltstack(&before, std::ptr::null_mut()), 0);
        }
    })
    .join()
    .unwrap();
}

/// Runs a coroutine, which handles a signal. The handler switches to the other coroutine. Returns when one of them has ended.
fn run_coroutines(first: extern "C" fn(), other: extern "C" fn()) {
    const SIZE: usize = 1 << 20;
    let mut stacks = [vec![0_u8; SIZE], vec![0_u8; SIZE]];
    // A context contains pointers to itself, so it is initialised where it stays.
    // SAFETY: all zeros are a valid context, and `getcontext` initialises it.
    CONTEXTS.set((0..4).map(|_| unsafe { std::mem::zeroed() }).collect());
    for which in 0..4 {
        // SAFETY: the pointer is that of a context.
        assert_eq!(unsafe { getcontext(context(which)) }, 0);
    }
    handle_on_alternate_stack(on_signal_and_switch);
    // SAFETY: the stacks are used until a coroutine has ended and resumed this function, and so are the contexts.
    unsafe {
        for (which, (stack, function)) in
            [FIRST, OTHER].into_iter().zip(stacks.iter_mut().zip([first, other]))
        {
            let made = context(which);
            (*made).uc_stack.ss_sp = stack.as_mut_ptr().cast();
            (*made).uc_stack.ss_size = SIZE;
            (*made).uc_link = context(THREAD);
            makecontext(made, function, 0);
        }
        assert_eq!(swapcontext(context(THREAD), context(FIRST)), 0);
    }
}
