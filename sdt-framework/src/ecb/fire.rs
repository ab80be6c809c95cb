//! A probe fires. Everything here is probe context.

use core::sync::atomic::Ordering;

use crate::buffer::{ARGS, Activity, Consumer, Event};
use crate::dif::{Failure, Probe};
use crate::dtrace::{Dtrace, LiveProbe, PerCpu, Shared};
use crate::ecb::{Ecb, What};
use crate::host::Host;
use crate::program::clause::Clause;
use crate::program::run::{self, Hit, Outcome};
use crate::program::surroundings::Surroundings;
use crate::program::tracing::Tracing;
use crate::providers::Own;
use crate::registry::{Notify, Origin};

/// Nanoseconds for which a consumer may say nothing (`dtrace_deadman_user`, dtrace.c).
const PATIENCE: u64 = 30_000_000_000;

/// A hit on its way to the enablings.
struct Incoming<'a, H: Host> {
    shared: &'a Shared<H>,
    cpu: usize,
    id: u32,
    brought: Brought<'a>,
    /// The only consumer that it is for, if it is one of `dtrace`'s probes that fires, and which.
    only: Option<(usize, Own)>,
}

/// What became of a hit.
#[derive(Default)]
struct Tally {
    records: usize,
    drops: usize,
}

/// The arguments that a hit brings along.
#[derive(Clone, Copy)]
pub(crate) enum Brought<'a> {
    /// All that there are.
    All(&'a [u64; ARGS]),
    /// The first five; the provider may know of more.
    Five(&'a [u64; 5]),
}

/// Whether a hit was in user mode, as far as the provider says: what who may not see the kernel is told of
/// (`DTRACE_COND_USERMODE`, with the mode `DTRACE_MODE_NOPRIV_DROP`, which is what providers without the op have).
fn is_usermode(probe: &LiveProbe, id: u32) -> bool {
    probe.origin().is_some_and(|origin| {
        // SAFETY: it was live in this probe context, which unregistering waits for.
        unsafe { origin.is_usermode(id) }
    })
}

impl<H: Host> Dtrace<H> {
    /// A probe was hit, with the five arguments that the kernels' `dtrace_probe` takes. The sixth to
    /// the tenth are asked of the provider's `getargval`, if it has one and somebody records the hit;
    /// otherwise they are 0. It is asked for all of them, for nobody says how many a probe has, and is
    /// given the `aframes` that the probe was created with.
    ///
    /// Probe context, as [`probe`](Self::probe). Any `id` will do: one that is no probe, or not any more, is
    /// counted.
    ///
    /// # Safety
    /// If the probe's provider has a `getargval`, this is a hit that the provider has made.
    pub unsafe fn probe5(&self, id: u32, args: [u64; 5]) {
        self.host.without_interrupts(|| self.record_hit(id, Brought::Five(&args)));
    }

    /// Records a hit, or counts why not. With interrupts off.
    pub(crate) fn record_hit(&self, id: u32, brought: Brought<'_>) {
        let cpu = self.host.cpu();
        let here = self.shared().ok().and_then(|shared| Some((shared, shared.cpus.get(cpu)?)));
        match here {
            Some((shared, this)) => {
                if this.enter() {
                    let hit = Incoming { shared, cpu, id, brought, only: None };
                    self.record_once(this, &hit);
                    this.leave();
                }
            }
            None => {
                self.stray.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// A probe of `dtrace`'s own fires for one consumer; returns on which CPU. By threads with interrupts on.
    pub(crate) fn fire_own(&self, own: Own, consumer: usize, args: &[u64; ARGS]) -> usize {
        self.host.without_interrupts(|| {
            let cpu = self.host.cpu();
            let here = self.shared().ok().and_then(|shared| Some((shared, shared.cpus.get(cpu)?)));
            let Some((shared, this)) = here else { return cpu };
            if let Some(id) = self.own.id(own)
                && this.enter()
            {
                let only = Some((consumer, own));
                let hit = Incoming { shared, cpu, id, brought: Brought::All(args), only };
                self.record_once(this, &hit);
                this.leave();
            }
            cpu
        })
    }

    fn record_once(&self, this: &PerCpu, hit: &Incoming<'_, H>) {
        let Some(Tally { records, drops }) = self.each(hit) else {
            this.count_unknown();
            return;
        };
        this.count_hit(records, drops);
    }

    /// Does what all enablings say; `None` if there is no such probe.
    fn each(&self, hit: &Incoming<'_, H>) -> Option<Tally> {
        // One by one: what has just been written in words is slow to read in larger pieces.
        let (shared, cpu, id) = (hit.shared, hit.cpu, hit.id);
        let only = &hit.only;
        let index = id.checked_sub(1)? as usize;
        let probe = shared.probes.get(index).filter(|probe| probe.is_live())?;
        let mut tally = Tally::default();
        let predicate = probe.predicate.load(Ordering::Relaxed);
        let kernel = self.host.kernel();
        if predicate != 0
            && kernel.predicate_cache().is_some_and(|of| of.load(Ordering::Relaxed) == predicate)
        {
            // It was false for this thread, and nothing that it looks at has changed.
            return Some(tally);
        }
        // Made for the first enabling that wants it; all see the same time and arguments.
        let mut made: Option<Event> = None;
        let mut found: Option<(u64, Origin)> = None;
        if only.is_none() && self.own.is(id) {
            // Nobody else makes them fire.
            return Some(tally);
        }
        probe.chain.for_each(shared.ecbs, |_, ecb| {
            let Some(consumer) = shared.consumers.get(ecb.consumer) else { return };
            let is_meant = only.as_ref().is_none_or(|(only, _)| *only == ecb.consumer);
            if !is_meant || !consumer.takes(only.as_ref().map(|(_, own)| *own)) {
                return;
            }
            if only.is_none() && !consumer.rights().kernel() && !is_usermode(probe, id) {
                return;
            }
            // SAFETY: the ECB is on the chain, or was in this probe context.
            if let Some(clause) = unsafe { ecb.what.clause() } {
                let Some(tracing) = consumer.tracing() else { return };
                let (now, origin) = found.get_or_insert_with(|| {
                    (self.host.timestamp(), probe.origin().unwrap_or(Origin::NONE))
                });
                if self.is_dead(consumer, tracing, *now) {
                    return;
                }
                // SAFETY: with interrupts off, no clause is being run on this CPU: the one before is done with.
                let outcome = unsafe {
                    self.run_clause(hit, consumer, tracing, *now, origin, ecb.epid, clause)
                };
                match outcome {
                    Outcome::False => {
                        let cached = clause.cache != 0 && clause.cache == predicate;
                        if cached
                            && kernel.interrupts() == 0
                            && let Some(cache) = kernel.predicate_cache()
                        {
                            cache.store(predicate, Ordering::Relaxed);
                        }
                    }
                    Outcome::Done => tally.records += 1,
                    Outcome::Dropped => tally.drops += 1,
                    Outcome::Failed { action, failure } => {
                        tally.drops += 1;
                        self.fail(hit, ecb, tracing, action, &failure);
                    }
                }
                return;
            }
            let What::Args(recording) = ecb.what else { return };
            let Some(buffer) = consumer.buffers().and_then(|buffers| buffers.get(cpu)) else {
                return;
            };
            let event = made.get_or_insert_with(|| self.event(cpu, probe, id, hit.brought));
            let (words, len) = event.record(ecb.epid, recording);
            // SAFETY: only this CPU writes to its buffers, and only here, where it does not
            // re-enter (`enter`) and is not preempted (`Host`).
            match unsafe { buffer.ring.push(words.get(..len).unwrap_or_default()) } {
                true => tally.records += 1,
                false => tally.drops += 1,
            }
        });
        Some(tally)
    }

    /// Runs a clause for a consumer.
    ///
    /// # Safety
    /// With interrupts off, while no clause is being run on this CPU.
    #[allow(clippy::too_many_arguments, reason = "all of it was found on the way here")]
    unsafe fn run_clause(
        &self,
        incoming: &Incoming<'_, H>,
        consumer: &Consumer<H>,
        tracing: &Tracing,
        timestamp: u64,
        origin: &Origin,
        epid: u32,
        clause: &Clause,
    ) -> Outcome {
        let (cpu, id) = (incoming.cpu, incoming.id);
        let (args, more): (&[u64], _) = match incoming.brought {
            Brought::All(args) => (args, None),
            Brought::Five(args) => (args, Some(origin)),
        };
        let now = || self.host.timestamp();
        let host = self.host.kernel();
        let kernel = Surroundings {
            host,
            now: &now,
            tracing,
            cpu,
            id,
            origin: more,
            aframes: origin.aframes,
        };
        let rights = if incoming.only.is_some() { &tracing.own_rights } else { &tracing.rights };
        // SAFETY: the probe is live, or was in this probe context.
        let names = unsafe { origin.names() };
        let hit = Hit {
            kernel: &kernel,
            tracing,
            rights,
            activity: &consumer.activity,
            cpu,
            timestamp,
            aframes: origin.aframes,
        };
        // SAFETY: by the contract above.
        unsafe { hit.run(Probe { id, names, args }, epid, clause) }
    }

    /// A clause was given up: `dtrace:::ERROR` fires for its consumer, unless that is what has just fired.
    #[cold]
    fn fail(
        &self,
        hit: &Incoming<'_, H>,
        ecb: &Ecb,
        tracing: &Tracing,
        action: usize,
        failure: &Failure,
    ) {
        let Some(here) = tracing.cpus.get(hit.cpu) else { return };
        // What ERROR cannot tell, as it has failed itself or is not there, is counted apart: consumers say how many there were.
        let is_error = matches!(hit.only, Some((_, Own::Error)));
        let teller = self.own.id(Own::Error).filter(|_| !is_error);
        run::count(if teller.is_none() { &here.double_errors } else { &here.errors });
        // SAFETY: this CPU, in probe context, and no clause is being run.
        unsafe { here.records.write(|records| records.errors = records.errors.wrapping_add(1)) };
        let Some(id) = teller else { return };
        let [a, b, c, d, e] = run::error_arguments(ecb.epid, action, failure);
        let args = [tracing.number.into(), a, b, c, d, e, 0, 0, 0, 0];
        let only = Some((ecb.consumer, Own::Error));
        let error =
            Incoming { shared: hit.shared, cpu: hit.cpu, id, brought: Brought::All(&args), only };
        self.each(&error);
    }

    /// Whether the consumer is not there any more, as it has not been heard of for long; then it is given up
    /// (`dtrace_deadman_timeout`), unless it may destroy anyway.
    fn is_dead(&self, consumer: &Consumer<H>, tracing: &Tracing, now: u64) -> bool {
        let is_late = now.saturating_sub(tracing.alive.get()) > PATIENCE;
        if is_late && !tracing.destructive {
            consumer.turn(Activity::Killed);
            return true;
        }
        false
    }

    fn event(&self, cpu: usize, probe: &LiveProbe, id: u32, brought: Brought<'_>) -> Event {
        let timestamp = self.host.timestamp();
        let args = match brought {
            Brought::All(args) => *args,
            Brought::Five(&[a, b, c, d, e]) => {
                let origin = probe.origin();
                let ask = |argno| {
                    origin.map_or(0, |origin| {
                        // SAFETY: it was live in this probe context, which unregistering waits for.
                        unsafe { origin.arg_value(id, argno) }
                    })
                };
                [a, b, c, d, e, ask(5), ask(6), ask(7), ask(8), ask(9)]
            }
        };
        Event { probe: id, cpu: cpu as u32, timestamp, args }
    }

    /// Calls the `suspend` op of every enabled probe (`dtrace_suspend`): a debugger is about to stop
    /// the machine. Takes no lock; other CPUs may be in any state.
    pub fn suspend(&self) {
        self.for_each_enabled(|origin| origin.suspend);
    }

    /// Calls the `resume` op of every enabled probe (`dtrace_resume`), after [`suspend`](Self::suspend).
    /// Takes no lock.
    pub fn resume(&self) {
        self.for_each_enabled(|origin| origin.resume);
    }

    fn for_each_enabled(&self, op: impl Fn(&Origin) -> Option<Notify>) {
        self.host.without_interrupts(|| {
            for (id, probe) in (1..).zip(self.shared().map_or(&[][..], |shared| shared.probes)) {
                if probe.chain.is_empty() {
                    continue;
                }
                if let Some(origin) = probe.origin()
                    && let Some(op) = op(&origin)
                {
                    // SAFETY: as with `getargval`: the probe was live with interrupts off, so the provider
                    // is registered, and it declared the op sound to call here.
                    unsafe { op(origin.arg, id, origin.parg) };
                }
            }
        });
    }
}
