//! A probe that the subject makes at run time, and how often the kernel copies memory for programs in D.

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use sdt_core::ops::{Privileges, ProviderAttr};
use sdt_core::runtime::{Probe, Provider, Slot, arg};

use super::signals;

static SLOTS: [Slot; 1] = [const { Slot::new() }; 1];
static SCRIPT: Provider = Provider::new(&SLOTS);
static LINE: Mutex<Option<Probe>> = Mutex::new(None);

/// Calls of the function below.
static COPIES: AtomicU64 = AtomicU64::new(0);
/// The signal that the next of them raises, if not 0.
static INTERRUPTION: AtomicI32 = AtomicI32::new(0);

/// Stands in for the C library's function, and counts. It is called in the middle of a hit.
#[unsafe(no_mangle)]
unsafe extern "C" fn process_vm_readv(
    process: libc::pid_t,
    to: *const libc::iovec,
    to_count: libc::c_ulong,
    from: *const libc::iovec,
    from_count: libc::c_ulong,
    flags: libc::c_ulong,
) -> libc::ssize_t {
    COPIES.fetch_add(1, Ordering::Relaxed);
    let signal = INTERRUPTION.swap(0, Ordering::Relaxed);
    if signal != 0 {
        // SAFETY: a signal for this thread, which is handled.
        unsafe { libc::raise(signal) };
    }
    let call = libc::SYS_process_vm_readv;
    // SAFETY: the caller's contract.
    let copied = unsafe { libc::syscall(call, process, to, to_count, from, from_count, flags) };
    copied as libc::ssize_t
}

/// Makes the probe `script:::line`. From here on SIGUSR2 hits it.
pub(super) fn open() {
    SCRIPT.open(c"script", &ProviderAttr::SDT, Privileges::USER).unwrap();
    let line = SCRIPT.add(c"", c"line", &[arg::<u64>()]).unwrap();
    *LINE.lock().unwrap_or_else(PoisonError::into_inner) = Some(line);
    signals::handle(libc::SIGUSR2, on_signal);
}

/// Hits the probe, which only one thread does at a time.
pub(super) fn hit() {
    if let Some(line) = &*LINE.try_lock().unwrap() {
        line.fire(&[c"line".as_ptr().addr() as u64]).unwrap();
    }
}

extern "C" fn on_signal(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    hit();
}

/// Has a signal interrupt the hit for which memory is copied next.
pub(super) fn interrupt_next_copy(signal: libc::c_int) {
    INTERRUPTION.store(signal, Ordering::Relaxed);
}

/// How often memory was copied so far.
pub(super) fn copies() -> u64 {
    COPIES.load(Ordering::Relaxed)
}
