//! The framework's CPUs in a process: slots, which threads claim for the time of a hit.
//!
//! A kernel turns interrupts off, and a thread stays on its CPU while it records a hit. A process cannot do that. So the framework
//! gets *slots* in place of CPUs, a few more than the machine has CPUs. A thread that hits a probe claims a free slot, that of its CPU
//! if it can, and releases it when the hit has been recorded. A thread that is preempted keeps its slot, and other threads claim
//! others.
//!
//! | situation | result |
//! |---|---|
//! | a signal handler hits a probe while its thread records a hit, and a slot is free | it claims a second slot; the hit is recorded |
//! | the same, and no slot is free | the hit is counted as re-entered: the handler cannot wait, as its own thread may hold the slot |
//! | another hit finds no free slot | the thread waits for at most two seconds, then the hit is counted as stray. Garbage collectors stop threads in signal handlers, possibly while they hold slots |
//! | the alternate signal stack has too little room to record a hit | the hit is counted as stray |
//! | `tick-N` fires | on the first slot only |
//! | `profile-N` fires in a thread, and no slot is free | the hit is counted as stray: the thread was interrupted anywhere, so it does not wait |
//!
//! A hit leaves `errno` as it was, and programs in D see that value.

use std::cell::{Cell, UnsafeCell};
use std::collections::TryReserveError;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use sdt_framework::Host;
use sdt_framework::kernel::Kernel;

use crate::borrowed::Arguments;
use crate::clock;
use crate::errno::Errno;
use crate::hit::{self, Hit};
use crate::lock::Lock;
use crate::memory;
use crate::pages;
use crate::program::Program;
use crate::sampling;
use crate::stack::{self, Room};

/// The number of attempts to claim a slot that a thread makes first. It yields the CPU between them.
const YIELDS: usize = 100;
/// The number of further attempts, each after a sleep of [`SLEEP`]: two seconds in all. The holder of a slot may have been
/// preempted on a busy machine.
const SLEEPS: usize = 20_000;
const SLEEP: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 100_000 };

/// The slots of a process. See the [module](self).
#[derive(Debug)]
pub struct Slots {
    slots: Box<[Slot]>,
    /// The name and the arguments of this process, which D programs read as `execname` and `execargs`.
    pub(crate) program: Program,
    /// The predicate cache of each thread, by the thread's number. No number is used twice.
    predicate_caches: Box<[AtomicU32]>,
}

/// The number of threads with a predicate cache.
const PREDICATE_CACHES: usize = 1024;

/// A slot, on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Slot {
    /// The number of claims and releases: odd while a thread holds the slot.
    crossings: AtomicUsize,
    /// The name of the thread that holds the slot, and the number of crossings at which it was read. Only the holder uses it.
    thread_name: UnsafeCell<([u8; THREAD_NAME], usize)>,
}

/// The size of the name of a thread with its zero byte (`TASK_COMM_LEN`, prctl(2)).
const THREAD_NAME: usize = 16;

// SAFETY: only the thread that has claimed the slot uses `thread_name` (`Slots::thread_name`).
unsafe impl Sync for Slot {}

thread_local! {
    /// Whether this thread is firing timers. Neither allocated nor dropped, so signal handlers can use it.
    static FIRES_TIMERS: Cell<bool> = const { Cell::new(false) };
}

impl Slots {
    /// The size of a slot in bytes.
    pub(crate) const EACH: usize = size_of::<Slot>();

    /// Creates this many slots, at least one.
    ///
    /// # Errors
    /// There is no memory for them.
    pub fn new(count: usize) -> Result<Self, TryReserveError> {
        let count = count.max(1);
        let mut slots = Vec::new();
        slots.try_reserve_exact(count)?;
        slots.resize_with(count, Slot::default);
        Ok(Self {
            slots: slots.into(),
            program: Program::this(),
            predicate_caches: (0..PREDICATE_CACHES).map(|_| AtomicU32::new(0)).collect(),
        })
    }

    /// Returns the default number of slots: two for each CPU, and six more.
    pub fn for_this_machine() -> usize {
        // SAFETY: returns a number and changes nothing.
        let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
        2 * usize::try_from(cpus).unwrap_or(1) + 6
    }

