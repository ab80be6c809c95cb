//! The torture test: all CPUs fire the kernel's own probes, in loops and from interrupts, while one of
//! them enables, upgrades, downgrades and disables the probes in random order.
//!
//! # The comparison
//!
//! The time is divided into *windows*, each with one change. After each change, the driver (the CPU that makes the changes)
//! announces the number of the window, and every CPU closes the window once: with interrupts off, at a point where it fires no
//! probe. At that point, every earlier pass on this CPU has either been counted as a hit or will never be. The CPU then compares
//! its counts for each probe since it closed the previous window:
//!
//! - If the probe was enabled during the whole window, the number of hits must equal the number of passes. A probe also counts as
//!   enabled during an upgrade or downgrade, which must not lose a hit.
//! - If the probe was disabled during the whole window, there must be no hit.
//! - If the probe was enabled or disabled in the window, the number of hits must not be greater than the number of passes: the
//!   CPU may have passed the site before or after the change.
//!
//! When a change begins, every CPU has closed the previous window; it closes the window with the change after the change is
//! complete. So the windows of the first kind together are the whole time in which the probe was stably enabled, and every pass
//! and hit in that time is compared.
//!
//! The code that fires a probe counts the pass before the site. [`standin`] counts a hit before it calls the framework. At the
//! end, the sum of the hits is compared with the framework's own count.

mod ledger;
mod programs;
mod workload;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use fastrand::Rng;
use sdt_core::patch::Mode;
use sdt_core::site::{self, State};
use sdt_framework::{ConsumerId, Field, Spec};
use sdt_protocol::{Refusal, Tortured, TorturedProbe};
use spin::Mutex;
use stand_in_freebsd::errno::{EBUSY, EINVAL};

use crate::arch::{self, cpu, timer};
use crate::dtrace::DTRACE;
use crate::standin::{self, TORTURED, Totals, Which};
use crate::{counters, smp, text};
use ledger::{Ledger, Window};
use programs::Programs;

/// The tortured probes that fire outside of the loops.
const ARMED: [Which; 2] = [Which::Tick, Which::Breakpoint];
/// The maximum number of failures in the result.
const MAX_FAILURES: usize = 16;
/// Number of changes between two reads of the programs' data.
const TAKEN: u64 = 256;
/// Interval between two progress events.
const PROGRESS_NS: u64 = 1_000_000_000;

/// The state that all CPUs share.
struct Shared {
    seed: u64,
    /// The probes that were not enabled or disabled in the window that is being closed. The driver writes `stable` and `enabled`
    /// before `generation`.
    stable: AtomicU32,
    /// The probes that are enabled at the end of the window that is being closed.
    enabled: AtomicU32,
    /// The number of the last announced window.
    generation: AtomicU64,
    /// The number of the last window that each CPU has closed.
    closed: [AtomicU64; cpu::MAX_CPUS],
    ledgers: [Mutex<Ledger>; cpu::MAX_CPUS],
    stop: AtomicBool,
}

impl Shared {
    /// Closes this CPU's window if the driver has announced a new one; returns whether it did.
    fn close_window(&self, cpu: usize) -> bool {
        let generation = self.generation.load(Ordering::Acquire);
        if self.closed[cpu].load(Ordering::Relaxed) == generation {
            return false;
        }
        let window = Window {
            number: generation,
            stable: self.stable.load(Ordering::Relaxed),
            enabled: self.enabled.load(Ordering::Relaxed),
        };
        let interrupts = cpu::interrupts_off();
        self.ledgers[cpu].lock().close(cpu, window);
        cpu::restore_interrupts(interrupts);
        self.closed[cpu].store(generation, Ordering::Release);
        true
    }

