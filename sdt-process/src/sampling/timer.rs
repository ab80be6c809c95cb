//! Timers of the kernel that measure the CPU time of one thread and send it a signal (`timer_create(2)`).
//!
//! These are the bare system calls, as C libraries do not offer the clock of a thread by its number.

use std::ffi::c_int;
use std::io;
use std::ptr;
use std::time::Duration;

/// The value of a timer's signal, which tells this crate's signals from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag {
    /// The number of the framework's timer.
    pub(super) timer: u8,
    /// The number of times that sampling for this timer had been started.
    pub(super) generation: u32,
}

impl Tag {
    /// The upper half of the value of each tag, a number that was chosen at random.
    const MAGIC: u64 = 0x5d7a_91c3;
    const GENERATIONS: u64 = 0x00ff_ffff;

    pub(super) const fn encoded(self) -> u64 {
        Self::MAGIC << 32 | (self.generation as u64 & Self::GENERATIONS) << 8 | self.timer as u64
    }

    /// Returns the tag with this value.
    pub(super) const fn decoded(value: u64) -> Option<Self> {
        if value >> 32 != Self::MAGIC {
            return None;
        }
        let generation = (value >> 8 & Self::GENERATIONS) as u32;
        Some(Self { timer: value as u8, generation })
    }
}

/// A timer of a thread, which is deleted when this is dropped. A copy in the child of a `fork` must be
/// [forgotten](Timer::forget): timers are not inherited, and the number may belong to another timer there.
#[derive(Debug)]
pub(super) struct Timer(c_int);

impl Timer {
    /// Creates a timer that sends this signal to the thread after each `interval` of its CPU time.
    ///
    /// # Errors
    /// That of `timer_create(2)`: EINVAL if the thread has ended, EAGAIN if the user has too many signals pending.
    pub(super) fn start(
        thread: u32,
        signal: c_int,
        tag: Tag,
        interval: Duration,
    ) -> io::Result<Self> {
        // SAFETY: all zeros are a valid `sigevent`.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = signal;
        event.sigev_value.sival_ptr = ptr::without_provenance_mut(tag.encoded() as usize);
        event.sigev_notify_thread_id = thread.cast_signed();
        let timer = Self::create(thread, &mut event)?;
        timer.set(interval)?;
        Ok(timer)
    }

    fn create(thread: u32, event: &mut libc::sigevent) -> io::Result<Self> {
        /// `CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED` (Linux, `include/linux/posix-timers_types.h`).
        const OF_THREAD: libc::clockid_t = 4 | 2;
        let clock = !thread.cast_signed() << 3 | OF_THREAD;
        let mut number: c_int = 0;
        // SAFETY: the kernel reads `event` and writes `number`, a `timer_t` of the kernel.
        check(unsafe {
            libc::syscall(libc::SYS_timer_create, clock, ptr::from_mut(event), &raw mut number)
        })?;
        Ok(Self(number))
    }

    /// Sets the interval, from now on.
    fn set(&self, interval: Duration) -> io::Result<()> {
        let time = libc::timespec {
            tv_sec: interval.as_secs() as libc::time_t,
            tv_nsec: interval.subsec_nanos() as _,
        };
        let new = libc::itimerspec { it_interval: time, it_value: time };
        let before = ptr::null_mut::<libc::itimerspec>();
        // SAFETY: the kernel reads `new` and writes nothing, as `before` is null.
        check(unsafe { libc::syscall(libc::SYS_timer_settime, self.0, 0, &raw const new, before) })
    }

    /// Returns whether the timer's thread runs. The number of a thread that has ended may belong to another thread now, which the
    /// timer does not measure.
    pub(super) fn is_alive(&self) -> bool {
        // SAFETY: all zeros are a valid `itimerspec`.
        let mut left: libc::itimerspec = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel writes `left`.
        let result = unsafe { libc::syscall(libc::SYS_timer_gettime, self.0, &raw mut left) };
        // A timer that is armed has some time left, unless its clock has ended with the thread.
        result == 0 && (left.it_value.tv_sec, left.it_value.tv_nsec) != (0, 0)
    }

    /// Drops the handle without deleting the timer.
    pub(super) fn forget(self) {
        std::mem::forget(self);
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: `create` got the number in this process, and only this deletes the timer.
        unsafe { libc::syscall(libc::SYS_timer_delete, self.0) };
    }
}

/// Makes each system call of this module once, without a signal.
///
/// # Errors
/// The kernel or a sandbox forbids a call.
pub(super) fn try_calls() -> io::Result<()> {
    // SAFETY: all zeros are a valid `sigevent`.
    let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
    event.sigev_notify = libc::SIGEV_NONE;
    // SAFETY: returns a number and changes nothing.
    let timer = Timer::create(unsafe { libc::gettid() }.unsigned_abs(), &mut event)?;
    timer.set(Duration::from_secs(1))?;
    if !timer.is_alive() {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn check(result: libc::c_long) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_told_from_other_values() {
        for (timer, generation) in [(0, 0), (31, 1), (255, 0x00ff_ffff)] {
            let tag = Tag { timer, generation };
            assert_eq!(Tag::decoded(tag.encoded()), Some(tag));
        }
        assert!(
            [0, 1, u64::MAX, 0x7fff_1234_5678].iter().all(|&value| Tag::decoded(value).is_none())
        );
    }

    #[test]
    fn a_timer_of_a_thread_that_has_ended_is_not_alive() {
        try_calls().unwrap();
        let (send, ids) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            // SAFETY: returns a number and changes nothing.
            send.send(unsafe { libc::gettid() }.unsigned_abs()).unwrap();
            ended.recv().ok();
        });
        let tag = Tag { timer: 0, generation: 0 };
        // The thread sleeps, so no signal is sent.
        let hour = Duration::from_secs(3600);
        let timer = Timer::start(ids.recv().unwrap(), libc::SIGRTMAX(), tag, hour).unwrap();
        assert!(timer.is_alive());
        drop(end);
        thread.join().unwrap();
        // `join` returns a moment before the kernel has ended the thread.
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        while timer.is_alive() {
            assert!(std::time::Instant::now() < deadline);
            std::thread::yield_now();
        }
        let error = Timer::start(u32::MAX >> 4, libc::SIGRTMAX(), tag, hour).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    }
}
