//! A probe fires, from the hit to its records. Everything here is probe context.
//!
//! Call order: [`record`](Hits::record) enters probe context and counts the result of the hit;
//! [`fire`](Hits::fire) walks the enablings of the probe; [`clause`](Hit::clause) runs the clause of one enabling:
//! its predicate, then its actions, in [`plain`](super::plain) or on the machine in [`actions`](super::actions);
//! [`fail`](Hit::fail) fires `dtrace:::ERROR` for a clause that a fault has stopped.

use core::cell::Cell;
use core::ptr::NonNull;
use core::sync::atomic::Ordering;

use dtrace_abi::fault::Fault;
use sdt_core::ops::ARGS;

use super::actions::Run;
use super::budget::{Budget, MEET, Table};
use super::clause::{Clause, Test};
use super::consumer::Consumer;
use super::context::{ClauseContext, Outcome};
use super::own::{Own, OwnProbes};
use super::state::RunState;
use super::surroundings::Surroundings;
use crate::base::chain::{Chain, Node};
use crate::base::counters::{Counted, PerCpu, Tally, bump};
use crate::base::host::Host;
use crate::base::origin::Origin;
use crate::base::sync::{AtomicCount, AtomicU32};
use crate::base::word::Word;
use crate::machine::{Failure, Token};

/// Whether the framework can run clauses that are not plain.
pub(crate) const HAS_INTERPRETER: bool = cfg!(feature = "dif");

/// One enabling of one probe by one consumer.
///
/// The layout is C's, because readers of dumps use it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Enabled {
    /// Index of the consumer.
    pub(crate) consumer: u32,
    /// Number of the enabled probe.
    pub(crate) epid: u32,
    /// Its clause, which is freed only after the consumer's enablings are removed and every CPU has left probe context since.
    pub(crate) clause: NonNull<Clause>,
}

// SAFETY: a clause never changes after it is enabled, and `Session::free` frees it only after all its enablings are
// removed and every CPU has left probe context.
unsafe impl Send for Enabled {}

/// A probe that is live.
#[derive(Debug)]
pub(crate) struct Found<'a> {
    pub(crate) origin: Origin<'a>,
    /// The number of the predicate of its only enabling, if that can be cached; otherwise 0 (`dtpr_predcache`).
    pub(crate) predicate: u32,
    /// The number of consumers that have enabled it.
    pub(crate) consumers: &'a AtomicU32,
    /// Its chain of enablings.
    pub(crate) chain: &'a Chain,
}

/// The probes.
pub(crate) trait Probes {
    /// Returns the probe with a number, if it is live. The result is valid until this CPU leaves probe context.
    fn find(&self, id: u32) -> Option<Found<'_>>;

    /// Returns the nodes of all chains.
    fn nodes(&self) -> &[Node<Enabled>];
}

/// The other data that hits read and write.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) consumers: &'static [Consumer],
    pub(crate) cpus: &'static [PerCpu],
    /// The rest of each consumer's [budget](super::budget), ordered by CPU.
    pub(crate) shares: &'static [Word],
}

impl Shared {
    /// Returns the rest of each consumer's budget on a CPU.
    fn shares_of(&self, cpu: usize) -> &'static [Word] {
        let count = self.consumers.len();
        let rest = self.shares.get(cpu.wrapping_mul(count)..).unwrap_or_default();
        rest.get(..count).unwrap_or_default()
    }
}

