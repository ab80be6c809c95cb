//! The torture of functions: one CPU repeatedly enables and disables the probes of all functions that a consumer has sent, while
//! all CPUs call these functions.
//!
//! Each transition is followed by three phases, which every CPU acknowledges. In the quiet phase no CPU calls a counted function.
//! In the counted phase each CPU calls a fixed number of counted functions. From the quiet phase to the end of the counted phase,
//! the number of records of each counted function must be equal to the number of its calls if the probes are enabled, and 0
//! otherwise.

use alloc::collections::{BTreeMap, btree_map};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::hint::black_box;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fastrand::Rng;
use sdt_framework::{ConsumerError, ConsumerId, Field, Record, Spec, Which, records};
use sdt_protocol::{Refusal, TorturedFunctions};
use stand_in_freebsd::errno::{EBUSY, EINVAL};

use super::{FUNCTIONS, call, calls, name};
use crate::arch::{self, cpu, timer};
use crate::dtrace::{DTRACE, RECORDS};
use crate::{counters, smp, text};

/// The maximum number of failures in the result.
const MAX_FAILURES: usize = 16;
/// Interval between two progress events.
const PROGRESS_NS: u64 = 1_000_000_000;
/// The number of counted functions that each CPU calls in [`Phase::Counted`]. The buffer of the CPU can hold all their records.
const CALLS: usize = 8;

/// The number of times that each CPU calls other functions in a phase, before it sleeps.
const BURSTS: u32 = 4;

/// The kind of work that the CPUs do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The CPUs call all functions.
    Free,
    /// The CPUs call no counted functions.
    Quiet,
    /// Each CPU calls exactly [`CALLS`] counted functions.
    Counted,
}

impl Phase {
    const ALL: [Self; 3] = [Self::Free, Self::Quiet, Self::Counted];

    const fn of(generation: u64) -> Self {
        Self::ALL[generation as usize % Self::ALL.len()]
    }
}

struct Shared {
    seed: u64,
    /// The number of phases so far.
    generation: AtomicU64,
    /// The number of the last phase that each CPU has entered. For [`Phase::Counted`], the CPU has also completed it.
    entered: [AtomicU64; cpu::MAX_CPUS],
    wrong: AtomicU64,
    stop: AtomicBool,
}

impl Shared {
    fn call(&self, rng: &mut Rng) {
        if !call(rng) {
            self.wrong.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Enters the phase that the driver has announced. Returns `false` if this CPU has entered the phase before.
    fn enter(&self, cpu: usize, rng: &mut Rng) -> bool {
        let generation = self.generation.load(Ordering::Acquire);
        if self.entered[cpu].load(Ordering::Relaxed) == generation {
            return false;
        }
        if Phase::of(generation) == Phase::Counted {
            (0..CALLS).for_each(|_| self.call(rng));
        }
        self.entered[cpu].store(generation, Ordering::Release);
        true
    }

    /// Returns whether a CPU has entered the current phase.
    fn is_entered(&self, cpu: usize) -> bool {
        let entered = self.entered[cpu].load(Ordering::Relaxed);
        entered == self.generation.load(Ordering::Acquire)
    }

    /// The loop of every CPU except the driver.
    fn work(&self, cpu: usize) {
        let mut rng = Rng::with_seed(self.seed.wrapping_add(cpu as u64));
        let mut bursts = 0;
        while !self.stop.load(Ordering::Acquire) {
            if self.enter(cpu, &mut rng) {
                bursts = 0;
            }
            if bursts < BURSTS {
                bursts += 1;
                general(&mut rng);
                if Phase::of(self.entered[cpu].load(Ordering::Relaxed)) == Phase::Free {
                    self.call(&mut rng);
                }
                continue;
            }
            // QEMU often has fewer host CPUs than guest CPUs: a CPU sleeps until an interrupt, so that the driver can run.
            cpu::interrupts_off();
            if self.is_entered(cpu) && !self.stop.load(Ordering::Acquire) {
                cpu::wait_for_interrupt();
            } else {
                cpu::restore_interrupts(true);
            }
        }
    }
}

/// Calls functions of the allocator, of collections and of formatting.
fn general(rng: &mut Rng) {
    let mut map = BTreeMap::new();
    for _ in 0..rng.usize(1..3) {
        let text = format!("{:x} {:?}", rng.u64(..), rng.bool());
        if let btree_map::Entry::Vacant(entry) = map.entry(text.len()) {
            entry.insert(text);
        }
    }
    black_box(map);
}

/// For each function, the number of entry records and of return records.
type Recorded = [[u64; 2]; FUNCTIONS];

/// For each probe ID, the index of its counted function, and whether the probe is the return probe.
type Probes = Vec<Option<(usize, bool)>>;

/// The CPU that makes the transitions.
struct Driver<'a> {
    shared: &'a Shared,
    rng: Rng,
    /// The consumer that enables all functions.
    all: ConsumerId,
    /// The consumer that enables only the counted functions.
    chosen: ConsumerId,
    specs: [Spec; 2],
    probes: Probes,
    is_enabled: bool,
    buffer: Vec<u8>,
    result: TorturedFunctions,
}

impl Driver<'_> {
    fn fail(&mut self, what: String) {
        if self.result.failures.len() < MAX_FAILURES {
            self.result.failures.push(what);
        }
    }

