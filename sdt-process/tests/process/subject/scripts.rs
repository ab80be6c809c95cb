//! A probe that the subject makes at run time, and a count of the copies of memory for programs in D.

use std::ffi::{CString, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;

use sdt_core::ops::{Privileges, ProviderAttr};
use sdt_core::runtime::{Probe, Provider, Slot, arg};

use super::{greet, signals, work};

static SLOTS: [Slot; 1] = [const { Slot::new() }; 1];
static SCRIPT: Provider = Provider::new(&SLOTS);
static LINE: Mutex<Option<Probe>> = Mutex::new(None);
/// The argument of the probe, on the heap: the kernel copies it for a program in D.
static TEXT: LazyLock<CString> = LazyLock::new(|| c"line".to_owned());

/// The number of calls of [`process_vm_readv`].
static COPIES: AtomicU64 = AtomicU64::new(0);
/// The signal that the next call raises; 0 for none.
static INTERRUPTION: AtomicI32 = AtomicI32::new(0);

/// Whether the next call waits, whether one is waiting, and whether it may go on.
static HOLDS: AtomicBool = AtomicBool::new(false);
static IS_HELD: AtomicBool = AtomicBool::new(false);
static GOES_ON: AtomicBool = AtomicBool::new(false);

/// Replaces the C library's function, and counts its calls, which are in the middle of a hit.
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
        // SAFETY: this program handles the signal.
        unsafe { libc::raise(signal) };
    }
    if HOLDS.swap(false, Ordering::AcqRel) {
        IS_HELD.store(true, Ordering::Release);
        while !GOES_ON.load(Ordering::Acquire) {
            thread::yield_now();
        }
    }
    let call = libc::SYS_process_vm_readv;
    // SAFETY: the contract of this function is that of the system call.
    let copied = unsafe { libc::syscall(call, process, to, to_count, from, from_count, flags) };
    copied as libc::ssize_t
}

/// Makes the probe `script:::line`, which SIGUSR2 hits from here on.
pub(super) fn open() {
    SCRIPT.open(c"script", &ProviderAttr::SDT, Privileges::USER).unwrap();
    let line = SCRIPT.add(c"", c"line", &[arg::<u64>()]).unwrap();
    *LINE.lock().unwrap_or_else(PoisonError::into_inner) = Some(line);
    LazyLock::force(&TEXT);
    signals::handle(libc::SIGUSR2, on_signal);
}

/// Hits the probe. Only one thread does so at a time.
pub(super) fn hit() {
    if let Some(line) = &*LINE.try_lock().unwrap() {
        line.fire(&[TEXT.as_ptr().expose_provenance() as u64]).unwrap();
    }
}

extern "C" fn on_signal(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    hit();
}

/// Makes a signal interrupt the next hit that copies memory.
pub(super) fn interrupt_next_copy(signal: libc::c_int) {
    INTERRUPTION.store(signal, Ordering::Relaxed);
}

/// Makes another thread hit a probe that copies memory, and wait in the middle of the copy.
pub(super) fn hold() -> thread::JoinHandle<u64> {
    HOLDS.store(true, Ordering::Release);
    let held = thread::spawn(|| {
        greet(0);
        1
    });
    while !IS_HELD.load(Ordering::Acquire) {
        assert!(!held.is_finished(), "no memory is copied");
        thread::yield_now();
    }
    held
}

/// Lets the thread go on.
pub(super) fn release() {
    GOES_ON.store(true, Ordering::Release);
}

/// Cancels a thread that waits for a slot in the middle of a hit. Returns whether the thread completed the hit.
pub(super) fn cancel() -> bool {
    static IS_HERE: AtomicBool = AtomicBool::new(false);

    extern "C" fn hit_once(_: *mut c_void) -> *mut c_void {
        IS_HERE.store(true, Ordering::Release);
        work(0, 0);
        // SAFETY: changes only whether this thread can be cancelled.
        unsafe { pthread_setcancelstate(1, ptr::null_mut()) };
        ptr::without_provenance_mut(1)
    }

    // SAFETY: the thread is joined. If it is cancelled, it has no Rust frames except that of `hit_once`, which owns nothing.
    unsafe {
        let (mut thread, mut result) = (MaybeUninit::uninit(), ptr::null_mut());
        let (none, argument) = (ptr::null(), ptr::null_mut());
        assert_eq!(libc::pthread_create(thread.as_mut_ptr(), none, hit_once, argument), 0);
        while !IS_HERE.load(Ordering::Acquire) {
            thread::yield_now();
        }
        // The thread is cancelled at its next cancellation point.
        assert_eq!(pthread_cancel(thread.assume_init()), 0);
        assert_eq!(libc::pthread_join(thread.assume_init(), &mut result), 0);
        result.addr() == 1
    }
}

unsafe extern "C" {
    fn pthread_cancel(thread: libc::pthread_t) -> libc::c_int;
    /// 1 is `PTHREAD_CANCEL_DISABLE`.
    fn pthread_setcancelstate(state: libc::c_int, before: *mut libc::c_int) -> libc::c_int;
}

/// Returns the number of copies of memory so far.
pub(super) fn copies() -> u64 {
    COPIES.load(Ordering::Relaxed)
}