/// The arguments that the caller of a hit passes.
#[derive(Clone, Copy)]
pub(crate) enum Args<'a> {
    /// All arguments of the probe.
    All(&'a [u64; ARGS]),
    /// The first five arguments; the provider's `getargval` may return more.
    Five(&'a [u64; 5]),
}

/// The consumer for which a hit fires, if it fires for only one, and whether the hit checks for timeouts.
#[derive(Clone, Copy)]
struct Rules {
    /// Whether this hit checks for consumers that have timed out, even if no clause runs.
    checks: bool,
    /// For a hit of a probe of the provider `dtrace`: the consumer for which it fires, and the probe.
    only: Option<(u32, Own)>,
}

/// The parts of a framework that hits use.
pub(crate) struct Hits<H, P> {
    pub(crate) host: H,
    /// The probes of the provider `dtrace`.
    pub(crate) own: OwnProbes,
    /// The number of hits on CPUs beyond the configured number, or before `init`.
    pub(crate) stray: AtomicCount,
    /// The data of hits and the probes; empty before `init`.
    pub(crate) memory: spin::Once<(Shared, P)>,
}

/// A hit that visits the enablings of its probe.
struct Hit<'a, H, P> {
    hits: &'a Hits<H, P>,
    surroundings: &'a Surroundings<'a, H>,
    /// The arguments that the caller passed.
    args: &'a [u64],
    rules: Rules,
}

/// The data that the enablings of a probe share at a hit.
struct Progress<'a, H> {
    /// The machine, made for the first clause that needs it.
    run: Option<Run<'a, H>>,
    /// When the probe fired, if the clock was read: all clauses see the same time.
    time: Option<u64>,
    /// The remaining work.
    budget: Budget,
    /// The state of a consumer's `strtok` after one of its clauses failed.
    token: Option<(&'a RunState, Option<Token>)>,
}

impl<H, P> Hits<H, P> {
    pub(crate) const fn new(host: H) -> Self {
        let (own, stray) = (OwnProbes::new(), AtomicCount::new(0));
        Self { host, own, stray, memory: spin::Once::new() }
    }
}

impl<H: Host, P: Probes> Hits<H, P> {
    /// Returns this CPU: its number, its counters, and the shared data of hits. If the number of the CPU is too large, or before
    /// `init`, counts a stray hit and returns `None`.
    #[inline(always)]
    fn here(&self) -> Option<(usize, &PerCpu, &Shared, &P)> {
        let cpu = self.host.cpu();
        if let Some((shared, probes)) = self.memory.get()
            && let Some(this) = shared.cpus.get(cpu)
        {
            return Some((cpu, this, shared, probes));
        }
        self.stray.fetch_add(1, Ordering::Relaxed);
        None
    }

    /// Records a hit and counts its result. Interrupts are off.
    #[inline(always)]
    pub(crate) fn record(&self, id: u32, args: Args<'_>) {
        if let Some((cpu, this, shared, probes)) = self.here()
            && let Some(_in_probe) = this.enter()
        {
            let rules = Rules { checks: this.is_time_to_check(), only: None };
            this.count(self.fire(shared, probes, (cpu, this), id, args, rules));
        }
    }

    /// Runs `f`, which records hits, for a breakpoint in a function. If this CPU is doing so already, it has hit a breakpoint in a
    /// function that the framework calls: then this only counts the hit as re-entered. With interrupts off.
    pub(crate) fn outermost(&self, f: impl FnOnce()) {
        let Some((_, this, ..)) = self.here() else { return };
        if let Some(_at_breakpoint) = this.begin_breakpoint() {
            f();
        }
    }

    /// Counts a hit whose probe was disabled while the hit was on its way. With interrupts off.
    #[cold]
    pub(crate) fn overtaken(&self) {
        if let Some((_, this, ..)) = self.here()
            && let Some(_in_probe) = this.enter()
        {
            this.count(Some(Tally::default()));
        }
    }

    /// Fires a probe of the provider `dtrace` for one consumer. Returns the CPU on which it fired. Called by threads
    /// with interrupts on.
    pub(crate) fn fire_own(&self, own: Own, consumer: usize, args: &[u64; ARGS]) -> usize {
        self.host.without_interrupts(|| {
            if let Some(id) = self.own.id(own)
                && let Some((cpu, this, shared, probes)) = self.here()
                && let Some(_in_probe) = this.enter()
            {
                let rules = Rules { checks: true, only: Some((consumer as u32, own)) };
                this.count(self.fire_apart(shared, probes, (cpu, this), id, args, rules));
            }
            self.host.cpu()
        })
    }