    /// Announces the next phase, and waits until every CPU has entered it.
    fn next_phase(&mut self) {
        let shared = self.shared;
        let generation = shared.generation.fetch_add(1, Ordering::AcqRel) + 1;
        if smp::online() > 1 {
            arch::wake_others();
        }
        shared.enter(cpu::current(), &mut self.rng);
        for entered in shared.entered.iter().take(smp::online()) {
            while entered.load(Ordering::Acquire) != generation {
                core::hint::spin_loop();
            }
        }
    }

    /// Enables or disables all functions, for both consumers in random order.
    fn transition(&mut self) -> Result<(), ConsumerError> {
        let mut both = [(self.all, 0), (self.chosen, 1)];
        if self.rng.bool() {
            both.reverse();
        }
        for (consumer, spec) in both {
            let spec = &self.specs[spec];
            let matched = match self.is_enabled {
                true => DTRACE.disable(consumer, spec)?,
                false => DTRACE.enable(consumer, spec)?,
            };
            if consumer == self.all {
                self.result.probes = matched;
            }
        }
        self.is_enabled = !self.is_enabled;
        Ok(())
    }

    /// Discards the records of the counted functions. It does not examine them, because they are many, and the functions that
    /// examine records are traced themselves.
    fn discard(&mut self) -> Result<(), ConsumerError> {
        for cpu in 0..smp::online() {
            DTRACE.snapshot(self.chosen, cpu, Which::Records, 0, &mut self.buffer)?;
        }
        Ok(())
    }

    /// Reads the records of the counted functions. Returns their numbers, and the number of drops.
    fn take(&mut self) -> Result<(Recorded, u64), ConsumerError> {
        let (mut recorded, mut drops) = ([[0; 2]; FUNCTIONS], 0);
        for cpu in 0..smp::online() {
            let found = DTRACE.snapshot(self.chosen, cpu, Which::Records, 0, &mut self.buffer)?;
            drops += found.drops;
            for Record { epid, .. } in records(&self.buffer[..found.size]) {
                let Some(of) = DTRACE.eprobe(self.chosen, epid, 0, &mut [])? else { continue };
                if let Some(&Some((index, is_return))) = self.probes.get(of.probe as usize) {
                    recorded[index][usize::from(is_return)] += 1;
                }
            }
        }
        Ok((recorded, drops))
    }

    /// Compares the records of the counted functions with their calls.
    fn compare(&mut self) -> Result<(), ConsumerError> {
        self.next_phase();
        self.discard()?;
        let (before, hits) = (calls(), DTRACE.counters().hits);
        self.next_phase();
        let (after, later) = (calls(), DTRACE.counters().hits);
        let (recorded, drops) = self.take()?;
        if drops != 0 {
            self.fail(format!("{drops} records were dropped"));
        }
        if !self.is_enabled && hits != later {
            self.fail(format!("{} hits while disabled", later - hits));
        }
        for index in 0..FUNCTIONS {
            let called = after[index] - before[index];
            let expected = if self.is_enabled { [called; 2] } else { [0; 2] };
            if recorded[index] != expected {
                let [entries, returns] = recorded[index];
                let name = name(index);
                self.fail(format!(
                    "{name}: {called} calls, {entries} entries, {returns} returns; enabled: {}",
                    self.is_enabled
                ));
            }
            self.result.calls += called;
            self.result.entries += recorded[index][0];
        }
        self.next_phase();
        Ok(())
    }

