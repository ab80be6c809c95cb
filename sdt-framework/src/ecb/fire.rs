//! A probe fires. Everything here is probe context.

use core::cell::Cell;
use core::sync::atomic::Ordering;

use sdt_core::ops::ProbeId;

use crate::buffer::{ARGS, Consumer, Event, Recording};
use crate::counters::PerCpu;
use crate::dif::{Failure, LEAST_WORK, Probe, Rights, WORK};
use crate::dtrace::{Dtrace, Shared};
use crate::ecb::{Ecb, What};
use crate::host::Host;
use crate::kernel::Kernel as _;
use crate::program::clause::{Clause, Test};
use crate::program::run::{self, Outcome, Run};
use crate::program::surroundings::Surroundings;
use crate::program::tracing::Tracing;
use crate::program::turn::Turn;
use crate::providers::Own;

/// A hit on its way to the enablings.
struct Hit<'a, H: Host> {
    shared: &'a Shared<H>,
    surroundings: &'a Surroundings<'a, H>,
    /// The arguments that it brings along.
    args: &'a [u64],
    rules: Rules,
}

/// For whom a hit is.
#[derive(Clone, Copy)]
struct Rules {
    /// Whether it is to be seen if consumers are still there, whatever their clauses say.
    checks: bool,
    /// The only consumer that it is for, if it is one of `dtrace`'s probes that fires, and which.
    only: Option<(usize, Own)>,
}

/// What became of a hit.
#[derive(Clone, Copy, Default)]
pub(crate) struct Tally {
    pub(crate) records: u32,
    pub(crate) drops: u32,
}

/// What the enablings of a probe share when it fires: made for the first one that wants it.
struct Shares<'a, H: Host> {
    run: Option<Run<'a, H>>,
    event: Option<Event>,
    /// When it fired, if somebody has looked: all see the same time.
    time: Option<u64>,
    /// What programs may still do.
    work: u32,
    /// Where `strtok` of a consumer's goes on behind a clause of its that has failed.
    token: Option<(&'a Tracing, u64)>,
}

/// What an enabling has made of a hit.
enum Recorded {
    Yes,
    /// There was no room, or a program was given up.
    No,
    /// It is nothing to it.
    Nothing,
    /// Its predicate is false.
    False,
}