    /// Like [`fire`](Self::fire), for rare hits.
    #[cold]
    fn fire_apart(
        &self,
        shared: &Shared,
        probes: &P,
        here: (usize, &PerCpu),
        id: u32,
        args: &[u64; ARGS],
        rules: Rules,
    ) -> Option<Tally> {
        self.fire(shared, probes, here, id, Args::All(args), rules)
    }

    /// Runs the clauses of all enablings of a probe; `None` if there is no such probe.
    #[inline(always)]
    fn fire(
        &self,
        shared: &Shared,
        probes: &P,
        (cpu, this): (usize, &PerCpu),
        id: u32,
        args: Args<'_>,
        rules: Rules,
    ) -> Option<Tally> {
        let Found { origin, predicate, consumers, chain } = probes.find(id)?;
        let mut tally = Tally::default();
        let kernel = self.host.kernel();
        if predicate != 0
            && kernel.predicate_cache().is_some_and(|of| of.load(Ordering::Relaxed) == predicate)
            // An interrupt handler has its own thread-local variables, so the thread's cache does not apply to it.
            && kernel.interrupts() == 0
        {
            // The predicate was false for this thread before, and its variables have not changed since.
            return Some(tally);
        }
        if rules.only.is_none() && self.own.is(id) {
            // Probes of the provider `dtrace` fire only for one consumer (`fire_own`, `fail`); other hits of them are
            // ignored.
            return Some(tally);
        }
        let (args, asks): (&[u64], _) = match args {
            Args::All(args) => (args, false),
            Args::Five(args) => (args, true),
        };
        let (host, state) = (&self.host, Cell::new(None));
        let surroundings = &Surroundings { host, state, cpu, this, id, origin, asks };
        let hit = &Hit { hits: self, surroundings, args, rules };
        let budget = Budget::new(H::BUDGET);
        let progress = &mut Progress { run: None, time: None, budget, token: None };
        match rules.only {
            None => progress.budget.divide(consumers.load(Ordering::Relaxed)),
            // The hit is for one of the consumers that have enabled the probe.
            Some((meant, own)) => {
                if own == Own::Error {
                    progress.budget = Budget::of_error();
                }
                progress.budget.turn_to(meant, || hit.table());
            }
        }
        for (_, enabled) in chain.walk(probes.nodes()) {
            let index = enabled.consumer;
            let Some(consumer) = shared.consumers.get(index as usize) else { continue };
            match rules.only {
                None => {
                    if !consumer.takes(None) {
                        continue;
                    }
                    if !consumer.rights().kernel() && !origin.is_usermode(id) {
                        continue;
                    }
                }
                Some((meant, own)) => {
                    if meant != index || !consumer.takes(Some(own)) {
                        // ERROR may fire for many clauses of a hit, and passes the enablings of others each time.
                        if progress.budget.charge(MEET) {
                            continue;
                        }
                        break;
                    }
                }
            }
            if !progress.budget.turn_to(index, || hit.table()) {
                continue;
            }
            let Some(state) = consumer.state() else { continue };
            let Some(here) = state.here(cpu) else { continue };
            let context = &ClauseContext { kernel: surroundings, state, here, consumer };
            // SAFETY: the enabling was on the chain in this probe context, and its clause is freed only after the
            // enabling is removed and every CPU has left probe context (`Session::free`).
            let clause = unsafe { enabled.clause.as_ref() };
            // SAFETY: this is the CPU of the hit, in probe context, and the previous clause has ended.
            let counted = unsafe { hit.clause(progress, context, enabled.epid, clause) };
            tally.add(counted);
            if counted == Counted::False
                && predicate != 0
                && clause.cache == predicate
                && kernel.interrupts() == 0
                && let Some(cache) = kernel.predicate_cache()
            {
                cache.store(predicate, Ordering::Relaxed);
            }
        }
        if matches!(rules.only, Some((_, Own::Error))) {
            // The clauses after the failed one continue with the rest of the budget.
            progress.budget.pause(hit.table());
        } else if this.work.may_be_most(*progress.budget.available()) {
            progress.budget.note(H::BUDGET, hit.table());
        }
        Some(tally)
    }
}

