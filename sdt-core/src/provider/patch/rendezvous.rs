//! A rendezvous: all CPUs synchronise, and one CPU waits for them.

use core::sync::atomic::Ordering;

use crate::atomic::AtomicUsize;

use super::machine::synchronise_cpu;

/// Makes every CPU execute the current text: an implementation of
/// [`Patcher::synchronise`](super::Patcher::synchronise), for which the host sends the interrupt.
///
/// `CPUS` is the greatest number of CPUs; they are numbered from 0. Use it as a `static`.
#[derive(Debug)]
pub struct Rendezvous<const CPUS: usize> {
    /// The number of requests. On a 64-bit machine it never wraps.
    requested: AtomicUsize,
    /// The number of the last request that each CPU acknowledged.
    seen: [AtomicUsize; CPUS],
}

impl<const CPUS: usize> Rendezvous<CPUS> {
    /// Returns a rendezvous without a request.
    pub const fn new() -> Self {
        Self { requested: AtomicUsize::new(0), seen: [const { AtomicUsize::new(0) }; CPUS] }
    }

    /// Returns when each of the first `online` CPUs has [acknowledged](Self::acknowledge) since the call.
    ///
    /// `this` is the CPU that calls, and the caller stays on it: pinned, not preempted, or with interrupts off. A
    /// thread that moved would acknowledge for a CPU that has not synchronised. `interrupt` interrupts all other CPUs,
    /// whose handlers acknowledge; one interrupt can serve two requests. `relax` is called while waiting. Several CPUs
    /// may call at the same time, with interrupts on or off, and acknowledge each other's requests while they wait.
    ///
    /// The call does not wait for CPUs that come online meanwhile: each [synchronises](synchronise_cpu) itself before
    /// it executes a site.
    ///
    /// # Panics
    /// `this` is not less than `CPUS`, or `online` is more than `CPUS`.
    pub fn request(
        &self,
        this: usize,
        online: usize,
        interrupt: impl FnOnce(),
        mut relax: impl FnMut(),
    ) {
        // A CPU that sees this store sees the earlier stores of text.
        let request = self.requested.fetch_add(1, Ordering::AcqRel) + 1;
        interrupt();
        for seen in &self.seen[..online] {
            while seen.load(Ordering::Acquire) < request {
                // Acknowledges this CPU's own request, and those of other CPUs, because interrupts of this CPU may be
                // off.
                self.acknowledge(this);
                relax();
            }
        }
    }

    /// Acknowledges open requests. The handler of the host's interrupt calls it with interrupts off. Costs two loads if
    /// there is no request. Probe context.
    ///
    /// # Panics
    /// `this` is not less than `CPUS`.
    pub fn acknowledge(&self, this: usize) {
        let (requested, seen) = (self.requested.load(Ordering::Acquire), &self.seen[this]);
        if seen.load(Ordering::Relaxed) < requested {
            synchronise_cpu();
            // The maximum, because an interrupt may have acknowledged a later request in between.
            seen.fetch_max(requested, Ordering::AcqRel);
        }
    }
}

impl<const CPUS: usize> Default for Rendezvous<CPUS> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    /// All CPUs request at the same time, and no request returns before all CPUs acknowledged it.
    #[test]
    fn nobody_is_passed_over() {
        const CPUS: usize = 4;
        const ROUNDS: usize = 500;
        static RENDEZVOUS: Rendezvous<CPUS> = Rendezvous::new();
        static RUNNING: AtomicUsize = AtomicUsize::new(CPUS);
        // Bounded, because a CPU whose thread has failed never acknowledges.
        static PASSED_OVER: AtomicUsize = AtomicUsize::new(0);
        thread::scope(|scope| {
            for cpu in 0..CPUS {
                scope.spawn(move || {
                    for _ in 0..ROUNDS {
                        let before: Vec<_> = RENDEZVOUS
                            .seen
                            .iter()
                            .map(|seen| seen.load(Ordering::Relaxed))
                            .collect();
                        RENDEZVOUS.request(cpu, CPUS, || {}, thread::yield_now);
                        let after = RENDEZVOUS.seen.iter().map(|seen| seen.load(Ordering::Relaxed));
                        let passed_over =
                            before.iter().zip(after).filter(|(before, after)| *before >= after);
                        PASSED_OVER.fetch_add(passed_over.count(), Ordering::Relaxed);
                    }
                    RUNNING.fetch_sub(1, Ordering::Relaxed);
                    while RUNNING.load(Ordering::Relaxed) != 0 {
                        RENDEZVOUS.acknowledge(cpu);
                        thread::yield_now();
                    }
                });
            }
        });
        assert_eq!(PASSED_OVER.load(Ordering::Relaxed), 0);
        assert_eq!(RENDEZVOUS.requested.load(Ordering::Relaxed), CPUS * ROUNDS);
    }

    /// A request waits for a CPU that does not acknowledge.
    #[test]
    fn a_cpu_that_is_late_is_waited_for() {
        static RENDEZVOUS: Rendezvous<2> = Rendezvous::new();
        static ANSWERED: AtomicBool = AtomicBool::new(false);
        let mut waited = 0;
        RENDEZVOUS.request(
            0,
            2,
            || {},
            || {
                waited += 1;
                if waited == 100 {
                    ANSWERED.store(true, Ordering::Relaxed);
                    RENDEZVOUS.acknowledge(1);
                }
            },
        );
        assert!(ANSWERED.load(Ordering::Relaxed));
        assert_eq!(waited, 100);
    }

    #[test]
    fn who_is_offline_is_not() {
        let rendezvous = Rendezvous::<8>::new();
        rendezvous.request(0, 1, || {}, || {});
        rendezvous.request(0, 1, || {}, || {});
    }
}