    fn drive(
        &mut self,
        transitions: u64,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), ConsumerError> {
        let mut tell = timer::now_ns() + PROGRESS_NS;
        for done in 0..transitions {
            self.transition()?;
            self.compare()?;
            self.result.transitions += 1;
            if timer::now_ns() >= tell {
                tell = timer::now_ns() + PROGRESS_NS;
                progress(done + 1);
                if !self.result.failures.is_empty() {
                    break;
                }
            }
        }
        if self.is_enabled { self.transition() } else { Ok(()) }
    }
}

/// Finds the probes of the counted functions that a consumer has sent.
fn probes(spec: &Spec) -> Probes {
    let mut found = Probes::new();
    let names: Vec<String> = (0..FUNCTIONS).map(name).collect();
    let listed = DTRACE.for_each_probe(spec, |info| {
        let function = info.function().to_bytes();
        let Some(index) = names.iter().position(|name| name.as_bytes() == function) else { return };
        let id = info.id().get() as usize;
        found.resize(found.len().max(id + 1), None);
        found[id] = Some((index, info.name() == c"return"));
    });
    listed.map(|_| found).unwrap_or_default()
}

/// Runs the torture. Called by the first CPU, as a thread, while a consumer that has sent all functions is open. Calls `progress`
/// with the number of transitions so far.
///
/// # Errors
/// If no consumer has sent the functions, or the framework refuses a request. Failures of the test are not errors; the result
/// lists them.
pub(crate) fn run(
    seed: u64,
    transitions: u64,
    progress: &mut dyn FnMut(u64),
) -> Result<TorturedFunctions, Refusal> {
    let refuse = |error: ConsumerError| Refusal { errno: EBUSY, message: error.to_string() };
    let spec = |text| Spec::parse(text, Field::Name).expect("a description");
    let specs = [spec("fbt:::"), spec("fbt:stand_in_kernel:stand_in_kernel??counted??*>:")];
    let probes = probes(&specs[1]);
    let count = probes.iter().flatten().count();
    if count != 2 * FUNCTIONS {
        let message = format!("{count} of {} counted probes exist", 2 * FUNCTIONS);
        return Err(Refusal { errno: EINVAL, message });
    }
    let before = text::Snapshot::take();
    let all = DTRACE.open().map_err(refuse)?;
    let tortured = DTRACE.open().and_then(|chosen| {
        let result = tortured(seed, transitions, [all, chosen], specs, probes, progress);
        DTRACE.close(chosen)?;
        result
    });
    DTRACE.close(all).map_err(refuse)?;
    let mut result = tortured.map_err(refuse)?;
    result.text = before.len() as u64;
    if let Some(address) = before.first_change() {
        result.failures.push(format!("the text has changed at {address:#x}"));
    }
    Ok(result)
}

fn tortured(
    seed: u64,
    transitions: u64,
    [all, chosen]: [ConsumerId; 2],
    specs: [Spec; 2],
    probes: Probes,
    progress: &mut dyn FnMut(u64),
) -> Result<TorturedFunctions, ConsumerError> {
    DTRACE.go(all)?;
    DTRACE.go(chosen)?;
    let shared = Shared {
        seed,
        generation: AtomicU64::new(0),
        entered: [const { AtomicU64::new(0) }; cpu::MAX_CPUS],
        wrong: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    };
    let mut driver = Driver {
        shared: &shared,
        rng: Rng::with_seed(seed),
        all,
        chosen,
        specs,
        probes,
        is_enabled: false,
        buffer: vec![0; RECORDS * Record::SIZE],
        result: TorturedFunctions::default(),
    };
    let breakpoints = counters::breakpoints();
    let driven = smp::with_others(&|cpu| shared.work(cpu), || {
        let driven = driver.drive(transitions, progress);
        shared.stop.store(true, Ordering::Release);
        if smp::online() > 1 {
            arch::wake_others();
        }
        driven
    });
    driven?;
    let mut result = driver.result;
    result.breakpoints = counters::breakpoints() - breakpoints;
    match shared.wrong.load(Ordering::Relaxed) {
        0 => {}
        wrong => result.failures.push(format!("{wrong} functions returned a wrong result")),
    }
    Ok(result)
}
