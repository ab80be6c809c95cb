//! The framework's CPUs in a process: slots that threads take for the time of a hit.
//!
//! A kernel turns interrupts off, and a thread stays on its CPU. A process cannot, so what the framework takes for a CPU
//! is a *slot*, of which there are a few more than the machine has CPUs. A thread that hits a probe claims a free one, that
//! of the CPU it runs on if it can, and gives it back when the hit has been recorded. If it is preempted in between, it
//! keeps the slot, and others take others.
//!
//! A signal handler that hits a probe while its thread is recording claims a slot of its own, so nothing that fires in a
//! signal handler is lost. If none is free the hit is counted as re-entered: the handler cannot wait, its own thread
//! may have what it would wait for. Elsewhere a thread waits for a slot, but not for ever: whoever has them all may be
//! stopped in a signal handler (collectors of garbage stop threads so). Then the hit is counted as stray. So is one in a
//! signal handler whose alternate stack has too little room for what would record it.
//!
//! Timers fire on the first slot, and nowhere else: a process has no CPUs that could be looked at.
//!
//! `errno` is after a hit what it was before, and that is what programs in D see.

use std::cell::Cell;
use std::collections::TryReserveError;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use sdt_framework::Host;
use sdt_framework::kernel::Kernel;

use crate::kernel::Program;
use crate::lock::Lock;
use crate::{memory, stack};

/// How often a thread lets others run before it begins to sleep in between.
const YIELDS: usize = 100;
/// How often it sleeps, and how long, before it gives up waiting for a slot: two seconds in all. Who has one and was
/// preempted waits for a CPU for as long as the machine is busy.
const SLEEPS: usize = 20_000;
const SLEEP: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 100_000 };

/// The slots. See the [module](self).
#[derive(Debug)]
pub struct Slots {
    slots: Box<[Slot]>,
    /// What programs in D see of this one.
    pub(crate) program: Program,
    /// The word of each thread, by its number. No number is given twice, so a word is one thread's for ever.
    caches: Box<[AtomicU32]>,
}

/// Threads that have a word.
const CACHES: usize = 1024;

/// How often a slot has been claimed and given back: odd while somebody has it. On a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Slot {
    crossings: AtomicUsize,
}

/// A slot that this thread has.
#[derive(Clone, Copy)]
struct Held {
    of: *const Slots,
    slot: usize,
    /// How many hits it has interrupted.
    depth: u8,
    /// What `errno` was before.
    errno: libc::c_int,
}

thread_local! {
    // Neither is allocated or dropped, so signal handlers can use them. What the innermost hit of this thread has claimed:
    static HELD: Cell<Option<Held>> = const { Cell::new(None) };
    // Whether this thread is firing timers:
    static TICKS: Cell<bool> = const { Cell::new(false) };
    // Which thread it is; 0 until somebody asks:
    static NUMBER: AtomicU64 = const { AtomicU64::new(0) };
}

/// A number that no other thread of this process has or has had, from 1.
pub(crate) fn thread_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NUMBER.with(|number| {
        let mine = number.load(Ordering::Relaxed);
        if mine != 0 {
            return mine;
        }
        let new = NEXT.fetch_add(1, Ordering::Relaxed);
        // A signal handler may have come in between.
        match number.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => new,
            Err(mine) => mine,
        }
    })
}

/// An address that is above all frames of this thread, if the C library has put what is the thread's own above its stack.
pub(crate) fn thread_local_address() -> usize {
    HELD.with(|held| std::ptr::from_ref(held).addr())
}

/// What `errno` was before the hit that is being recorded.
pub(crate) fn errno() -> Option<libc::c_int> {
    HELD.get().map(|held| held.errno)
}

/// How many hits the one that is being recorded has interrupted.
pub(crate) fn depth() -> u8 {
    HELD.get().map_or(0, |held| held.depth)
}

