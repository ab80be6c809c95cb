//! The clocks of the system.

/// Returns the time of a clock in nanoseconds. Probe context.
pub(crate) fn now(which: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes `time`; async-signal-safe (POSIX). It cannot fail for the clocks of the system, which the callers pass.
    unsafe { libc::clock_gettime(which, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