    /// The loop of every CPU except the driver.
    fn work(&self, cpu: usize) {
        let mut rng = Rng::with_seed(self.seed.wrapping_add(cpu as u64));
        let mut bursts = 0;
        while !self.stop.load(Ordering::Acquire) {
            if self.close_window(cpu) {
                bursts = 0;
            }
            workload::burst(&mut rng);
            bursts += 1;
            // QEMU often has fewer host CPUs than guest CPUs. A CPU that has fired enough in this window sleeps until an
            // interrupt, so that the CPUs that the driver waits for can run.
            if bursts > rng.u32(0..4) {
                bursts = 0;
                cpu::interrupts_off();
                if self.closed[cpu].load(Ordering::Relaxed)
                    == self.generation.load(Ordering::Acquire)
                    && !self.stop.load(Ordering::Acquire)
                {
                    cpu::wait_for_interrupt();
                } else {
                    cpu::restore_interrupts(true);
                }
            }
        }
    }
}

/// The state of a probe's sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Now {
    Off,
    On(Mode),
}

/// The CPU that makes the changes.
struct Driver<'a> {
    shared: &'a Shared,
    rng: Rng,
    consumer: ConsumerId,
    specs: Vec<Spec>,
    states: [Now; TORTURED.len()],
    /// For each probe that a D program keeps enabled, whether the driver has enabled it, too; `None` for other probes.
    kept: [Option<bool>; TORTURED.len()],
    programs: Option<Programs>,
    result: Tortured,
}