/// Whether this thread is recording a hit: a signal handler has interrupted that.
pub(crate) fn in_probe_context() -> bool {
    HELD.get().is_some()
}

impl Slots {
    /// Bytes that each takes.
    pub(crate) const EACH: usize = size_of::<Slot>();

    /// So many; at least one.
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
            caches: (0..CACHES).map(|_| AtomicU32::new(0)).collect(),
        })
    }

    /// As many as two threads for each CPU take, and a few for programs on a small machine.
    pub fn for_this_machine() -> usize {
        // SAFETY: asks for a number.
        let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
        2 * usize::try_from(cpus).unwrap_or(1) + 6
    }

    /// Takes back what threads had that are no more.
    ///
    /// # Safety
    /// The process has one thread, which has no slot: that of a `fork`.
    pub(crate) unsafe fn take_back(&self) {
        for slot in &self.slots {
            let seen = slot.crossings.load(Ordering::Relaxed);
            slot.crossings.store(seen.next_multiple_of(2), Ordering::Relaxed);
        }
    }

    /// Runs what fires timers: on the first slot, and what it fires stays there.
    pub(crate) fn ticking<R>(&self, f: impl FnOnce() -> R) -> R {
        TICKS.set(true);
        let result = f();
        TICKS.set(false);
        result
    }

    /// The word of the thread that runs: its predicate that was false.
    pub(crate) fn cache(&self) -> Option<&AtomicU32> {
        self.caches.get(usize::try_from(thread_number()).ok()?)
    }

    /// A free slot, or the one that the thread has in what it has interrupted. `None` if there is none for long.
    fn claim(&self, outer: Option<Held>) -> Option<(usize, Option<Claim<'_>>)> {
        let ticks = TICKS.get();
        // The thread that ticks runs no handlers of the program's.
        if !ticks && !stack::has_room() {
            return None;
        }
        if let Some(outer) = outer.filter(|outer| ticks && std::ptr::eq(outer.of, self)) {
            // A timer that fires, and no signal handler: the thread that ticks takes no signals.
            return Some((outer.slot, None));
        }
        let (first, choice) = if ticks {
            (0, 1)
        } else {
            // SAFETY: asks for a number.
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
            if let Some(outer) = outer.filter(|outer| std::ptr::eq(outer.of, self)) {
                return Some((outer.slot, None));
            }
            if round < YIELDS {
                // SAFETY: lets others run.
                unsafe { libc::sched_yield() };
            } else {
                sleep();
            }
        }
        None
    }
}

/// Sleeps for [`SLEEP`], so that threads run that hold a slot. A signal may end it early.
///
/// The bare system call: the C library's `nanosleep` is a cancellation point (pthreads(7)), and a thread that is cancelled in
/// the middle of a hit cannot be unwound.
fn sleep() {
    let rest = std::ptr::null_mut::<libc::timespec>();
    // SAFETY: the kernel reads `SLEEP`, and writes nothing.
    unsafe { libc::syscall(libc::SYS_nanosleep, &SLEEP, rest) };
}

/// This thread's `errno`.
struct Errno(*mut libc::c_int);

impl Errno {
    fn here() -> Self {
        // SAFETY: says where it is.
        Self(unsafe { libc::__errno_location() })
    }

    fn get(&self) -> libc::c_int {
        // SAFETY: this thread's.
        unsafe { *self.0 }
    }

    fn set(&self, errno: libc::c_int) {
        // SAFETY: as above.
        unsafe { *self.0 = errno };
    }
}

impl Slot {
    fn try_claim(&self) -> Option<Claim<'_>> {
        let seen = self.crossings.load(Ordering::Relaxed);
        let claimed = seen.is_multiple_of(2)
            && self
                .crossings
                .compare_exchange(seen, seen + 1, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok();
        // Made only if it is: it is given back when it is dropped.
        claimed.then(|| Claim { slot: self, free: seen.wrapping_add(2) })
    }
}