/// The arguments that a hit brings along.
#[derive(Clone, Copy)]
pub(crate) enum Brought<'a> {
    /// All that there are.
    All(&'a [u64; ARGS]),
    /// The first five; the provider may know of more.
    Five(&'a [u64; 5]),
}

/// # A probe fires
///
/// For providers; [`hit`](sdt_core::ops::Framework::hit) of the [`Framework`](sdt_core::ops::Framework) is what sites call. All
/// of it is probe context.
impl<H: Host> Dtrace<H> {
    /// A probe was hit, with all the arguments it has: ten at most.
    ///
    /// Probe context: callable anywhere, with interrupts off and any lock held. Any `id` will do: one that is
    /// no probe, or not any more, is counted.
    pub fn probe<const COUNT: usize>(&self, id: ProbeId, args: &[u64; COUNT]) {
        const { assert!(COUNT <= ARGS, "a probe has at most 10 arguments") };
        let mut all = [0; ARGS];
        all.iter_mut().zip(args).for_each(|(place, arg)| *place = *arg);
        self.host.without_interrupts(|| self.record_hit(id.get(), Brought::All(&all)));
    }

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
    #[inline(never)]
    pub(crate) fn record_hit(&self, id: u32, brought: Brought<'_>) {
        let cpu = self.host.cpu();
        let here = self.shared().ok().and_then(|shared| Some((shared, shared.cpus.get(cpu)?)));
        match here {
            Some((shared, this)) => {
                if this.enter() {
                    let rules = Rules { checks: this.is_time_to_check(), only: None };
                    this.count(self.each(shared, (cpu, this), id, brought, rules));
                    this.leave();
                }
            }
            None => {
                self.stray.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// A hit whose probe was disabled while it was on its way. Probe context.
    #[cold]
    pub(crate) fn hit_is_overtaken(&self) {
        let cpu = self.host.cpu();
        let Some(this) = self.shared().ok().and_then(|shared| shared.cpus.get(cpu)) else {
            self.stray.fetch_add(1, Ordering::Relaxed);
            return;
        };
        if this.enter() {
            this.count(Some(Tally::default()));
            this.leave();
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
                let rules = Rules { checks: true, only: Some((consumer, own)) };
                this.count(self.each_apart(shared, (cpu, this), id, args, rules));
                this.leave();
            }
            cpu
        })
    }

    /// As [`each`](Self::each), for hits that are rare.
    #[cold]
    fn each_apart(
        &self,
        shared: &Shared<H>,
        here: (usize, &PerCpu),
        id: u32,
        args: &[u64; ARGS],
        rules: Rules,
    ) -> Option<Tally> {
        self.each(shared, here, id, Brought::All(args), rules)
    }

    /// Does what all enablings say; `None` if there is no such probe.
    #[inline(always)]
    fn each(
        &self,
        shared: &Shared<H>,
        (cpu, this): (usize, &PerCpu),
        id: u32,
        brought: Brought<'_>,
        rules: Rules,
    ) -> Option<Tally> {
        let index = id.checked_sub(1)? as usize;
        let probe = shared.probes.get(index).filter(|probe| probe.is_live())?;
        let mut tally = Tally::default();
        let predicate = probe.predicate.load(Ordering::Relaxed);
        let kernel = self.host.kernel();
        if predicate != 0
            && kernel.predicate_cache().is_some_and(|of| of.load(Ordering::Relaxed) == predicate)
            // What interrupts the thread has variables of its own.
            && kernel.interrupts() == 0
        {
            // It was false for this thread, and nothing that it looks at has changed.
            return Some(tally);
        }
        if rules.only.is_none() && self.own.is(id) {
            // Nobody else makes them fire.
            return Some(tally);
        }
        let (args, asks): (&[u64], _) = match brought {
            Brought::All(args) => (args, false),
            Brought::Five(args) => (args, true),
        };
        // SAFETY: it is live, and what is made of it is not used beyond this function.
        let origin = unsafe { probe.origin() };
        let (host, tracing) = (&self.host, Cell::new(None));
        let surroundings = &Surroundings { host, tracing, cpu, this, id, origin, asks };
        let hit = &Hit { shared, surroundings, args, rules };
        let work = if matches!(rules.only, Some((_, Own::Error))) { LEAST_WORK } else { WORK };
        let shares = &mut Shares { run: None, event: None, time: None, work, token: None };
        for (_, ecb) in probe.chain.walk(shared.ecbs) {
            let Some(consumer) = shared.consumers.get(ecb.consumer) else { continue };
            match rules.only {
                None => {
                    if !consumer.takes(None) {
                        continue;
                    }
                    // SAFETY: it was live in this probe context, which unregistering waits for.
                    if !consumer.rights().kernel() && !unsafe { origin.is_usermode(id) } {
                        continue;
                    }
                }
                Some((meant, own)) => {
                    if meant != ecb.consumer || !consumer.takes(Some(own)) {
                        continue;
                    }
                }
            }
            let recorded = match ecb.what {
                // SAFETY: with interrupts off, this CPU records nothing else meanwhile.
                What::Args(recording) => unsafe {
                    self.record(hit, shares, consumer, ecb.epid, recording)
                },
                What::Clause(clause) => {
                    let Some(tracing) = consumer.tracing() else { continue };
                    // SAFETY: the ECB is on the chain, or was in this probe context, and so its clause is there.
                    let clause = unsafe { clause.as_ref() };
                    let rights =
                        if rules.only.is_some() { &tracing.own_rights } else { &tracing.rights };
                    let turn = (consumer, tracing, rights);
                    let told = match &clause.test {
                        Test::Always => Some(Ok(true)),
                        Test::Guard(guard) => Some(guard.test(args, surroundings, rights)),
                        Test::Program => None,
                    };
                    let is_true = matches!(told, Some(Ok(true)));
                    // SAFETY: as above, and the clause before is done with.
                    let recorded = unsafe {
                        match clause.plain {
                            _ if matches!(told, Some(Ok(false))) && !rules.checks => {
                                Recorded::False
                            }
                            Some(_) if is_true && !rules.checks => {
                                self.run_plain(hit, &mut shares.time, turn, &ecb, clause)
                            }
                            _ => self.run(hit, shares, turn, &ecb, clause, is_true),
                        }
                    };
                    if matches!(recorded, Recorded::False)
                        && predicate != 0
                        && clause.cache == predicate
                        && kernel.interrupts() == 0
                        && let Some(cache) = kernel.predicate_cache()
                    {
                        cache.store(predicate, Ordering::Relaxed);
                    }
                    recorded
                }
            };
            match recorded {
                Recorded::Yes => tally.records += 1,
                Recorded::No => tally.drops += 1,
                Recorded::Nothing | Recorded::False => {}
            }
        }
        Some(tally)
    }

    /// Runs a clause for a consumer that needs no machine.
    ///
    /// # Safety
    /// As `run`.
    #[inline(never)]
    unsafe fn run_plain<'a>(
        &self,
        hit: &Hit<'a, H>,
        time: &mut Option<u64>,
        (consumer, tracing, rights): (&'a Consumer<H>, &'a Tracing, &'a Rights),
        ecb: &Ecb,
        clause: &Clause,
    ) -> Recorded {
        let kernel = hit.surroundings;
        let Some(here) = tracing.here(kernel.cpu) else { return Recorded::Nothing };
        let turn = Turn { kernel, tracing, here, rights, activity: &consumer.activity };
        // SAFETY: by the contract above.
        match unsafe { turn.step(hit.args, ecb.epid, clause, time) } {
            Outcome::Done => Recorded::Yes,
            other => self.became(hit, ecb, tracing, other),
        }
    }

    /// Runs a clause for a consumer.
    ///
    /// # Safety
    /// On the CPU of the hit, in its probe context, while no clause is being run on it.
    #[inline(never)]
    unsafe fn run<'a>(
        &self,
        hit: &Hit<'a, H>,
        shares: &mut Shares<'a, H>,
        (consumer, tracing, rights): (&'a Consumer<H>, &'a Tracing, &'a Rights),
        ecb: &Ecb,
        clause: &Clause,
        is_true: bool,
    ) -> Recorded {
        let kernel = hit.surroundings;
        let Some(here) = tracing.here(kernel.cpu) else { return Recorded::Nothing };
        let turn = Turn { kernel, tracing, here, rights, activity: &consumer.activity };
        // SAFETY: by the contract above.
        let outcome = unsafe {
            let run = match &mut shares.run {
                Some(run) => {
                    run.turn_to(turn);
                    run.firing.timestamp = shares.time;
                    run
                }
                none @ None => {
                    let probe = Probe { id: kernel.id, names: kernel, args: hit.args };
                    let run = Run::new(probe, kernel.cpu, turn, shares.time, shares.work);
                    let run = none.insert(run);
                    if let Some((of, token)) = shares.token
                        && core::ptr::eq(of, tracing)
                    {
                        run.firing.token = token;
                    }
                    run
                }
            };
            let outcome = if hit.rules.checks && run.is_dead() {
                Outcome::Dead
            } else {
                run.clause(ecb.epid, clause, is_true)
            };
            (shares.time, shares.work) = (run.firing.timestamp, run.firing.work);
            outcome
        };
        if matches!(outcome, Outcome::Failed { .. }) {
            // What it works in is ERROR's now.
            shares.token = shares.run.take().map(|run| (tracing, run.firing.token));
        }
        self.became(hit, ecb, tracing, outcome)
    }

    /// A clause has been run, and this became of it.
    #[inline(never)]
    fn became(&self, hit: &Hit<'_, H>, ecb: &Ecb, tracing: &Tracing, outcome: Outcome) -> Recorded {
        match outcome {
            Outcome::False => Recorded::False,
            Outcome::Dead => Recorded::Nothing,
            Outcome::Done => Recorded::Yes,
            Outcome::Dropped => Recorded::No,
            Outcome::Failed { action, failure } => {
                self.fail(hit, ecb, tracing, action, &failure);
                Recorded::No
            }
        }
    }

    /// Records arguments for a consumer.
    ///
    /// # Safety
    /// On the CPU of the hit, in its probe context.
    #[inline(never)]
    unsafe fn record(
        &self,
        hit: &Hit<'_, H>,
        shares: &mut Shares<'_, H>,
        consumer: &Consumer<H>,
        epid: u32,
        recording: Recording,
    ) -> Recorded {
        let buffer = consumer.buffers().and_then(|buffers| buffers.get(hit.surroundings.cpu));
        let Some(buffer) = buffer else { return Recorded::Nothing };
        let event = match &shares.event {
            Some(event) => event,
            None => {
                let timestamp = *shares.time.get_or_insert_with(|| self.host.timestamp());
                shares.event.insert(event(hit, timestamp))
            }
        };
        let (words, len) = event.record(epid, recording);
        // SAFETY: only this CPU writes to its buffers, and only here, where it does not re-enter (`enter`) and is not
        // preempted (`Host`).
        match unsafe { buffer.ring.push(words.get(..len).unwrap_or_default()) } {
            true => Recorded::Yes,
            false => Recorded::No,
        }
    }

    /// A clause was given up: `dtrace:::ERROR` fires for its consumer, unless that is what has just fired.
    #[cold]
    fn fail(
        &self,
        hit: &Hit<'_, H>,
        ecb: &Ecb,
        tracing: &Tracing,
        action: usize,
        failure: &Failure,
    ) {
        let Surroundings { cpu, this, .. } = *hit.surroundings;
        let Some(here) = tracing.here(cpu) else { return };
        // What ERROR cannot tell, as it has failed itself or is not there, is counted apart: consumers say how many there were.
        let is_error = matches!(hit.rules.only, Some((_, Own::Error)));
        let teller = self.own.id(Own::Error).filter(|_| !is_error);
        run::count(if teller.is_none() { &here.double_errors } else { &here.errors });
        // SAFETY: this CPU, in probe context, and no clause is being run.
        unsafe { here.records.write(|records| records.errors = records.errors.wrapping_add(1)) };
        let Some(id) = teller else { return };
        let [a, b, c, d, e] = run::error_arguments(ecb.epid, action, failure);
        let args = [tracing.number.into(), a, b, c, d, e, 0, 0, 0, 0];
        let rules = Rules { checks: false, only: Some((ecb.consumer, Own::Error)) };
        self.each_apart(hit.shared, (cpu, this), id, &args, rules);
    }
}

/// A hit as those see it who record arguments: the provider is asked for those that it has not brought along.
fn event<H: Host>(hit: &Hit<'_, H>, timestamp: u64) -> Event {
    let Surroundings { cpu, id, .. } = *hit.surroundings;
    let brought = |index| hit.args.get(index).copied();
    let arg = |index| brought(index).unwrap_or_else(|| hit.surroundings.argument(index as u64));
    Event { probe: id, cpu: cpu as u32, timestamp, args: core::array::from_fn(arg) }
}
