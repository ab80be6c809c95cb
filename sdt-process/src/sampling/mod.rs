//! `profile-N` in a process: samples of the threads that execute.
//!
//! While a consumer has enabled `profile-N`, each thread has a timer of the kernel that measures the thread's CPU time and sends it a signal
//! after each interval ([`timer`]). The handler of the signal records a hit, whose stack is that of the interrupted thread ([`signal`],
//! [`record`]). A thread that sleeps uses no CPU time, so it is not sampled.
//!
//! The worker thread looks for new threads from time to time ([`scan_if_due`]).
//!
//! | situation | result |
//! |---|---|
//! | a thread blocks the signal, or waits for it (`sigtimedwait(2)`) | it gets no timer, as the program would receive the signal. It is counted ([`unsampled`]) |
//! | a thread has a seccomp filter that is not known to allow the system calls of a hit | it gets no timer, and is counted |
//! | a thread uses the thread-local variables of another one (`clone(2)` without `CLONE_SETTLS`) | the samples of one of the two threads are counted as stray |
//! | a thread blocks the signal for a moment | the sample comes later, and `arg2` is the time of the samples that were omitted meanwhile |
//! | a sample interrupts the recording of a hit, or no [stack](stacks) or slot is free | it is counted as stray |
//! | a sample comes after its probe was disabled | it is ignored |
//! | the recording calls a traced function | nothing is recorded for this call |
//! | the program replaces the handler | all timers are deleted, and all threads are counted as not sampled |
//! | the child of a `fork`, of a `vfork`, or a program that is executed | has no timers, as the kernel does not pass them on |

mod refused;
mod registers;
mod signal;
mod stacks;
mod timer;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, c_int};
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::ptr;
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use sdt_framework::Dtrace;

use crate::errno::Errno;
use crate::slots::Slots;
use crate::stack::{Note, Room};
use crate::{hit, identity, memory, sandbox, stack_block, text, threads};
use refused::Unsampled;
pub(crate) use registers::Registers;
use stacks::Stacks;
use timer::{Tag, Timer};

/// The largest number of timers of the framework.
pub(crate) const TIMERS: usize = 32;

/// The shortest time between two scans. A thread that lives less than this may not be sampled.
const PAUSE: Duration = Duration::from_millis(20);
/// The ratio of the time between two scans to the duration of a scan.
const REST: u32 = 50;

/// The framework that records samples; null before the first start.
static DTRACE: AtomicPtr<Dtrace<Slots>> = AtomicPtr::new(ptr::null_mut());
/// The stacks on which samples are recorded.
static STACKS: OnceLock<Stacks> = OnceLock::new();
/// The timers of the framework, as the signal handler sees them.
static RATES: [Rate; TIMERS] = [const { Rate::new() }; TIMERS];
/// The number of threads that are not sampled.
static UNSAMPLED: AtomicU32 = AtomicU32::new(0);
/// The error number with which [`timer::try_calls`] failed at the start, or 0.
static CALLS: AtomicI32 = AtomicI32::new(0);
/// The worker thread.
static WORKER: AtomicU32 = AtomicU32::new(0);
/// The distance between a thread-local variable and the descriptor of the thread that called `start`.
static DISTANCE: AtomicUsize = AtomicUsize::new(0);
/// Whether the distance is the same in the worker thread. If not, the C library allocates the variables of a thread when it first uses
/// them, which a signal handler must not cause.
static HAS_VARIABLES: AtomicBool = AtomicBool::new(false);

static SAMPLING: Mutex<Sampling> = Mutex::new(Sampling::new());

/// A timer of the framework, as the signal handler sees it.
struct Rate {
    /// The generation of its timers; 0 while it is disabled.
    generation: AtomicU32,
    /// Its interval in nanoseconds.
    interval: AtomicU64,
}

impl Rate {
    const fn new() -> Self {
        Self { generation: AtomicU32::new(0), interval: AtomicU64::new(0) }
    }
}

/// The timers of the threads.
struct Sampling {
    /// The [generation](identity::generation) of the process that created the timers.
    process: u32,
    /// The last generation of timers.
    generation: u32,
    signal: c_int,
    /// The timers of the framework that are enabled, and their intervals.
    rates: Vec<(Tag, Duration)>,
    /// The sampled threads, by their numbers in `/proc`. Each has a timer for each rate, with the number of the framework's timer.
    threads: BTreeMap<u32, Vec<(u8, Timer)>>,
    /// The other threads, except the worker thread.
    others: BTreeSet<u32>,
    /// The threads in `others` that were seen waiting for signals. They are expected to wait again.
    waiting: BTreeSet<u32>,
    /// The times of the next scan for new threads, and of the next scan of all threads.
    due: Option<[Instant; 2]>,
}

