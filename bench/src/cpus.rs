//! Measures D programs on several CPUs, many programs on one probe, and their memory.

use std::cell::Cell;
use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use dtrace_compiler::dof;
use dtrace_compiler::options::Options;
use sdt_core::ops::{Framework as _, Privileges, ProbeId, ProviderAttr, ProviderOps};
use sdt_framework::kernel::Kernel;
use sdt_framework::{Config, ConsumerId, Dtrace, Host, SpinLock, Which};

use crate::dif::{Surrounding, compiled};
use crate::table::Table;

/// ECBs on one probe, in each row.
const ECBS: [usize; 3] = [1, 100, MOST];
const MOST: usize = 10_000;
/// Clauses of one program, at most.
const CLAUSES: usize = 100;
/// The number of hits of a CPU before its buffers are read.
const HITS: u64 = 50_000;

thread_local! {
    static CPU: Cell<usize> = const { Cell::new(0) };
}

/// As many CPUs as this machine has; each firing thread states its number.
struct Cpus(usize);

// SAFETY: each firing thread has its own number, and `sync` is called only after they are joined.
unsafe impl Host for Cpus {
    type Lock = SpinLock<Self>;

    fn cpu(&self) -> usize {
        CPU.get()
    }

    fn cpus(&self) -> usize {
        self.0
    }

    fn timestamp(&self) -> u64 {
        black_box(1_000)
    }

    fn without_interrupts<R>(&self, f: impl FnOnce() -> R) -> R {
        f()
    }

    fn sync(&self) {}

    fn kernel(&self) -> &(dyn Kernel + Sync) {
        &Surrounding
    }
}

const CONFIG: Config =
    Config { providers: 2, probes: 8, ecbs: MOST + 8, consumers: 2, buffer: 4 << 20 };

/// A framework with one probe, and a consumer that has not started yet.
struct Machine {
    dtrace: Dtrace<Cpus>,
    probe: ProbeId,
    consumer: ConsumerId,
}

impl Machine {
    fn new(cpus: usize) -> Result<Self> {
        let dtrace = Dtrace::new(Cpus(cpus));
        dtrace.init(vec![std::mem::MaybeUninit::uninit(); 96 << 20].leak(), &CONFIG)?;
        let null = std::ptr::null_mut();
        // SAFETY: the ops do nothing.
        let provider =
            unsafe { dtrace.register(c"p", &ProviderAttr::SDT, Privileges::USER, &ProviderOps::INERT, null) }?;
        // SAFETY: the ops do nothing, with a null argument as well.
        let probe = unsafe { dtrace.probe_create(provider, c"m", c"f", c"n", 1, null) }?;
        let consumer = dtrace.open()?;
        Ok(Self { dtrace, probe, consumer })
    }

    /// Enables a program, and returns how many ECBs that makes.
    fn enable(&self, text: &str) -> Result<u32> {
        let image = dof::program(&compiled(text), &Options::default()).context("a program")?;
        Ok(self.dtrace.enable_program(self.consumer, &image)?)
    }

    /// Hits of this CPU.
    fn fire(&self, cpu: usize, hits: u64) {
        CPU.set(cpu);
        let mut args = [11, 22, 33, 44, 55, 66];
        for hit in 0..hits {
            args[0] = hit & 0xff;
            self.dtrace.probe(black_box(self.probe), black_box(&args));
        }
    }

    /// Reads all buffers, and checks that nothing was dropped.
    fn switch(&self) -> Result<()> {
        for cpu in 0..self.dtrace.host().cpus() {
            for which in [Which::Records, Which::Aggregations] {
                let snapshot = self.dtrace.snapshot(self.consumer, cpu, which, 0, &mut [])?;
                ensure!(snapshot.drops == 0, "CPU {cpu} has lost {}", snapshot.drops);
            }
        }
        Ok(())
    }
}

/// Returns the nanoseconds of a hit with this number of equal ECBs.
fn many(text: &str, ecbs: usize, rounds: u32, calls: u32) -> Result<f64> {
    let machine = Machine::new(1)?;
    let mut left = ecbs;
    while left > 0 {
        let clauses = left.min(CLAUSES);
        ensure!(machine.enable(&text.repeat(clauses))? as usize == clauses);
        left -= clauses;
    }
    machine.dtrace.go(machine.consumer)?;
    let hits = (u64::from(calls) / ecbs as u64).max(10);
    median(rounds, || {
        let start = Instant::now();
        machine.fire(0, hits);
        let took = start.elapsed().as_nanos() as f64 / hits as f64;
        machine.switch()?;
        Ok(took)
    })
}