impl Driver<'_> {
    fn fail(&mut self, what: String) {
        if self.result.failures.len() < MAX_FAILURES {
            self.result.failures.push(what);
        }
    }

    fn failed(&self) -> bool {
        !self.result.failures.is_empty()
            || self.shared.ledgers.iter().any(|ledger| ledger.lock().has_failed())
    }

    /// Changes one probe, and closes the window.
    fn transition(&mut self) {
        let index = self.rng.usize(0..TORTURED.len());
        if let Some(as_well) = self.kept[index]
            && self.rng.bool()
        {
            return self.change_kept(index, as_well);
        }
        let which = TORTURED[index];
        let mode = if self.rng.bool() { Mode::Jump } else { Mode::Trap };
        let was = self.states[index];
        let now = match was {
            Now::Off => {
                which.set_mode(mode);
                self.enable(index);
                self.result.enabled += 1;
                Now::On(mode)
            }
            Now::On(_) if self.kept[index].is_none() && self.rng.bool() => {
                self.disable(index);
                Now::Off
            }
            Now::On(Mode::Trap) => {
                which.set_mode(Mode::Jump);
                self.result.upgraded += 1;
                Now::On(Mode::Jump)
            }
            Now::On(Mode::Jump) => {
                which.set_mode(Mode::Trap);
                self.result.downgraded += 1;
                Now::On(Mode::Trap)
            }
        };
        self.states[index] = now;
        self.check_text(which, now);
        let turned = (was == Now::Off) != (now == Now::Off);
        self.close_windows(turned.then_some(which));
    }

    /// Adds an enabling to a probe that a program has enabled, or removes it. The probe's sites do not change.
    fn change_kept(&mut self, index: usize, as_well: bool) {
        if as_well {
            self.disable(index);
        } else {
            self.enable(index);
            self.result.enabled += 1;
        }
        self.kept[index] = Some(!as_well);
        self.check_text(TORTURED[index], self.states[index]);
        self.close_windows(None);
    }

    /// Reads the data of the programs.
    fn take(&mut self) {
        if let Some(Err(error)) = self.programs.as_mut().map(Programs::take) {
            self.fail(format!("what programs have left behind: {error}"));
        }
    }

    fn enable(&mut self, index: usize) {
        let matched = DTRACE.enable(self.consumer, &self.specs[index]);
        if !matches!(matched, Ok(1)) {
            self.fail(format!("enabling {} matched {matched:?}", TORTURED[index].name()));
        }
    }

    fn disable(&mut self, index: usize) {
        let matched = DTRACE.disable(self.consumer, &self.specs[index]);
        if !matches!(matched, Ok(1)) {
            self.fail(format!("disabling {} matched {matched:?}", TORTURED[index].name()));
        }
        self.result.disabled += 1;
    }

    /// Checks that the probe's sites contain the instructions for the state `now`.
    fn check_text(&mut self, which: Which, now: Now) {
        for site in which.probe().sites() {
            let in_reach = (site::ENCODING.jump)(site.patchpoint(), site.target()).is_ok();
            let expected = match now {
                Now::Off => State::Nop,
                Now::On(Mode::Jump) if in_reach => State::Jump,
                Now::On(_) => State::Trap,
            };
            let state = site::state(site);
            if state != Some(expected) {
                let (name, at) = (which.name(), site.patchpoint());
                self.fail(format!("the site of {name} at {at:#x} is {state:?}, not {expected:?}"));
            }
        }
    }

    /// Makes all CPUs close the window in which `turned` was enabled or disabled, and waits for them.
    fn close_windows(&mut self, turned: Option<Which>) {
        let shared = self.shared;
        let (mut stable, mut enabled) = (0, 0);
        for (&which, &state) in TORTURED.iter().zip(&self.states) {
            stable |= if turned == Some(which) { 0 } else { which.bit() };
            enabled |= if state == Now::Off { 0 } else { which.bit() };
        }
        shared.stable.store(stable, Ordering::Relaxed);
        shared.enabled.store(enabled, Ordering::Relaxed);
        let generation = shared.generation.fetch_add(1, Ordering::AcqRel) + 1;
        if smp::online() > 1 {
            arch::wake_others();
        }
        shared.close_window(cpu::current());
        for closed in shared.closed.iter().take(smp::online()) {
            while closed.load(Ordering::Acquire) != generation {
                core::hint::spin_loop();
            }
        }
    }

    fn drive(&mut self, transitions: u64, progress: &mut dyn FnMut(u64)) {
        let mut tell = timer::now_ns() + PROGRESS_NS;
        for done in 0..transitions {
            self.transition();
            workload::burst(&mut self.rng);
            if done % TAKEN == 0 {
                self.take();
            }
            if timer::now_ns() >= tell {
                tell = timer::now_ns() + PROGRESS_NS;
                progress(done + 1);
                if self.failed() {
                    break;
                }
            }
        }
        for (index, &probe) in TORTURED.iter().enumerate() {
            if let Some(as_well) = self.kept[index] {
                if as_well {
                    self.disable(index);
                    self.result.disabled -= 1;
                }
            } else if self.states[index] != Now::Off {
                // This change is not one of the requested transitions, so it is not counted.
                self.disable(index);
                self.result.disabled -= 1;
                self.states[index] = Now::Off;
                self.check_text(probe, Now::Off);
                self.close_windows(Some(probe));
            }
        }
    }
}

/// Runs the torture. `dof` contains D programs that run meanwhile; it may be empty. Called by the first CPU, as a thread. Calls
/// `progress` with the number of transitions done.
///
/// # Errors
/// If the probes cannot be attached or detached, or the framework refuses a request. Failures of the test are not errors; the
/// result lists them.
pub(crate) fn run(
    seed: u64,
    transitions: u64,
    dof: &[u8],
    progress: &mut dyn FnMut(u64),
) -> Result<Tortured, Refusal> {
    let refuse =
        |errno, error: &dyn core::fmt::Display| Refusal { errno, message: error.to_string() };
    standin::attach().map_err(|error| refuse(EINVAL, &error))?;
    let before = text::Snapshot::take();
    let consumer = DTRACE.open().map_err(|error| refuse(EBUSY, &error))?;
    let programs = match dof {
        [] => None,
        dof => Some(Programs::start(dof).map_err(|error| refuse(EINVAL, &error))?),
    };
    let mut result = tortured(seed, transitions, consumer, programs, progress);
    DTRACE.close(consumer).map_err(|error| refuse(EINVAL, &error))?;
    result.text = before.len() as u64;
    if let Some(address) = before.first_change() {
        result.failures.push(format!("the text has changed at {address:#x}"));
    }
    standin::detach().map_err(|error| refuse(EBUSY, &error))?;
    Ok(result)
}