    /// Releases the slots of threads that do not exist in this process.
    ///
    /// # Safety
    /// The calling thread is the only one of the process and holds no slot, as in the child of a `fork` outside of a hit.
    pub(crate) unsafe fn release_all(&self) {
        for slot in &self.slots {
            let seen = slot.crossings.load(Ordering::Relaxed);
            slot.crossings.store(seen.next_multiple_of(2), Ordering::Relaxed);
        }
        crate::function::forget_handlers();
    }

    /// Runs `fire`, whose hits use the first slot.
    pub(crate) fn fire_timers<R>(&self, fire: impl FnOnce() -> R) -> R {
        FIRES_TIMERS.set(true);
        let result = fire();
        FIRES_TIMERS.set(false);
        result
    }

    /// Returns the predicate cache of the current thread.
    pub(crate) fn predicate_cache(&self) -> Option<&AtomicU32> {
        self.predicate_caches.get(usize::try_from(hit::thread_number()).ok()?)
    }

    /// Returns the name of the current thread, the same until the hit ends. Probe context.
    pub(crate) fn thread_name(&self) -> Option<&[u8]> {
        let hit = hit::current().filter(|hit| std::ptr::eq(hit.slots, self.address()))?;
        let slot = self.slots.get(hit.slot)?;
        let claim = slot.crossings.load(Ordering::Relaxed);
        let place = slot.thread_name.get();
        // SAFETY: this thread holds the slot. A hit that interrupts this one claims another slot, or it re-enters this slot and
        // runs no clause.
        if unsafe { (*place).1 } != claim {
            // SAFETY: this thread holds the slot, and this is the first call since the claim, so no reference to the
            // name exists. The kernel writes 16 bytes.
            unsafe {
                if libc::prctl(libc::PR_GET_NAME, (&raw mut (*place).0).cast::<u8>()) != 0 {
                    return None;
                }
                (*place).1 = claim;
            }
        }
        // SAFETY: the name does not change until the slot is released, after the hit.
        let name = unsafe { &(*place).0 };
        name.split(|byte| *byte == 0).next()
    }

    fn address(&self) -> *const () {
        std::ptr::from_ref(self).cast()
    }

    /// Claims a free slot, or re-enters the slot `held` of the interrupted hit. If no slot is free, returns `None` after two seconds
    /// if the hit `waits`, otherwise at once.
    fn claim(&self, held: Option<usize>, waits: bool) -> Option<(usize, Option<Claim<'_>>)> {
        let fires_timers = FIRES_TIMERS.get();
        if let Some(held) = held.filter(|_| fires_timers) {
            // A clause of a timer hits a probe. No signal handler can be the cause, because this thread blocks signals.
            return Some((held, None));
        }
        let (first, choice) = if fires_timers {
            (0, 1)
        } else {
            // SAFETY: returns a number and changes nothing.
            let cpu = usize::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(0);
            (cpu, self.slots.len())
        };
        for round in 0..YIELDS + SLEEPS {
            for offset in 0..choice {
                let index = (first + offset) % self.slots.len();
                if let Some(claim) = self.slots.get(index).and_then(Slot::try_claim) {
                    return Some((index, Some(claim)));
                }
            }
            if let Some(held) = held {
                return Some((held, None));
            }
            if !waits {
                return None;
            }
            if round < YIELDS {
                // SAFETY: gives up the CPU and changes nothing else.
                unsafe { libc::sched_yield() };
            } else {
                sleep();
            }
        }
        None
    }