impl<'a, H: Host, P: Probes> Hit<'a, H, P> {
    /// Returns the table of the consumers' shares for this hit.
    fn table(&self) -> Table<'a> {
        let Surroundings { cpu, this, .. } = *self.surroundings;
        let shared = self.hits.memory.get().map(|(shared, _)| shared);
        let entries = shared.map(|shared| shared.shares_of(cpu)).unwrap_or_default();
        Table { entries, hit: this.hit(), work: &this.work }
    }

    /// Runs a clause: its predicate, then its actions.
    ///
    /// # Safety
    /// The caller is in probe context on the CPU of the hit, and no clause runs on this CPU.
    #[inline(always)]
    unsafe fn clause(
        &self,
        progress: &mut Progress<'a, H>,
        context: &ClauseContext<'a, H>,
        epid: u32,
        clause: &Clause,
    ) -> Counted {
        let checks = self.rules.checks;
        if !progress.budget.charge(clause.layout.test.into()) {
            return self.exhausted(progress, context, epid, clause);
        }
        // Most predicates need no machine, and most of these are false.
        let value = match &clause.test {
            Test::Always => Some(Ok(true)),
            Test::Guard(guard) => {
                Some(guard.test(self.args, context.kernel, &context.state.access))
            }
            Test::Program => None,
        };
        let is_true = matches!(value, Some(Ok(true)));
        if matches!(value, Some(Ok(false))) && !checks {
            return Counted::False;
        }
        if !progress.budget.charge(clause.layout.cost) {
            return self.exhausted(progress, context, epid, clause);
        }
        if !HAS_INTERPRETER {
            if checks {
                let now = progress.time.get_or_insert_with(|| context.kernel.host.timestamp());
                if context.is_dead(*now) {
                    return Counted::Nothing;
                }
            }
            // All clauses are plain: `Programs::keep` has refused the others.
            return match value {
                Some(Err(stop)) => self.fail(progress, context, epid, 0, &stop.failure(0)),
                Some(Ok(false)) | None => Counted::False,
                // SAFETY: the caller guarantees the CPU of the hit, probe context, and that no clause runs.
                Some(Ok(true)) => unsafe { self.run_plain(progress, context, epid, clause) },
            };
        }
        // SAFETY: the caller guarantees the CPU of the hit, probe context, and that no clause runs.
        unsafe {
            match clause.plain {
                Some(_) if is_true && !checks => self.run_plain(progress, context, epid, clause),
                _ => self.run(progress, context, epid, clause, is_true),
            }
        }
    }

    /// Runs the actions of a clause that needs no machine.
    ///
    /// # Safety
    /// As [`clause`](Self::clause).
    #[inline(never)]
    unsafe fn run_plain(
        &self,
        progress: &mut Progress<'a, H>,
        context: &ClauseContext<'a, H>,
        epid: u32,
        clause: &Clause,
    ) -> Counted {
        let (time, budget) = (&mut progress.time, &mut progress.budget);
        // SAFETY: the caller guarantees the CPU of the hit, probe context, and that no clause runs.
        let outcome = unsafe { context.step(self.args, epid, clause, time, budget.available()) };
        self.count(progress, context, epid, outcome)
    }

    /// Runs a clause on the machine. Skips the predicate if `is_true`: it is then known to be true.
    ///
    /// # Safety
    /// As [`clause`](Self::clause).
    #[inline(never)]
    unsafe fn run(
        &self,
        progress: &mut Progress<'a, H>,
        context: &ClauseContext<'a, H>,
        epid: u32,
        clause: &Clause,
        is_true: bool,
    ) -> Counted {
        // SAFETY: the caller guarantees the CPU of the hit, probe context, and that no clause runs. `progress`, which
        // owns the run, is dropped at the end of `fire`, before the CPU leaves probe context.
        let outcome = unsafe {
            let run = match &mut progress.run {
                Some(run) => {
                    run.switch_to(*context);
                    run
                }
                none @ None => {
                    let token = progress.token.filter(|(of, _)| core::ptr::eq(*of, context.state));
                    none.insert(Run::new(self.args, *context, token.and_then(|(_, token)| token)))
                }
            };
            let how = (is_true, self.rules.checks);
            run.clause(epid, clause, how, &mut progress.time, progress.budget.available())
        };
        self.count(progress, context, epid, outcome)
    }

    /// Returns how the result of a clause counts; handles a fault.
    #[inline(always)]
    fn count(
        &self,
        progress: &mut Progress<'a, H>,
        context: &ClauseContext<'a, H>,
        epid: u32,
        outcome: Outcome,
    ) -> Counted {
        match outcome {
            Outcome::Done => Counted::Record,
            Outcome::Dropped => Counted::Drop,
            Outcome::Dead => Counted::Nothing,
            Outcome::False => Counted::False,
            Outcome::Failed { action, failure } => {
                self.fail(progress, context, epid, action, &failure)
            }
        }
    }

    /// Handles a clause that a fault has stopped: fires `dtrace:::ERROR` for its consumer, unless the clause belongs to
    /// `dtrace:::ERROR` itself.
    #[cold]
    fn fail(
        &self,
        progress: &mut Progress<'a, H>,
        context: &ClauseContext<'a, H>,
        epid: u32,
        action: usize,
        failure: &Failure,
    ) -> Counted {
        // `dtrace:::ERROR` uses the same scratch space, so this run ends here.
        if let Some(token) = progress.run.as_ref().and_then(|run| run.token_of(*context)) {
            progress.run = None;
            progress.token = Some((context.state, token));
        }
        let Surroundings { cpu, this, .. } = *self.surroundings;
        let (budget, here, hits) = (&mut progress.budget, context.here, self.hits);
        // Faults that ERROR cannot report, because it failed itself or is not enabled, are counted separately, and
        // consumers print their number.
        let is_error = matches!(self.rules.only, Some((_, Own::Error)));
        let teller = hits.own.id(Own::Error).filter(|_| !is_error && !budget.is_exhausted());
        bump(if teller.is_none() { &here.double_errors } else { &here.errors }, 1);
        // SAFETY: this is the CPU of the hit, in probe context, and the failed clause has ended, so no other code
        // writes to its records.
        unsafe { here.records.write(|records| records.errors = records.errors.wrapping_add(1)) };
        let (Some(id), Some((shared, probes))) = (teller, hits.memory.get()) else {
            return Counted::Drop;
        };
        let consumer = budget.pause(self.table());
        let Failure { fault, offset, address } = *failure;
        let fault = Fault::number(fault).into();
        let (number, epid) = (context.state.number.into(), epid.into());
        let args = [number, epid, action as u64, offset.into(), fault, address, 0, 0, 0, 0];
        let rules = Rules { checks: false, only: Some((consumer, Own::Error)) };
        hits.fire_apart(shared, probes, (cpu, this), id, &args, rules);
        Counted::Drop
    }

    /// Handles a clause that does not run, because its consumer has used up its share of the budget.
    #[cold]
    fn exhausted(
        &self,
        progress: &mut Progress<'a, H>,
        context: &ClauseContext<'a, H>,
        epid: u32,
        clause: &Clause,
    ) -> Counted {
        // No instruction has failed: consumers print no offset.
        let failure = Failure { fault: Fault::IllegalOperation, offset: u32::MAX, address: 0 };
        self.fail(progress, context, epid, usize::from(clause.predicate.is_none()), &failure)
    }
}
