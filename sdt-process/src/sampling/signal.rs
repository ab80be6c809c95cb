//! The signal of the timers: its choice, and its handler.
//!
//! The signal is a real-time signal for which the program has no handler. Its handler stays installed, as a thread may receive a sample
//! after its timer was deleted, and the default action of the signal would end the process.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

use super::refused::Unsampled;
use super::registers::Registers;
use super::timer::Tag;
use crate::breakpoint::RAISED;

/// The signal; 0 until it is chosen.
static SIGNAL: AtomicI32 = AtomicI32::new(0);

type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// The start of `siginfo_t` for the signal of a timer (Linux, `include/uapi/asm-generic/siginfo.h`).
#[repr(C)]
struct TimerInfo {
    signal: c_int,
    error: c_int,
    code: c_int,
    /// The union begins at a multiple of eight.
    _padding: c_int,
    number: c_int,
    overrun: c_int,
    value: u64,
}

const _: () = assert!(size_of::<TimerInfo>() <= size_of::<libc::siginfo_t>());

/// Returns the signal, after installing its handler if necessary. `blocked` returns how many threads block a signal.
/// The signal that the fewest threads block is chosen, because a program that waits for a signal blocks it.
///
/// # Errors
/// The program has replaced the handler, or has handlers for all real-time signals.
pub(super) fn install(blocked: impl Fn(c_int) -> usize) -> Result<c_int, Unsampled> {
    let signal = SIGNAL.load(Ordering::Acquire);
    if signal != 0 {
        return if is_installed(signal) { Ok(signal) } else { Err(Unsampled::Replaced(signal)) };
    }
    let mut free: Vec<_> = (libc::SIGRTMIN()..=libc::SIGRTMAX())
        .filter(|&signal| action(signal, None).is_some_and(|it| it.sa_sigaction == libc::SIG_DFL))
        .collect();
    // There are about 30 signals, and a sort takes 30 kB of code.
    let order = |&signal: &c_int| (blocked(signal), std::cmp::Reverse(signal));
    while let Some(signal) = free.iter().copied().min_by_key(order) {
        free.retain(|other| *other != signal);
        // Stored first, as the handler reads it.
        SIGNAL.store(signal, Ordering::Release);
        match action(signal, Some(&new_action())) {
            Some(before) if before.sa_sigaction == libc::SIG_DFL => return Ok(signal),
            // Another thread has installed a handler since this function checked.
            Some(before) => drop(action(signal, Some(&before))),
            None => {}
        }
    }
    SIGNAL.store(0, Ordering::Release);
    Err(Unsampled::NoSignal)
}

/// Returns whether this module's handler is installed for a signal.
pub(super) fn is_installed(signal: c_int) -> bool {
    action(signal, None).is_some_and(|now| now.sa_sigaction == on_signal as Handler as usize)
}

fn new_action() -> libc::sigaction {
    // SAFETY: all zeros are a valid `sigaction`.
    let mut new: libc::sigaction = unsafe { std::mem::zeroed() };
    new.sa_sigaction = on_signal as Handler as usize;
    // SA_ONSTACK, as programs with an alternate stack may have small ordinary ones.
    new.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
    // A handler with SA_ONSTACK that interrupted this one on another stack would overwrite its frame on the alternate stack. So all signals
    // wait, except those that instructions raise.
    // SAFETY: the set is a field of `new`, which this function owns.
    unsafe {
        libc::sigfillset(&mut new.sa_mask);
        for signal in RAISED {
            libc::sigdelset(&mut new.sa_mask, signal);
        }
    }
    new
}

/// Sets the action of a signal if `new` is given. Returns the action before.
fn action(signal: c_int, new: Option<&libc::sigaction>) -> Option<libc::sigaction> {
    // SAFETY: all zeros are a valid `sigaction`.
    let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
    let new = new.map_or(ptr::null(), ptr::from_ref);
    // SAFETY: `new` is null, an action that the program had installed, or one whose handler is `on_signal`, which is async-signal-safe;
    // `before` has room for the old action.
    let result = unsafe { libc::sigaction(signal, new, &mut before) };
    (result == 0).then_some(before)
}

/// Disables the alternate stack of this thread until the handler returns. Called on another stack. Otherwise a breakpoint in a function
/// that the recording calls would raise a signal whose frame the kernel places at the end of the alternate stack, over the frame of the
/// sample. When the handler returns, the kernel enables the stack again, as it was when it made the frame (`restore_altstack`, Linux,
/// `kernel/signal.c`).
pub(super) fn leave_alternate_stack() {
    // SAFETY: all zeros are a valid `stack_t`.
    let mut none: libc::stack_t = unsafe { std::mem::zeroed() };
    none.ss_flags = libc::SS_DISABLE;
    let before = ptr::null_mut::<libc::stack_t>();
    // The bare system call, because a function with which the program replaces that of the C library may be traced.
    // SAFETY: the kernel reads `none`. All frames on the alternate stack stay valid: until the handler returns, signals use the stack on
    // which the thread runs.
    unsafe { libc::syscall(libc::SYS_sigaltstack, &raw const none, before) };
}

extern "C" fn on_signal(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid pointer to a handler with SA_SIGINFO, and `siginfo_t` is at least as large.
    let info = unsafe { &*info.cast_const().cast::<TimerInfo>() };
    let tag = Some(info).filter(|info| info.code == libc::SI_TIMER);
    match tag.and_then(|info| Tag::decoded(info.value)) {
        Some(tag) => {
            // SAFETY: the kernel passed `context` to this handler, which has not returned.
            let registers = unsafe { Registers::of(context) };
            super::record(tag, registers, info.overrun.max(0).unsigned_abs().into());
        }
        // Not from a timer of this crate: the default action, which the signal had before, ends the process.
        None => {
            // SAFETY: sets the default action, and raises the signal, which stays blocked until this handler returns; both are
            // async-signal-safe (POSIX).
            unsafe {
                let mut default: libc::sigaction = std::mem::zeroed();
                default.sa_sigaction = libc::SIG_DFL;
                libc::sigaction(signal, &default, ptr::null_mut());
                libc::raise(signal);
            }
        }
    }
}