    /// Runs `f` during a hit. Inlined for a hit that has interrupted no other one, as most hits: then there is no state to keep, and
    /// nothing waits for a copy of it.
    #[inline(always)]
    fn record<R>(&self, interrupted: Option<Hit>, f: impl FnOnce() -> R) -> R {
        let place = Errno::here();
        let errno = place.get();
        memory::begin_hit();
        // `SiteFramework::hit` or `sampling` has noted the stack and the arguments. For BEGIN, END, ERROR and `tick-N`, this function
        // checks it.
        let noted = stack::noted();
        let arguments = noted.map_or(Arguments::NONE, |(_, arguments)| arguments);
        let room = noted.map(|(room, _)| room).or_else(room);
        let held = interrupted.filter(|hit| std::ptr::eq(hit.slots, self.address()));
        let held = held.map(|hit| hit.slot);
        let claimed = room.and_then(|room| self.claim(held, room.waits()));
        let alternate_end = room.and_then(Room::alternate_end);
        let slot = claimed.as_ref().map_or(self.slots.len(), |(slot, _)| *slot);
        let claim = claimed.and_then(|(_, claim)| claim);
        let depth = match interrupted {
            Some(interrupted) if FIRES_TIMERS.get() => interrupted.depth,
            Some(interrupted) => interrupted.depth.saturating_add(1),
            None => 0,
        };
        let _end = EndOfHit { interrupted, errno: (place, errno), _claim: claim };
        let slots = self.address();
        hit::set_current(Some(Hit { slots, slot, depth, errno, alternate_end, arguments }));
        f()
    }

    /// Runs `f` during a hit that has interrupted another one.
    #[cold]
    #[inline(never)]
    fn record_nested<R>(&self, interrupted: Hit, f: impl FnOnce() -> R) -> R {
        self.record(Some(interrupted), f)
    }
}

/// Returns the stack of this thread if there is room on it to record a hit, and leaves `errno` as it was. Probe context.
#[inline]
pub(crate) fn room() -> Option<Room> {
    // The thread that fires timers runs no signal handlers of the program, so it needs no check.
    if FIRES_TIMERS.get() { Some(Room::Ordinary) } else { stack::room() }
}

/// Sleeps for [`SLEEP`], so that threads with slots can run. A signal may end the sleep early.
///
/// This is the bare system call. `nanosleep` of the C library is a cancellation point (pthreads(7)), and a thread that is cancelled
/// during a hit cannot be unwound.
fn sleep() {
    let rest = std::ptr::null_mut::<libc::timespec>();
    // SAFETY: the kernel reads `SLEEP`, a constant, and writes nothing, as `rest` is null.
    unsafe { libc::syscall(libc::SYS_nanosleep, &SLEEP, rest) };
}

impl Slot {
    fn try_claim(&self) -> Option<Claim<'_>> {
        let seen = self.crossings.load(Ordering::Relaxed);
        let claimed = seen.is_multiple_of(2)
            && self
                .crossings
                .compare_exchange(seen, seen + 1, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok();
        // Created only after success, as dropping it releases the slot.
        claimed.then(|| Claim { slot: self, free: seen.wrapping_add(2) })
    }
}

/// A claimed slot, which is released when this is dropped.
struct Claim<'s> {
    slot: &'s Slot,
    free: usize,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.slot.crossings.store(self.free, Ordering::Release);
    }
}

/// Ends a hit when it is dropped: makes the interrupted hit current and restores `errno`. The slot is released after that, so a
/// signal handler that runs in between claims another slot.
struct EndOfHit<'s> {
    interrupted: Option<Hit>,
    errno: (Errno, libc::c_int),
    _claim: Option<Claim<'s>>,
}

impl Drop for EndOfHit<'_> {
    fn drop(&mut self) {
        hit::set_current(self.interrupted);
        let (place, before) = &self.errno;
        place.set(*before);
    }
}

// SAFETY: One compare-exchange in `try_claim` claims a slot, and only its holder releases it, so no two threads hold a slot at the same
// time; each acquires what the previous holder released. A signal handler that re-enters its thread's slot interrupts the thread and
// returns to it. A thread without a slot gets the number `cpus()`, for which the framework has no buffers: it counts the hit as stray
// and touches nothing else. `sync` and the claims are ordered by read-modify-writes of `crossings`: if the one in `sync` comes after a
// claim, `sync` waits for the release and acquires it; if it comes before, the claim acquires what `sync` released.
unsafe impl Host for Slots {
    type Lock = Lock<Self>;

    fn cpu(&self) -> usize {
        hit::current()
            .filter(|hit| std::ptr::eq(hit.slots, self.address()))
            .map_or(self.slots.len(), |hit| hit.slot)
    }

