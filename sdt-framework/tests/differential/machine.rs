//! The machine that the programs ran on: one CPU, one process, a little memory.

use std::fs;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use dtrace_abi::Platform;
use dtrace_abi::stability::Attribute;
use dtrace_compiler::options::Options;
use dtrace_compiler::surroundings::{
    Argument, Description, Matches, ProbeInfo, ProviderAttributes, Surroundings,
};
use dtrace_compiler::{Compiler, Source, dof};
use sdt_core::ops::{Framework, Privileges, ProbeId, ProviderAttr, ProviderOps};
use sdt_framework::kernel::{Kernel, Number, Text};
use sdt_framework::{Config, Dtrace, Host, SpinLock};

use crate::cases;

/// The address of the kernel's memory.
const KERNEL: u64 = 0x7f80_0000;
/// The address of the process's memory.
const PROCESS: u64 = 0x2_0000;
/// Bytes of memory of a framework: buffers take most of it.
const MEMORY: usize = 4 << 20;

/// The CPU, and the kernel as programs see it. Every read of the clock advances the time.
#[derive(Clone)]
pub struct World(Arc<Memory>);

struct Memory {
    time: AtomicU64,
    kernel: Vec<u8>,
    process: Mutex<Vec<u8>>,
    predicate_cache: AtomicU32,
}

/// Returns the range of these addresses in memory that begins at `start`.
fn at(start: u64, address: u64, length: usize) -> Option<std::ops::Range<usize>> {
    let from = usize::try_from(address.checked_sub(start)?).ok()?;
    Some(from..from.checked_add(length)?)
}

// SAFETY: a machine is used by the thread that has made it.
unsafe impl Host for World {
    type Lock = SpinLock<Self>;

    fn cpu(&self) -> usize {
        0
    }

    fn cpus(&self) -> usize {
        1
    }

    fn timestamp(&self) -> u64 {
        self.0.time.fetch_add(1, Ordering::Relaxed)
    }

    fn without_interrupts<R>(&self, f: impl FnOnce() -> R) -> R {
        f()
    }

    fn sync(&self) {}

    fn kernel(&self) -> &(dyn Kernel + Sync) {
        self
    }
}

impl Kernel for World {
    fn timestamp(&self) -> u64 {
        unreachable!("the host is asked")
    }

    fn load(&self, address: u64, into: &mut [u8]) -> bool {
        let range = at(KERNEL, address, into.len());
        let from = range.and_then(|range| self.0.kernel.get(range));
        from.is_some_and(|from| {
            into.copy_from_slice(from);
            true
        })
    }

    fn aligned(&self) -> bool {
        false
    }

    fn number(&self, which: Number) -> Option<u64> {
        Some(match which {
            Number::Pid => 4242,
            Number::Ppid | Number::Tid => 1,
            Number::Uid | Number::Gid | Number::Errno | Number::Ipl => 0,
            Number::Vtimestamp | Number::Walltimestamp => 0,
            _ => return None,
        })
    }

    fn text(&self, which: Text) -> Option<&[u8]> {
        match which {
            Text::Execname => Some(b"shim"),
            Text::Zonename => Some(b"global"),
            _ => None,
        }
    }

    fn copyin(&self, address: u64, into: &mut [u8]) -> bool {
        let process = self.0.process.lock().unwrap();
        let range = at(PROCESS, address, into.len());
        range.and_then(|range| process.get(range)).is_some_and(|from| {
            into.copy_from_slice(from);
            true
        })
    }

    fn copyout(&self, from: &[u8], address: u64) -> bool {
        let mut process = self.0.process.lock().unwrap();
        let range = at(PROCESS, address, from.len());
        range.and_then(|range| process.get_mut(range)).is_some_and(|to| {
            to.copy_from_slice(from);
            true
        })
    }

    fn predicate_cache(&self) -> Option<&AtomicU32> {
        Some(&self.0.predicate_cache)
    }
}

/// A framework with the probe `test:m:f:hit`.
pub struct Machine {
    world: World,
    process: Vec<u8>,
    pub dtrace: Box<Dtrace<World>>,
    pub hit: ProbeId,
    pub hits: Vec<[u64; 10]>,
}

impl Machine {
    pub fn new() -> Self {
        let process = fs::read(cases::file("process.bin")).unwrap();
        let world = World(Arc::new(Memory {
            time: AtomicU64::new(1),
            kernel: fs::read(cases::file("kernel.bin")).unwrap(),
            process: Mutex::new(process.clone()),
            predicate_cache: AtomicU32::new(0),
        }));
        let dtrace = Box::new(Dtrace::new(world.clone()));
        let config = Config { consumers: 2, ..Config::DEFAULT };
        dtrace.init(Box::leak(Box::new_uninit_slice(MEMORY)), &config).unwrap();
        dtrace.register_own().unwrap();
        let ops: &'static ProviderOps = &ProviderOps::INERT;
        let (none, rights) = (std::ptr::null_mut(), Privileges::empty());
        // SAFETY: the ops do nothing, and are never freed.
        let provider = unsafe { dtrace.register(c"test", &ProviderAttr::SDT, rights, ops, none) };
        let provider = provider.unwrap();
        // SAFETY: the ops ignore their arguments.
        let hit = unsafe { dtrace.probe_create(provider, c"m", c"f", c"hit", 0, none) }.unwrap();
        Self { world, process, dtrace, hit, hits: cases::hits() }
    }

    /// Undoes what a program has written to the process.
    pub fn restore(&self) {
        self.world.0.process.lock().unwrap().copy_from_slice(&self.process);
    }
}

/// The DOF of a program, and that of its options. A clause for `dtrace:::ERROR` records faults.
pub fn compile(program: &str) -> [Vec<u8>; 2] {
    let mut options = Options::default();
    // Some programs use macro arguments that are not given, and probes that do not exist.
    (options.no_probes, options.unused_arguments, options.default_arguments) = (true, true, true);
    // Enough for every program, unless the program sets a smaller size.
    for (option, size) in
        [("bufsize", "64k"), ("aggsize", "64k"), ("dynvarsize", "16k"), ("specsize", "8k")]
    {
        options.set(option, Some(size)).unwrap();
    }
    let faults =
        "dtrace:::ERROR { trace(arg1); trace(arg2); trace(arg3); trace(arg4); trace(arg5); }";
    let text = format!("{program}\n\n{faults}\n");
    let mut compiler = Compiler::new(Platform::Freebsd, options);
    let compiled = compiler.compile(Source::file(text.as_bytes()), &Probes);
    let compiled = compiled.unwrap_or_else(|error| panic!("{}", error.with_tag()));
    [dof::program(&compiled, compiler.options()).unwrap(), dof::options(compiler.options())]
}

/// The probes of `dtrace`, and `hit` with ten arguments.
struct Probes;

impl Surroundings for Probes {
    fn probes(&self, description: &Description) -> Matches {
        let attributes = ProviderAttributes::all(Attribute::DEFAULT);
        let (module, count) = match description.name.as_str() {
            "BEGIN" | "END" | "ERROR" => (String::new(), 0),
            "hit" => ("m".into(), 10),
            _ => return Matches::None,
        };
        let argument = |mapping: u8| Argument {
            name: String::new(),
            native: if mapping.is_multiple_of(2) { "int64_t" } else { "uint64_t" }.into(),
            translated: String::new(),
            mapping,
            obstacle: None,
        };
        let arguments = (0..count).map(argument).collect();
        Matches::One(ProbeInfo::new(module, attributes, arguments))
    }
}