/// Prepares sampling by this framework. Called by `start`.
pub(crate) fn prepare(dtrace: &'static Dtrace<Slots>) {
    DTRACE.store(ptr::from_ref(dtrace).cast_mut(), Ordering::Release);
    DISTANCE.store(distance(), Ordering::Release);
    let error = timer::try_calls().err();
    CALLS.store(error.and_then(|error| error.raw_os_error()).unwrap_or(0), Ordering::Release);
}

/// Stores the number of the current thread as that of the worker thread.
pub(crate) fn note_worker() {
    // SAFETY: returns a number and changes nothing.
    WORKER.store(unsafe { libc::gettid() }.unsigned_abs(), Ordering::Release);
    HAS_VARIABLES.store(distance() == DISTANCE.load(Ordering::Acquire), Ordering::Release);
}

/// Returns the distance between a thread-local variable and the descriptor of this thread.
fn distance() -> usize {
    hit::thread_local_address().wrapping_sub(stack_block::descriptor())
}

/// Starts samples after each interval in nanoseconds for a timer of the framework, or ends them. If they cannot be started, the consumer
/// that this thread serves gets the reason.
pub(crate) fn change(timer: usize, interval: Option<u64>, slots: usize) {
    let Ok(timer) = u8::try_from(timer) else { return };
    let mut sampling = lock();
    sampling.stop(timer);
    let Some(interval) = interval else { return };
    if let Err(why) = sampling.start(timer, interval, slots) {
        sampling.stop(timer);
        let reason = format!("profile-N cannot be enabled: {why}");
        // SAFETY: returns a number and changes nothing.
        if unsafe { libc::gettid() }.unsigned_abs() != WORKER.load(Ordering::Acquire) {
            // This thread serves no consumer: the program enables the probe itself. Not `eprintln!`, which panics if standard
            // error is closed.
            io::stderr().write_all(format!("sdt-process: {reason}\n").as_bytes()).ok();
        }
        text::refuse(reason);
    }
}

/// Looks for threads that have no timer, if a scan is due. Returns the time until the next call, while a timer is enabled.
pub(crate) fn scan_if_due() -> Option<Duration> {
    lock().scan_if_due()
}

/// Returns the number of threads that are not sampled although a timer is enabled.
pub(crate) fn unsampled() -> u32 {
    UNSAMPLED.load(Ordering::Relaxed)
}

/// Frees the stacks of threads that do not exist in the child of a `fork`.
pub(crate) fn release_stacks() {
    if let Some(stacks) = STACKS.get() {
        stacks.release_all();
    }
}

/// Takes the lock. Its holder also holds the lock of the tracing state or of the framework, so a fork that holds these finds it free.
fn lock() -> MutexGuard<'static, Sampling> {
    let mut sampling = SAMPLING.lock().unwrap_or_else(PoisonError::into_inner);
    sampling.forget_the_parents();
    sampling
}

/// Records a sample of this thread, which a signal has interrupted. Called by the signal handler, with all signals blocked.
fn record(tag: Tag, registers: Registers, overrun: u64) {
    let Some(rate) = RATES.get(usize::from(tag.timer)) else { return };
    // SAFETY: `prepare` has stored a reference that is valid for ever.
    let Some(dtrace) = (unsafe { DTRACE.load(Ordering::Acquire).as_ref() }) else { return };
    if rate.generation.load(Ordering::Acquire) != tag.generation {
        return;
    }
    let place = Errno::here();
    let errno = place.get();
    let can_record = !hit::in_probe_context() && identity::is_own();
    let stack = can_record.then(|| STACKS.get().and_then(Stacks::take)).flatten();
    let Some(stack) = stack else { return dtrace.count_stray() };
    let late = rate.interval.load(Ordering::Relaxed).saturating_mul(overrun);
    let room = Room::Sample(stack.end());
    stack.call(|| {
        signal::leave_alternate_stack();
        let recorded = hit::set_records(true);
        let _note = Note::interrupted(registers, room);
        dtrace.sample(usize::from(tag.timer), 0, registers.counter as u64, late);
        // The interrupted code may be about to record a hit of its own. It must not use the memory that this hit has
        // cached.
        memory::begin_hit();
        hit::set_records(recorded);
    });
    place.set(errno);
}

impl Sampling {
    const fn new() -> Self {
        Self {
            process: 0,
            generation: 0,
            signal: 0,
            rates: Vec::new(),
            threads: BTreeMap::new(),
            others: BTreeSet::new(),
            waiting: BTreeSet::new(),
            due: None,
        }
    }

