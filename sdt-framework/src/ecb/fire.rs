//! A probe fires. Everything here is probe context.

use core::cell::Cell;
use core::sync::atomic::Ordering;

use dtrace_abi::fault::Fault;
use sdt_core::ops::ProbeId;

use crate::buffer::{ARGS, Consumer, Event, Recording};
use crate::counters::PerCpu;
use crate::dif::{Failure, Probe, Rights, Token};
use crate::dtrace::{Dtrace, Shared};
use crate::ecb::budget::{Budget, MEET, RECORD, Table};
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
    /// What the enablings may do yet.
    budget: Budget,
    /// Where `strtok` of a consumer's goes on behind a clause of its that has failed.
    token: Option<(&'a Tracing, Option<Token>)>,
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
                if let Some(_in_probe) = this.enter() {
                    let rules = Rules { checks: this.is_time_to_check(), only: None };
                    this.count(self.each(shared, (cpu, this), id, brought, rules));
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
        if let Some(_in_probe) = this.enter() {
            this.count(Some(Tally::default()));
        }
    }

    /// A probe of `dtrace`'s own fires for one consumer; returns on which CPU. By threads with interrupts on.
    pub(crate) fn fire_own(&self, own: Own, consumer: usize, args: &[u64; ARGS]) -> usize {
        self.host.without_interrupts(|| {
            let cpu = self.host.cpu();
            let here = self.shared().ok().and_then(|shared| Some((shared, shared.cpus.get(cpu)?)));
            let Some((shared, this)) = here else { return cpu };
            if let Some(id) = self.own.id(own)
                && let Some(_in_probe) = this.enter()
            {
                let rules = Rules { checks: true, only: Some((consumer, own)) };
                this.count(self.each_apart(shared, (cpu, this), id, args, rules));
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
        let table = || Table { entries: shared.shares_of(cpu), hit: this.hit() };
        let budget = match rules.only {
            None => Budget::new(probe.consumers.load(Ordering::Relaxed)),
            Some((_, Own::Error)) => Budget::of_error(),
            // Of all that have enabled it one alone is meant.
            Some(_) => Budget::new(1),
        };
        let shares = &mut Shares { run: None, event: None, time: None, budget, token: None };
        if let Some((meant, _)) = rules.only {
            shares.budget.turn_to(meant, table);
        }
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
                        // ERROR may fire for many clauses of a hit, and walks past those of others each time.
                        if shares.budget.charge(MEET) {
                            continue;
                        }
                        break;
                    }
                }
            }
            if !shares.budget.turn_to(ecb.consumer, table) {
                continue;
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
                    if !shares.budget.charge(clause.layout.test.into()) {
                        self.exhausted(hit, shares, &ecb, tracing, clause);
                        tally.drops += 1;
                        continue;
                    }
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
                            _ if !shares.budget.charge(clause.layout.cost) => {
                                self.exhausted(hit, shares, &ecb, tracing, clause)
                            }
                            Some(_) if is_true && !rules.checks => {
                                self.run_plain(hit, shares, turn, &ecb, clause)
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
        if matches!(rules.only, Some((_, Own::Error))) {
            // The clauses that are behind the failed one go on with what is left.
            shares.budget.pause(table());
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
        shares: &mut Shares<'a, H>,
        (consumer, tracing, rights): (&'a Consumer<H>, &'a Tracing, &'a Rights),
        ecb: &Ecb,
        clause: &Clause,
    ) -> Recorded {
        let kernel = hit.surroundings;
        let Some(here) = tracing.here(kernel.cpu) else { return Recorded::Nothing };
        let turn = Turn { kernel, tracing, here, rights, activity: &consumer.activity };
        let (time, budget) = (&mut shares.time, &mut shares.budget);
        let mut work = budget.available();
        // SAFETY: by the contract above.
        let outcome = unsafe { turn.step(hit.args, ecb.epid, clause, time, &mut work) };
        budget.set_available(work);
        match outcome {
            Outcome::Done => Recorded::Yes,
            other => self.became(hit, shares, ecb, tracing, other),
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
                    let run = Run::new(probe, kernel.cpu, turn, shares.time);
                    let run = none.insert(run);
                    if let Some((of, token)) = shares.token
                        && core::ptr::eq(of, tracing)
                    {
                        run.firing.token = token;
                    }
                    run
                }
            };
            run.firing.work.set(shares.budget.available());
            let outcome = if hit.rules.checks && run.is_dead() {
                Outcome::Dead
            } else {
                run.clause(ecb.epid, clause, is_true)
            };
            shares.time = run.firing.timestamp;
            shares.budget.set_available(run.firing.work.get());
            outcome
        };
        self.became(hit, shares, ecb, tracing, outcome)
    }

    /// A clause is not run, as its consumer has used its share of the budget: that is a fault of its.
    #[cold]
    fn exhausted<'a>(
        &self,
        hit: &Hit<'a, H>,
        shares: &mut Shares<'a, H>,
        ecb: &Ecb,
        tracing: &'a Tracing,
        clause: &Clause,
    ) -> Recorded {
        // No instruction has failed: consumers print no offset.
        let failure = Failure { fault: Fault::IllegalOperation, offset: u32::MAX, address: 0 };
        let action = usize::from(clause.predicate.is_none());
        self.became(hit, shares, ecb, tracing, Outcome::Failed { action, failure })
    }

    /// A clause has been run, and this became of it.
    #[inline(never)]
    fn became<'a>(
        &self,
        hit: &Hit<'a, H>,
        shares: &mut Shares<'a, H>,
        ecb: &Ecb,
        tracing: &'a Tracing,
        outcome: Outcome,
    ) -> Recorded {
        match outcome {
            Outcome::False => Recorded::False,
            Outcome::Dead => Recorded::Nothing,
            Outcome::Done => Recorded::Yes,
            Outcome::Dropped => Recorded::No,
            Outcome::Failed { action, failure } => {
                // The scratch space of the run is ERROR's now.
                let run = shares.run.take_if(|run| core::ptr::eq(run.tracing(), tracing));
                if let Some(run) = run {
                    shares.token = Some((tracing, run.firing.token));
                }
                self.fail(hit, &mut shares.budget, ecb, tracing, action, &failure);
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
        if !shares.budget.charge(RECORD) {
            buffer.ring.refuse();
            return Recorded::No;
        }
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
        budget: &mut Budget,
        ecb: &Ecb,
        tracing: &Tracing,
        action: usize,
        failure: &Failure,
    ) {
        let Surroundings { cpu, this, .. } = *hit.surroundings;
        let Some(here) = tracing.here(cpu) else { return };
        // What ERROR cannot tell, as it has failed itself or is not there, is counted apart: consumers say how many there were.
        let is_error = matches!(hit.rules.only, Some((_, Own::Error)));
        let teller = self.own.id(Own::Error).filter(|_| !is_error && !budget.is_exhausted());
        run::count(if teller.is_none() { &here.double_errors } else { &here.errors });
        // SAFETY: this CPU, in probe context, and no clause is being run.
        unsafe { here.records.write(|records| records.errors = records.errors.wrapping_add(1)) };
        let Some(id) = teller else { return };
        budget.pause(Table { entries: hit.shared.shares_of(cpu), hit: this.hit() });
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
