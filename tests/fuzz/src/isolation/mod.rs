//! Two consumers of one framework: with any requests in any order, the first cannot read data of the second.
//!
//! The second consumer's program puts a secret wherever a program can put data: records, formats, keys and values of
//! aggregations, global, thread-local and clause-local variables, associative arrays, strings, scratch space, speculations, and
//! a text that `strtok` has begun. The secret is a hash of the input, so no input contains it. The first consumer's program is
//! random DIF, in a DOF of which some bytes may be changed. Both take turns as the input says: they hit probes, stop, close, and
//! begin anew in memory that the other one had.

mod program;
mod second;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arbitrary::{Arbitrary, Unstructured};
use dtrace_abi::option::OptionId;
use dtrace_abi::record::RecordDesc;
use sdt_core::ops::{Framework as _, Privileges, ProbeId, ProviderAttr, ProviderOps};
use sdt_framework::kernel::Kernel;
use sdt_framework::{Config, ConsumerId, Dtrace, Host, Rights, SpinLock, Which};

use crate::dif::world::{STRING, World};
use crate::handed::Handed;
use program::Program;
use second::{Second, Secret};

const CPUS: usize = 2;
const CONFIG: Config = Config { providers: 3, probes: 8, ecbs: 48, consumers: 2, buffer: 1 << 10 };
/// Bytes of memory of the framework: little, so that consumers get memory that others had.
const MEMORY: usize = 160 << 10;

type Small = Dtrace<Machine>;

/// A case, decoded from the input.
#[derive(Debug, Arbitrary)]
struct Case {
    rights: u8,
    program: Program,
    steps: Vec<Step>,
}

/// A step. Numbers of objects are taken modulo their count.
#[derive(Clone, Copy, Debug, Arbitrary)]
enum Step {
    /// The second consumer opens, and begins to trace.
    Begin,
    /// It closes.
    End,
    /// The first consumer opens, and tries its program.
    Try,
    /// It stops.
    Stop,
    /// It closes.
    Leave,
    /// It reads all its data.
    Look,
    Hit {
        cpu: u8,
        probe: u8,
    },
    /// A consumer reads its status, which frees the unused dynamic variables.
    Clean {
        second: bool,
    },
}

/// Runs the target.
///
/// # Panics
/// As [`bytes_read`].
pub fn run(input: &[u8]) {
    bytes_read(input);
}

/// Runs the target, and returns the number of bytes that the first consumer has read.
///
/// # Panics
/// If the first consumer reads a part of the secret.
pub fn bytes_read(input: &[u8]) -> usize {
    let Ok(case) = Case::arbitrary_take_rest(Unstructured::new(input)) else { return 0 };
    let memory = Handed::new(MEMORY);
    let dtrace: Box<Small> = Box::new(Dtrace::new(Machine::default()));
    // SAFETY: this is the only use of the memory, and it is dropped after the framework.
    dtrace.init(unsafe { memory.over() }, &CONFIG).expect("there is room for the tables");
    dtrace.register_own().expect("there is room for the probes of dtrace");
    let mut scene = Scene {
        probes: probes(&dtrace),
        dtrace: &dtrace,
        dof: case.program.dof(),
        rights: rights(case.rights),
        first: None,
        second: Second::new(Secret::of(input)),
        read: 0,
    };
    let hit = |probe| Step::Hit { cpu: 0, probe };
    scene.step(Step::Begin);
    scene.step(hit(0));
    case.steps.iter().take(32).for_each(|step| scene.step(*step));
    [Step::Try, hit(0), hit(1), Step::Look].into_iter().for_each(|step| scene.step(step));
    scene.read
}

/// The probes `a` and `b`, which each program may enable.
fn probes(dtrace: &Small) -> [ProbeId; 2] {
    let null = std::ptr::null_mut();
    // SAFETY: the ops do nothing.
    let provider = unsafe {
        dtrace.register(c"proc", &ProviderAttr::SDT, Privileges::empty(), &ProviderOps::INERT, null)
    }
    .expect("there is room for a provider");
    [c"a", c"b"].map(|name| {
        // SAFETY: the ops do not look at the pointer.
        unsafe { dtrace.probe_create(provider, c"m", c"f", name, 0, null) }
            .expect("there is room for two probes")
    })
}

fn rights(bits: u8) -> Rights {
    // In most cases, all rights.
    let privileges = match bits % 8 {
        0 => Privileges::USER,
        1 => Privileges::PROC,
        2 => Privileges::KERNEL,
        _ => return Rights::ALL,
    };
    Rights::new(privileges).with_destructive()
}