    /// Forgets the timers of the parent, in the child of a `fork`.
    fn forget_the_parents(&mut self) {
        let own = identity::generation();
        if self.process == own {
            return;
        }
        self.process = own;
        let timers = std::mem::take(&mut self.threads).into_values().flatten();
        timers.for_each(|(_, timer)| timer.forget());
        self.others.clear();
        self.waiting.clear();
    }

    fn start(&mut self, timer: u8, interval: u64, slots: usize) -> Result<(), Unsampled> {
        if sandbox::may_end_the_process() {
            return Err(Unsampled::Sandbox);
        }
        match CALLS.load(Ordering::Acquire) {
            0 => {}
            error => return Err(Unsampled::Calls(io::Error::from_raw_os_error(error))),
        }
        if !HAS_VARIABLES.load(Ordering::Acquire) {
            return Err(Unsampled::Library);
        }
        if STACKS.get().is_none() {
            // A second thread cannot be here: the caller holds the lock of `SAMPLING`.
            STACKS.set(Stacks::new(slots).map_err(Unsampled::Stacks)?).ok();
        }
        let masks = masks().map_err(Unsampled::Threads)?;
        let blocks = |signal: c_int| masks.iter().filter(|&&mask| has(mask, signal)).count();
        self.signal = signal::install(blocks)?;
        // A tag has 24 bits for the generation.
        self.generation = self.generation % 0x00ff_ffff + 1;
        let tag = Tag { timer, generation: self.generation };
        let Some(rate) = RATES.get(usize::from(timer)) else { return Ok(()) };
        rate.interval.store(interval, Ordering::Relaxed);
        rate.generation.store(tag.generation, Ordering::Release);
        self.rates.push((tag, Duration::from_nanos(interval)));
        self.scan_all(true)?;
        // The next scan soon finds the threads that were about to begin.
        self.due = Some([Instant::now() + PAUSE; 2]);
        Ok(())
    }

    fn stop(&mut self, timer: u8) {
        if let Some(rate) = RATES.get(usize::from(timer)) {
            rate.generation.store(0, Ordering::Release);
        }
        self.rates.retain(|(tag, _)| tag.timer != timer);
        if self.rates.is_empty() {
            self.due = None;
            UNSAMPLED.store(0, Ordering::Relaxed);
        }
        // If the sandbox forbids the calls that delete timers, they keep running, and the handler ignores their
        // signals.
        if !sandbox::may_end_the_process() {
            self.threads.values_mut().for_each(|timers| timers.retain(|(of, _)| *of != timer));
        }
    }

    fn scan_if_due(&mut self) -> Option<Duration> {
        let [news, all] = self.due?;
        let start = Instant::now();
        if start >= news && !sandbox::may_end_the_process() {
            // If `/proc` cannot be read now, the threads keep their timers until the next time.
            if start >= all {
                self.scan_all(false).ok()
            } else {
                self.scan_new().ok()
            };
            let now = Instant::now();
            let next = now + ((now - start) * REST).max(PAUSE);
            self.due = Some(if start >= all { [now + PAUSE, next] } else { [next, all] });
        } else if start >= news {
            self.due = Some([start + PAUSE, all]);
        }
        self.due.map(|[news, _]| news.saturating_duration_since(Instant::now()))
    }

    /// Gives each thread its timers. If `all` is set, the first failure is the result.
    fn scan_all(&mut self, all: bool) -> Result<(), Unsampled> {
        if !signal::is_installed(self.signal) {
            self.threads.clear();
            self.others = listed().map_err(Unsampled::Threads)?;
            self.count();
            return Ok(());
        }
        let listed = listed().map_err(Unsampled::Threads)?;
        self.threads.retain(|thread, _| listed.contains(thread));
        self.waiting.retain(|thread| listed.contains(thread));
        self.others.clear();
        for thread in listed {
            match self.add(thread) {
                Err(why) if all => return Err(why),
                Err(_) => drop(self.others.insert(thread)),
                Ok(()) => {}
            }
        }
        self.count();
        Ok(())
    }

    /// Gives new threads their timers.
    fn scan_new(&mut self) -> Result<(), Unsampled> {
        if !signal::is_installed(self.signal) {
            return self.scan_all(false);
        }
        for thread in listed().map_err(Unsampled::Threads)? {
            if !self.threads.contains_key(&thread)
                && !self.others.contains(&thread)
                && self.add(thread).is_err()
            {
                self.others.insert(thread);
            }
        }
        self.count();
        Ok(())
    }