fn tortured(
    seed: u64,
    transitions: u64,
    consumer: ConsumerId,
    programs: Option<Programs>,
    progress: &mut dyn FnMut(u64),
) -> Tortured {
    let shared = Shared {
        seed,
        stable: AtomicU32::new(0),
        enabled: AtomicU32::new(0),
        generation: AtomicU64::new(0),
        closed: [const { AtomicU64::new(0) }; cpu::MAX_CPUS],
        ledgers: [const { Mutex::new(Ledger::new()) }; cpu::MAX_CPUS],
        stop: AtomicBool::new(false),
    };
    let spec = |which: &Which| Spec::parse(&format!("standin:::{}", which.name()), Field::Name);
    let specs = TORTURED.iter().map(spec).collect::<Result<_, _>>();
    let is_kept = |which| programs.as_ref().is_some_and(|programs| programs.are_on(which));
    let kept = TORTURED.map(|which| is_kept(which).then_some(false));
    let states = TORTURED.map(|which| match is_kept(which) {
        true => {
            which.set_mode(Mode::Trap);
            Now::On(Mode::Trap)
        }
        false => Now::Off,
    });
    let mut driver = Driver {
        shared: &shared,
        rng: Rng::with_seed(seed),
        consumer,
        specs: specs.expect("names of probes are descriptions"),
        states,
        kept,
        programs,
        result: Tortured::default(),
    };
    let (start, breakpoints, ticks) =
        (framework_hits(), counters::breakpoints(), counters::ticks());
    let before = Totals::now();
    standin::arm(&ARMED);
    smp::with_others(&|cpu| shared.work(cpu), || {
        // Closing the first window only stores the initial counts of every CPU.
        driver.close_windows(None);
        driver.drive(transitions, progress);
        standin::arm(&[]);
        shared.stop.store(true, Ordering::Release);
        if smp::online() > 1 {
            arch::wake_others();
        }
    });
    let framework = framework_hits() - start;
    if let Some(programs) = driver.programs.take() {
        match programs.stop() {
            Ok(wrong) => wrong.into_iter().for_each(|wrong| driver.fail(wrong)),
            Err(error) => driver.fail(format!("programs do not stop: {error}")),
        }
    }
    let mut result = driver.result;
    result.framework = framework;
    result.breakpoints = counters::breakpoints() - breakpoints;
    result.ticks = counters::ticks() - ticks;
    let after = Totals::now();
    for which in TORTURED {
        let [passes, hits, garbled] = after.since(&before, which);
        let mut probe = TorturedProbe {
            name: which.name().to_string(),
            sites: which.probe().sites().count() as u32,
            passes,
            hits,
            ..TorturedProbe::default()
        };
        for ledger in &shared.ledgers {
            ledger.lock().add_to(&mut probe, which);
        }
        if garbled != 0 {
            let name = which.name();
            result.failures.push(format!("{garbled} hits of {name} had wrong arguments"));
        }
        result.probes.push(probe);
    }
    let hits: u64 = result.probes.iter().map(|probe| probe.hits).sum();
    if hits != result.framework {
        let framework = result.framework;
        result.failures.push(format!("{hits} hits, of which the framework counted {framework}"));
    }
    for ledger in &shared.ledgers {
        result.failures.append(&mut ledger.lock().take_failures());
    }
    result.failures.truncate(MAX_FAILURES);
    result
}

/// Returns the number of hits that the framework has received, recorded or not.
fn framework_hits() -> u64 {
    let counters = DTRACE.counters();
    counters.hits + counters.reentered + counters.unknown + counters.stray
}