/// Returns the hits per second on this number of CPUs at the same time.
fn together(text: &str, cpus: usize, rounds: u32) -> Result<f64> {
    let machine = Machine::new(cpus)?;
    machine.enable(text)?;
    machine.dtrace.go(machine.consumer)?;
    median(rounds, || {
        let barrier = Barrier::new(cpus);
        let slowest = std::thread::scope(|scope| {
            let (machine, barrier) = (&machine, &barrier);
            let fire = |cpu| {
                scope.spawn(move || {
                    barrier.wait();
                    let start = Instant::now();
                    machine.fire(cpu, HITS);
                    start.elapsed()
                })
            };
            let threads: Vec<_> = (0..cpus).map(fire).collect();
            threads.into_iter().filter_map(|thread| thread.join().ok()).max()
        });
        machine.switch()?;
        let seconds = slowest.context("a thread has ended")?.as_secs_f64();
        Ok(cpus as f64 * HITS as f64 / seconds)
    })
}

fn median(rounds: u32, mut round: impl FnMut() -> Result<f64>) -> Result<f64> {
    let mut all = (0..rounds).map(|_| round()).collect::<Result<Vec<_>>>()?;
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().context("no round")
}

/// Prints the tables.
///
/// # Errors
/// If a hit was not recorded.
pub fn table(rounds: u32, calls: u32) -> Result<String> {
    let programs = [
        ("/arg0 == 1000/, false", "n /arg0 == 1000/ { } "),
        ("@ = count()", "n { @ = count(); } "),
        ("trace three values", "n { trace(arg0); trace(arg1); trace(pid); } "),
    ];
    let mut many_of = Table::new(&["ECBS ON A PROBE", "1: ns/hit", "100: ns/ECB", "10000: ns/ECB"]);
    for (name, text) in &programs[..2] {
        let mut row = vec![(*name).to_owned()];
        for ecbs in ECBS {
            let took = many(text, ecbs, rounds, calls)? / ecbs as f64;
            row.push(format!("{took:.2}"));
        }
        many_of.row(row);
    }
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let mut at_once = Table::new(&["HITS A SECOND", "1 CPU", &format!("{cpus} CPUs"), "ratio"]);
    for (name, text) in &programs {
        let [one, all] = [together(text, 1, rounds)?, together(text, cpus, rounds)?];
        let millions = |hits: f64| format!("{:.1} M", hits / 1e6);
        let ratio = format!("{:.2}", all / one);
        at_once.row(vec![(*name).to_owned(), millions(one), millions(all), ratio]);
    }
    let mut memory = Table::new(&["MEMORY, BYTES", "instructions", "the program"]);
    let texts = [
        "n { }",
        "n /pid == 42/ { }",
        "n { @ = count(); }",
        "n { trace(arg0); }",
        "n { trace(arg0); trace(arg1); trace(pid); }",
        "n { @[execname] = quantize(arg0); }",
    ];
    for text in texts {
        let machine = Machine::new(1)?;
        let program = compiled(text);
        let difos = program.ecbs.iter().flat_map(|clause| {
            clause.predicate.iter().chain(clause.actions.iter().filter_map(|act| act.difo.as_ref()))
        });
        let instructions: usize = difos.map(|difo| difo.code.len()).sum();
        let before = machine.dtrace.memory_left().unwrap();
        machine.enable(text)?;
        let taken = before - machine.dtrace.memory_left().unwrap();
        memory.row(vec![text.to_owned(), instructions.to_string(), taken.to_string()]);
    }
    let tables = |ecbs| Config { ecbs, ..CONFIG }.tables::<Cpus>(1);
    let ecb = tables(2) - tables(1);
    Ok(format!(
        "{many_of}\n{at_once}\n{memory}an ECB takes {ecb} bytes of the tables, used or not, and an instruction 16 of its \
         program's\n"
    ))
}
