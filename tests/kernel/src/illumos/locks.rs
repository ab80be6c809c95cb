//! Mutexes, readers/writer locks, and CPUs that are paused.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU64, Ordering};

use crate::arch::cpu;
use crate::smp;

/// `kmutex_t`: 8 bytes. 0 if the mutex is free; otherwise, here, the number of the owner's CPU plus 1.
#[derive(Debug)]
#[repr(transparent)]
pub(super) struct Mutex(AtomicU64);

/// Held while a provider's `enable` or `disable` runs, and by a thread that pauses CPUs.
pub(super) static CPU_LOCK: Mutex = Mutex(AtomicU64::new(0));

impl Mutex {
    /// Locks the mutex.
    ///
    /// # Panics
    /// If this CPU holds the mutex already.
    pub(super) fn enter(&self) {
        let own = cpu::current() as u64 + 1;
        let take = || self.0.compare_exchange(0, own, Ordering::Acquire, Ordering::Relaxed);
        while let Err(owner) = take() {
            assert_ne!(owner, own, "recursive mutex_enter");
            smp::join_rendezvous();
            core::hint::spin_loop();
        }
    }

    /// Unlocks the mutex.
    ///
    /// # Panics
    /// If this CPU does not hold the mutex.
    pub(super) fn exit(&self) {
        let own = cpu::current() as u64 + 1;
        assert_eq!(self.0.swap(0, Ordering::Release), own, "mutex_exit: not owner");
    }

    fn is_held(&self) -> bool {
        self.0.load(Ordering::Relaxed) == cpu::current() as u64 + 1
    }
}

/// # Safety
/// `mutex` is a mutex.
pub(super) unsafe extern "C" fn mutex_enter(mutex: *const Mutex) {
    // SAFETY: `mutex` points to a mutex.
    unsafe { (*mutex).enter() };
}

/// # Safety
/// `mutex` is a mutex.
pub(super) unsafe extern "C" fn mutex_exit(mutex: *const Mutex) {
    // SAFETY: `mutex` points to a mutex.
    unsafe { (*mutex).exit() };
}

/// # Safety
/// `mutex` points to memory for a mutex.
pub(super) unsafe extern "C" fn mutex_init(
    mutex: *mut Mutex,
    _name: *const c_void,
    _kind: c_int,
    _argument: *const c_void,
) {
    // SAFETY: `mutex` points to memory for a mutex.
    unsafe { mutex.write(Mutex(AtomicU64::new(0))) };
}

/// `krwlock_t`: 8 bytes; here the number of readers, or [`WRITER`].
#[derive(Debug)]
#[repr(transparent)]
pub(super) struct RwLock(AtomicU64);

const WRITER: u64 = u64::MAX;

impl RwLock {
    pub(super) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }
}

/// `krw_t` (`sys/rwlock.h`).
pub(super) const RW_WRITER: c_int = 0;
pub(super) const RW_READER: c_int = 1;

/// # Safety
/// `lock` points to a lock.
pub(super) unsafe extern "C" fn rw_enter(lock: *const RwLock, how: c_int) {
    // SAFETY: `lock` points to a lock.
    let lock = unsafe { &(*lock).0 };
    let take = |held: u64| match (how, held) {
        (RW_WRITER, 0) => Some(WRITER),
        (RW_READER, readers) if readers != WRITER => Some(readers + 1),
        (RW_WRITER | RW_READER, _) => None,
        _ => panic!("rw_enter: {how} is neither RW_WRITER nor RW_READER"),
    };
    while lock.fetch_update(Ordering::Acquire, Ordering::Relaxed, take).is_err() {
        smp::join_rendezvous();
        core::hint::spin_loop();
    }
}

/// # Safety
/// `lock` points to a lock.
pub(super) unsafe extern "C" fn rw_exit(lock: *const RwLock) {
    let leave = |held: u64| Some(if held == WRITER { 0 } else { held.checked_sub(1)? });
    // SAFETY: `lock` points to a lock.
    let left = unsafe { &(*lock).0 }.fetch_update(Ordering::Release, Ordering::Relaxed, leave);
    assert!(left.is_ok(), "rw_exit: it is not held");
}

/// Makes all other CPUs wait, with interrupts off, until [`start_cpus`]. Ignores the first argument, a CPU that need not be
/// paused. The second argument, a function, is not supported and must be NULL.
pub(super) extern "C" fn pause_cpus(_off: *mut c_void, function: *mut c_void) {
    assert!(CPU_LOCK.is_held(), "pause_cpus: cpu_lock is not held");
    assert!(function.is_null(), "pause_cpus: functions are not called here");
    smp::pause_others();
}

/// Lets the CPUs continue that [`pause_cpus`] has paused.
pub(super) extern "C" fn start_cpus() {
    assert!(CPU_LOCK.is_held(), "start_cpus: cpu_lock is not held");
    smp::resume_others();
}