    fn cpus(&self) -> usize {
        self.slots.len()
    }

    fn timestamp(&self) -> u64 {
        let now = clock::now(libc::CLOCK_MONOTONIC);
        memory::note_time(now);
        now
    }

    fn without_interrupts<R>(&self, f: impl FnOnce() -> R) -> R {
        match hit::current() {
            None => self.record(None, f),
            Some(interrupted) => self.record_nested(interrupted, f),
        }
    }

    fn discard(memory: NonNull<[u8]>) {
        pages::give_back(memory);
    }

    fn kernel(&self) -> &(dyn Kernel + Sync) {
        self
    }

    fn sync(&self) {
        for Slot { crossings, .. } in &self.slots {
            let seen = crossings.fetch_add(0, Ordering::AcqRel);
            while !seen.is_multiple_of(2) && crossings.load(Ordering::Acquire) == seen {
                std::thread::yield_now();
            }
        }
        crate::function::wait_for_handlers();
    }

    fn sample_threads(&self, timer: usize, interval: Option<u64>) -> bool {
        sampling::change(timer, interval, self.slots.len());
        true
    }

    fn unsampled_threads(&self) -> u32 {
        sampling::unsampled()
    }

    fn relax() {
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_threads_hold_a_slot() {
        let slots = Slots::new(3).unwrap();
        let owners = [const { AtomicUsize::new(0) }; 3];
        let hits = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        slots.without_interrupts(|| {
                            let mine = &owners[slots.cpu()];
                            assert_eq!(mine.fetch_add(1, Ordering::Relaxed), 0);
                            assert_eq!(mine.fetch_sub(1, Ordering::Relaxed), 1);
                            hits.fetch_add(1, Ordering::Relaxed);
                        });
                    }
                });
            }
            for _ in 0..1_000 {
                slots.sync();
            }
        });
        assert_eq!(hits.into_inner(), 160_000);
        assert!(!hit::in_probe_context());
    }

    #[test]
    fn a_signal_handler_claims_a_second_slot_while_one_is_free() {
        let slots = Slots::new(2).unwrap();
        slots.without_interrupts(|| {
            let outer = slots.cpu();
            slots.without_interrupts(|| {
                let inner = slots.cpu();
                assert_ne!(outer, inner);
                // No slot is left, so it re-enters the interrupted one.
                slots.without_interrupts(|| assert_eq!(slots.cpu(), inner));
                assert_eq!(slots.cpu(), inner);
            });
            assert_eq!(slots.cpu(), outer);
        });
        assert_eq!(slots.cpu(), slots.cpus());
    }

    #[test]
    fn a_thread_without_a_slot_has_no_cpu() {
        let slots = Slots::new(1).unwrap();
        slots.without_interrupts(|| {
            let cpu = std::thread::scope(|scope| {
                scope.spawn(|| slots.without_interrupts(|| slots.cpu())).join().unwrap()
            });
            assert_eq!(cpu, slots.cpus());
        });
        assert_eq!(slots.without_interrupts(|| slots.cpu()), 0);
    }

    #[test]
    fn sync_waits_for_the_holder_of_a_slot() {
        let slots = Slots::new(2).unwrap();
        let (inside, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                slots.without_interrupts(|| {
                    inside.store(1, Ordering::Release);
                    std::thread::sleep(std::time::Duration::from_millis(20));
                    done.store(1, Ordering::Release);
                });
            });
            while inside.load(Ordering::Acquire) == 0 {
                std::thread::yield_now();
            }
            slots.sync();
            assert_eq!(done.load(Ordering::Acquire), 1);
        });
    }

    #[test]
    fn slots_of_threads_that_do_not_exist_are_released() {
        let slots = Slots::new(2).unwrap();
        std::mem::forget(slots.slots[0].try_claim().unwrap());
        // SAFETY: no other thread uses these slots, and this thread holds none.
        unsafe { slots.release_all() };
        slots.sync();
        assert!(slots.slots.iter().all(|slot| slot.try_claim().is_some()));
    }
}