/// The consumers and what they have.
struct Scene<'a> {
    dtrace: &'a Small,
    probes: [ProbeId; 2],
    dof: Vec<u8>,
    rights: Rights,
    first: Option<ConsumerId>,
    second: Second,
    /// Bytes that the first consumer has read.
    read: usize,
}

impl Scene<'_> {
    /// Executes a step. A refused request has no effect.
    fn step(&mut self, step: Step) {
        match step {
            Step::Begin => self.second.begin(self.dtrace),
            Step::End => self.second.end(self.dtrace),
            Step::Try => self.attempt(),
            Step::Stop => _ = self.first.map(|id| self.dtrace.stop(id)),
            Step::Leave => _ = self.first.take().map(|id| self.dtrace.close(id)),
            Step::Look => self.look(),
            Step::Hit { cpu, probe } => {
                let machine = self.dtrace.host();
                machine.cpu.store(usize::from(cpu) % CPUS, Ordering::Relaxed);
                let probe = self.probes[usize::from(probe) % self.probes.len()];
                self.dtrace.probe(probe, &crate::dif::world::ARGS);
            }
            Step::Clean { second } => {
                let id = if second { self.second.id } else { self.first };
                _ = id.map(|id| self.dtrace.status(id));
            }
        }
    }

    fn attempt(&mut self) {
        if self.first.is_some() {
            return;
        }
        let Ok(id) = self.dtrace.open_with(self.rights) else { return };
        self.first = Some(id);
        for (option, value) in [
            (OptionId::Strsize, i64::from(STRING)),
            (OptionId::Bufsize, 4 << 10),
            (OptionId::Aggsize, 4 << 10),
            (OptionId::Dynvarsize, 2 << 10),
            (OptionId::Specsize, 1 << 10),
            (OptionId::Nspec, 2),
            (OptionId::Destructive, 1),
        ] {
            _ = self.dtrace.set_option(id, option.number(), value);
        }
        if self.dtrace.enable_program(id, &self.dof).is_ok() {
            _ = self.dtrace.go(id);
        }
    }

    /// Reads everything that the first consumer can ask for.
    fn look(&mut self) {
        let Some(id) = self.first else { return };
        let (dtrace, secret) = (self.dtrace, &self.second.secret);
        let mut bytes = vec![0; 8 << 10];
        for number in 0..16 {
            let mut descs = [RecordDesc::EMPTY; 16];
            let field = |desc: &RecordDesc| [desc.arg, desc.uarg].map(u64::to_le_bytes).concat();
            if let Ok(Some(_)) = dtrace.eprobe(id, number, 0, &mut descs) {
                secret.check(&descs.iter().flat_map(field).collect::<Vec<_>>(), "a record's form");
            }
            descs.fill(RecordDesc::EMPTY);
            if let Ok(Some(_)) = dtrace.aggregation(id, number, 0, &mut descs) {
                secret.check(&descs.iter().flat_map(field).collect::<Vec<_>>(), "a tuple's form");
            }
            if let Ok(Some(length)) = dtrace.format(id, number as u16, 0, &mut bytes) {
                secret.check(&bytes[..length], "a format");
            }
        }
        for cpu in 0..CPUS {
            for (which, what) in
                [(Which::Records, "records"), (Which::Aggregations, "aggregations")]
            {
                if let Ok(found) = dtrace.snapshot(id, cpu, which, 0, &mut bytes) {
                    secret.check(&bytes[..found.read], what);
                    self.read += found.read;
                }
            }
        }
    }
}

/// The machine. Each read of its clock advances the time.
#[derive(Default)]
pub(super) struct Machine {
    cpu: AtomicUsize,
    time: AtomicU64,
    world: World,
}

// SAFETY: there is only one thread, so probe contexts never overlap.
unsafe impl Host for Machine {
    type Lock = SpinLock<Self>;

    fn cpu(&self) -> usize {
        self.cpu.load(Ordering::Relaxed)
    }

    fn cpus(&self) -> usize {
        CPUS
    }

    fn timestamp(&self) -> u64 {
        self.time.fetch_add(1, Ordering::Relaxed)
    }

    fn without_interrupts<R>(&self, f: impl FnOnce() -> R) -> R {
        f()
    }

    fn sync(&self) {}

    fn kernel(&self) -> &(dyn Kernel + Sync) {
        &self.world
    }
}