/// A slot's, given back when it is dropped.
struct Claim<'s> {
    slot: &'s Slot,
    free: usize,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.slot.crossings.store(self.free, Ordering::Release);
    }
}

/// What the thread held before, noted again when this is dropped, and the claim given back after that: a handler that
/// comes in between takes another slot.
struct Within<'s> {
    outer: Option<Held>,
    errno: (Errno, libc::c_int),
    _claim: Option<Claim<'s>>,
}

impl Drop for Within<'_> {
    fn drop(&mut self) {
        HELD.set(self.outer);
        let (place, before) = &self.errno;
        place.set(*before);
    }
}

// SAFETY: a slot is claimed by one compare-exchange and given back by its owner, so no two threads have one at the same
// time, and each acquires what the one before released; a handler that runs on its thread's slot interrupts it and
// returns. A thread without a slot gets a number that the framework has no room for: it counts the hit as stray and
// touches nothing else. `sync` and the threads order themselves by read-modify-writes of `crossings`: if that of `sync`
// comes after a claim, it waits for the end and acquires it; if before, the claim acquires what `sync` released.
unsafe impl Host for Slots {
    type Lock = Lock;

    fn cpu(&self) -> usize {
        HELD.get()
            .filter(|held| std::ptr::eq(held.of, self))
            .map_or(self.slots.len(), |held| held.slot)
    }

    fn cpus(&self) -> usize {
        self.slots.len()
    }

    fn timestamp(&self) -> u64 {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: writes the time; safe in signal handlers (POSIX). It cannot fail for this clock.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }

    fn without_interrupts<R>(&self, f: impl FnOnce() -> R) -> R {
        let place = Errno::here();
        let errno = place.get();
        let outer = HELD.get();
        memory::forget();
        let claimed = self.claim(outer);
        let slot = claimed.as_ref().map_or(self.slots.len(), |(slot, _)| *slot);
        let claim = claimed.and_then(|(_, claim)| claim);
        let depth = match outer {
            Some(outer) if TICKS.get() => outer.depth,
            Some(outer) => outer.depth.saturating_add(1),
            None => 0,
        };
        let _within = Within { outer, errno: (place, errno), _claim: claim };
        HELD.set(Some(Held { of: self, slot, depth, errno }));
        f()
    }

    fn kernel(&self) -> &(dyn Kernel + Sync) {
        self
    }

    fn sync(&self) {
        for Slot { crossings } in &self.slots {
            let seen = crossings.fetch_add(0, Ordering::AcqRel);
            while !seen.is_multiple_of(2) && crossings.load(Ordering::Acquire) == seen {
                std::thread::yield_now();
            }
        }
    }

    fn relax() {
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_one_threads() {
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
        assert!(!in_probe_context());
    }

    #[test]
    fn what_interrupts_takes_another_slot_while_there_is_one() {
        let slots = Slots::new(2).unwrap();
        slots.without_interrupts(|| {
            let outer = slots.cpu();
            slots.without_interrupts(|| {
                let inner = slots.cpu();
                assert_ne!(outer, inner);
                // None is left: it re-enters what it interrupts.
                slots.without_interrupts(|| assert_eq!(slots.cpu(), inner));
                assert_eq!(slots.cpu(), inner);
            });
            assert_eq!(slots.cpu(), outer);
        });
        assert_eq!(slots.cpu(), slots.cpus());
    }

    #[test]
    fn who_waits_in_vain_is_on_no_cpu() {
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
    fn sync_waits_for_who_is_inside() {
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
    fn slots_of_the_dead_are_taken_back() {
        let slots = Slots::new(2).unwrap();
        std::mem::forget(slots.slots[0].try_claim().unwrap());
        // SAFETY: nobody uses them.
        unsafe { slots.take_back() };
        slots.sync();
        assert!(slots.slots.iter().all(|slot| slot.try_claim().is_some()));
    }
}