    fn count(&self) {
        let worker = WORKER.load(Ordering::Acquire);
        let count = self.others.iter().filter(|&&thread| thread != worker).count();
        UNSAMPLED.store(u32::try_from(count).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    /// Gives a thread its timers, if it can receive the signal.
    fn add(&mut self, listed: u32) -> Result<(), Unsampled> {
        let folder = Path::new("/proc/self/task").join(listed.to_string());
        // Checked before and after reading the status, because the thread may start or stop waiting in between.
        let waits = waits_for_signals(&folder);
        let Ok(status) = fs::read(folder.join("status")) else { return Ok(()) };
        let status = String::from_utf8_lossy(&status);
        let thread = number(&status).unwrap_or(listed);
        if threads::has_ended(&status) || thread == WORKER.load(Ordering::Acquire) {
            self.threads.remove(&listed);
            return Ok(());
        }
        if waits || waits_for_signals(&folder) {
            self.waiting.insert(listed);
        }
        // A filter may end the process for a system call of a hit.
        let is_sandboxed = !sandbox::is_allowed() && sandbox::is_tighter(&status);
        if has(mask(&status), self.signal) || self.waiting.contains(&listed) || is_sandboxed {
            self.threads.remove(&listed);
            let stat = fs::read(folder.join("stat")).unwrap_or_default();
            if !threads::is_io_worker(&String::from_utf8_lossy(&stat)) {
                self.others.insert(listed);
            }
            return Ok(());
        }
        let timers = self.threads.entry(listed).or_default();
        for &(tag, interval) in &self.rates {
            if timers.iter().any(|(of, timer)| *of == tag.timer && timer.is_alive()) {
                continue;
            }
            match Timer::start(thread, self.signal, tag, interval) {
                Ok(timer) => {
                    timers.retain(|(of, _)| *of != tag.timer);
                    timers.push((tag.timer, timer));
                }
                // The thread has ended.
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
                Err(error) => return Err(Unsampled::Timer(thread, error)),
            }
        }
        Ok(())
    }
}

/// Returns the numbers of all threads, as `/proc` has them.
fn listed() -> io::Result<BTreeSet<u32>> {
    let number = |name: &OsStr| name.to_str()?.parse::<u32>().ok();
    let mut found = BTreeSet::new();
    // Inserted one by one, because `collect` sorts them first, which takes much code.
    for task in fs::read_dir("/proc/self/task")? {
        found.extend(number(&task?.file_name()));
    }
    Ok(found)
}

/// Returns the signals that each thread blocks.
fn masks() -> io::Result<Vec<u64>> {
    let mut masks = Vec::new();
    threads::each(|_, status| {
        masks.push(mask(status));
        Ok(None::<()>)
    })?;
    Ok(masks)
}

/// Returns the signals that the thread with this status blocks.
fn mask(status: &str) -> u64 {
    threads::field(status, "SigBlk")
        .and_then(|mask| u64::from_str_radix(mask, 16).ok())
        .unwrap_or(0)
}

/// Returns whether a mask contains a signal.
const fn has(mask: u64, signal: c_int) -> bool {
    mask >> (signal - 1) & 1 != 0
}

/// Returns the number of the thread with this status in its own pid namespace. `/proc` may belong to another pid namespace.
fn number(status: &str) -> Option<u32> {
    threads::field(status, "NSpid")?.split_ascii_whitespace().last()?.parse().ok()
}

/// Returns whether a thread waits in `sigtimedwait(2)`, `sigwaitinfo(2)` or `sigwait(3)`. Meanwhile, its status does not show that it
/// blocks the signals for which it waits.
fn waits_for_signals(folder: &Path) -> bool {
    let call = fs::read_to_string(folder.join("syscall")).unwrap_or_default();
    let number = call.split_ascii_whitespace().next().and_then(|number| number.parse().ok());
    number == Some(libc::SYS_rt_sigtimedwait)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_read() {
        let status = "Name:\tx\nNSpid:\t4711\t12\nSigBlk:\tfffffffe7ffbfeff\n";
        assert_eq!((number(status), mask(status)), (Some(12), 0xffff_fffe_7ffb_feff));
        assert!(has(mask(status), 64) && has(mask(status), 34) && !has(mask(status), 33));
        assert_eq!((number(""), mask("")), (None, 0));
    }

    #[test]
    fn threads_that_wait_for_signals_are_recognised() {
        let (send, ids) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            // SAFETY: the set is initialised, and no signal is in it.
            unsafe {
                let mut none: libc::sigset_t = std::mem::zeroed();
                libc::sigemptyset(&mut none);
                send.send(libc::gettid()).unwrap();
                let time = libc::timespec { tv_sec: 2, tv_nsec: 0 };
                libc::sigtimedwait(&none, ptr::null_mut(), &time);
            }
        });
        let folder = Path::new("/proc/self/task").join(ids.recv().unwrap().to_string());
        let deadline = Instant::now() + Duration::from_secs(1);
        while !waits_for_signals(&folder) {
            assert!(Instant::now() < deadline);
        }
        thread.join().unwrap();
        assert!(!waits_for_signals(Path::new("/proc/self")));
    }
}
