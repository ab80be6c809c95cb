//! Work that is sampled, and threads that do not take part.

use std::fs;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Makes a loop that the compiler leaves as it is, and that calls no function even without optimisation.
macro_rules! spin {
    ($rounds:expr) => {
        let mut left: u64 = $rounds;
        while left != 0 {
            left -= 1;
            // SAFETY: does nothing.
            unsafe { std::arch::asm!("/* {0} */", inout(reg) left, options(nomem, nostack)) };
        }
    };
}

#[inline(never)]
fn hot(rounds: u64) {
    spin!(rounds);
}

#[inline(never)]
fn warm(rounds: u64) {
    spin!(rounds);
}

/// Returns the CPU time of this thread.
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes `time`.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Calls `work` until this thread has spent this CPU time. Its pace is not assumed: other programs can change it at any time.
fn spend(work: fn(u64), microseconds: u64) {
    const ROUNDS: u64 = 20_000;
    let end = cpu_time() + Duration::from_micros(microseconds);
    while cpu_time() < end {
        work(ROUNDS);
    }
}

/// Spends CPU time in two functions, 3 : 1. The turns have different lengths, so that the timers do not always fire in the same
/// function.
pub(super) fn burn(milliseconds: u64) {
    let end = cpu_time() + Duration::from_millis(milliseconds);
    let mut random = 1_u64;
    while cpu_time() < end {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let microseconds = 200 + (random >> 33) % 400;
        spend(hot, 3 * microseconds);
        spend(warm, microseconds);
    }
}

/// Calls [`burn`] in this many threads at the same time.
pub(super) fn burn_in_threads(threads: u64, milliseconds: u64) {
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| burn(milliseconds));
        }
    });
}

/// Runs this many threads one after the other. Each spends 3 ms of CPU time.
pub(super) fn burn_in_short_threads(threads: u64) {
    for _ in 0..threads {
        thread::spawn(|| burn(3)).join().unwrap();
    }
}

/// Returns the set of all signals.
fn all() -> libc::sigset_t {
    // SAFETY: all zeros are a valid set, which `sigfillset` initialises.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        all
    }
}

/// Makes a thread that blocks all signals alternate between work and a wait for any signal. Returns the number of signals that it got.
pub(super) fn burn_and_wait_for_signals(milliseconds: u64) -> u64 {
    let all = all();
    // SAFETY: all zeros are a valid set.
    let mut before: libc::sigset_t = unsafe { std::mem::zeroed() };
    // The new thread has the mask of this one from its beginning.
    // SAFETY: both sets are initialised.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before) };
    let waiting = thread::spawn(move || {
        let end = cpu_time() + Duration::from_millis(milliseconds);
        let mut got = 0;
        while cpu_time() < end {
            burn(5);
            let time = libc::timespec { tv_sec: 0, tv_nsec: 5_000_000 };
            // SAFETY: the sets are initialised.
            if unsafe { libc::sigtimedwait(&all, ptr::null_mut(), &time) } > 0 {
                got += 1;
            }
        }
        got
    });
    let got = waiting.join().unwrap();
    // SAFETY: restores the mask.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, ptr::null_mut()) };
    got
}

/// Returns the number of timers of this process.
pub(super) fn timers() -> usize {
    let timers = fs::read_to_string("/proc/self/timers").unwrap();
    timers.lines().filter(|line| line.starts_with("ID:")).count()
}

/// Returns the real-time signals that this process handles.
fn handled() -> Vec<libc::c_int> {
    let is_handled = |&signal: &libc::c_int| {
        // SAFETY: all zeros are a valid `sigaction`.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: writes `action`.
        unsafe { libc::sigaction(signal, ptr::null(), &mut action) };
        action.sa_sigaction != libc::SIG_DFL
    };
    (libc::SIGRTMIN()..=libc::SIGRTMAX()).filter(is_handled).collect()
}

/// Returns the real-time signals that this process handles, as a text.
pub(super) fn handlers() -> String {
    handled().iter().map(i32::to_string).collect::<Vec<_>>().join(" ")
}

/// Handles all real-time signals, and counts them.
pub(super) fn handle_all() {
    extern "C" fn count(_: libc::c_int) {
        RECEIVED.fetch_add(1, Ordering::Relaxed);
    }
    for signal in libc::SIGRTMIN()..=libc::SIGRTMAX() {
        // SAFETY: the handler is async-signal-safe.
        unsafe { libc::signal(signal, count as extern "C" fn(libc::c_int) as usize) };
    }
}

/// The number of signals that the program's own handler got.
pub(super) static RECEIVED: AtomicU64 = AtomicU64::new(0);

/// Makes calls that a signal can interrupt, while another thread works. Returns the number of those that it did interrupt.
pub(super) fn interrupted_calls(milliseconds: u64) -> u64 {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let calling = scope.spawn(|| {
            let mut interrupted = 0;
            while !done.load(Ordering::Acquire) {
                burn(1);
                // SAFETY: waits for no descriptor.
                let result = unsafe { libc::poll(ptr::null_mut(), 0, 1) };
                interrupted += u64::from(result < 0);
            }
            interrupted
        });
        thread::sleep(Duration::from_millis(milliseconds));
        done.store(true, Ordering::Release);
        calling.join().unwrap()
    })
}
