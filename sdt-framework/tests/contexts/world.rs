//! A framework whose locks and whose `sync` fail in probe context, and a kernel that calls a function that the test chooses while
//! a clause runs.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};

use dtrace_abi::Platform;
use dtrace_compiler::options::Options;
use dtrace_compiler::surroundings::EveryProbe;
use dtrace_compiler::{Compiler, Source, dof};
use dtrace_protocol::{Header, Request, VERSION, Writer};
use sdt_core::ops::{FrameworkError, ProbeId, ProviderId};
use sdt_framework::console::Console;
use sdt_framework::kernel::Kernel;
use sdt_framework::server::{Lost, NoSites, Server, Stream};
use sdt_framework::{Config, ConsumerId, Dtrace, Host, RawMutex, Rights};

use crate::calls::{Call, Outcome};
use crate::common::{TestProvider, create, memory};

thread_local! {
    /// The depth of probe context of this thread.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    static CALL: RefCell<Option<(&'static World, Call)>> = const { RefCell::new(None) };
    static OUTCOME: Cell<Option<Outcome>> = const { Cell::new(None) };
}

fn needs_thread(what: &str) {
    assert_eq!(DEPTH.get(), 0, "{what} in probe context");
}

/// A lock that no test waits for.
pub struct Watched(AtomicBool);

// SAFETY: one thread at a time has taken it.
unsafe impl RawMutex for Watched {
    #[allow(clippy::declare_interior_mutable_const, reason = "as the trait has it")]
    const INIT: Self = Self(AtomicBool::new(false));
    type GuardMarker = lock_api::GuardSend;

    fn lock(&self) {
        needs_thread("a lock");
        assert!(self.try_lock(), "the thread would wait for itself");
    }

    fn try_lock(&self) -> bool {
        needs_thread("a lock");
        !self.0.swap(true, Ordering::Acquire)
    }

    unsafe fn unlock(&self) {
        self.0.store(false, Ordering::Release);
    }
}

/// One CPU: the thread of the test.
#[derive(Clone, Copy, Debug)]
pub struct One;

// SAFETY: the tests use a framework in one thread each.
unsafe impl Host for One {
    type Lock = Watched;

    fn cpu(&self) -> usize {
        0
    }

    fn cpus(&self) -> usize {
        1
    }

    fn timestamp(&self) -> u64 {
        1_000_000_000
    }

    fn without_interrupts<R>(&self, f: impl FnOnce() -> R) -> R {
        DEPTH.set(DEPTH.get() + 1);
        let result = f();
        DEPTH.set(DEPTH.get() - 1);
        result
    }

    fn sync(&self) {
        needs_thread("sync");
    }

    fn kernel(&self) -> &(dyn Kernel + Sync) {
        self
    }
}

impl Kernel for One {
    fn timestamp(&self) -> u64 {
        0
    }

    fn load(&self, _address: u64, into: &mut [u8]) -> bool {
        if let Some((world, call)) = CALL.take() {
            OUTCOME.set(Some(call(world)));
        }
        into.fill(1);
        true
    }
}

pub type Framework = Dtrace<One>;

const CONFIG: Config = Config { providers: 4, probes: 32, ecbs: 32, consumers: 4, buffer: 4096 };

/// A framework with two probes. A clause of the first loads memory of the kernel. The second, of another provider, is not
/// enabled.
pub struct World {
    pub dtrace: Framework,
    pub provider: ProviderId,
    pub consumer: ConsumerId,
    pub probe: ProbeId,
    pub other: ProviderId,
    /// A console that has enabled the other probe.
    pub console: Mutex<Option<Console<'static>>>,
    /// A server with a consumer, and a request on its line.
    pub server: Mutex<Option<Server<'static>>>,
    pub line: Mutex<Line>,
}

/// The received bytes of a line. Answers are discarded.
#[derive(Default)]
pub struct Line(VecDeque<u8>);

impl Line {
    fn ask(&mut self, seq: u32, request: &Request<'_>) {
        let (mut buffer, mut line) = ([0; 512], [0; 600]);
        let frame = Writer::new(&mut buffer, Header { channel: 1, seq }, request).unwrap();
        let length = frame.seal(&mut line).unwrap();
        self.0.extend(&line[..length]);
    }
}

impl Stream for Line {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Lost> {
        let length = buffer.len().min(self.0.len());
        buffer.iter_mut().zip(self.0.drain(..length)).for_each(|(to, from)| *to = from);
        Ok(length)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<usize, Lost> {
        Ok(bytes.len())
    }
}

pub fn compile(text: &str) -> Vec<u8> {
    let mut compiler = Compiler::new(Platform::Freebsd, Options::default());
    let program = compiler.compile(Source::file(text.as_bytes()), &EveryProbe).unwrap();
    dof::program(&program, compiler.options()).unwrap()
}

static PROGRAM: OnceLock<Vec<u8>> = OnceLock::new();

impl World {
    pub fn new() -> &'static Self {
        let dtrace = Dtrace::new(One);
        dtrace.init(memory(1 << 20), &CONFIG).unwrap();
        dtrace.register_own().unwrap();
        let ops = |name| {
            let provider: &'static TestProvider = Box::leak(Box::default());
            // SAFETY: the provider is never freed.
            unsafe { provider.register(&dtrace, name) }.unwrap()
        };
        let (provider, other) = (ops(c"p"), ops(c"other"));
        let probe = create(&dtrace, provider, [c"m", c"f", c"hit"], 0);
        create(&dtrace, other, [c"m", c"f", c"quiet"], 0);
        let consumer = dtrace.open().unwrap();
        let program = PROGRAM.get_or_init(|| {
            compile(
                "p:::hit { trace(*(int *)arg0 + arg1); printf(\"%s\", stringof(arg0)); @[arg1] = count(); }",
            )
        });
        dtrace.enable_program(consumer, program).unwrap();
        dtrace.go(consumer).unwrap();
        let (console, server, line) = (Mutex::new(None), Mutex::new(None), Mutex::default());
        let world: &'static Self = Box::leak(Box::new(Self {
            dtrace,
            provider,
            consumer,
            probe,
            other,
            console,
            server,
            line,
        }));
        let mut console = Console::new(&world.dtrace);
        console.command("-n other:::quiet", &mut String::new()).unwrap();
        *world.console.lock().unwrap() = Some(console);
        let mut server = Server::new(&world.dtrace, &NoSites, Rights::ALL);
        let line = &mut *world.line.lock().unwrap();
        line.ask(1, &Request::Hello { version: VERSION });
        line.ask(2, &Request::Open);
        while server.step(line).unwrap() {}
        line.ask(3, &Request::Status);
        *world.server.lock().unwrap() = Some(server);
        world
    }

    /// Fires the probe, and calls a function while its clause runs.
    pub fn in_probe_context(&'static self, call: Call) -> Outcome {
        CALL.set(Some((self, call)));
        self.dtrace.probe(self.probe, &[0x1000, 2]);
        assert_eq!(DEPTH.get(), 0);
        OUTCOME.take().expect("the clause loads memory")
    }

    /// Asserts that the clause has been recorded and that the framework still works, whatever function was called.
    pub fn is_whole(&self, name: &str) {
        let counters = self.dtrace.counters();
        assert_eq!((counters.records, counters.drops), (1, 0), "{name}");
        self.dtrace.probe(self.probe, &[0x1000, 2]);
        self.dtrace.stop(self.consumer).unwrap();
        let (mut bytes, which) = ([0; 1024], sdt_framework::Which::Records);
        let found = self.dtrace.snapshot(self.consumer, 0, which, 0, &mut bytes).unwrap();
        assert!(found.size > 0 && found.errors == 0, "{name}: {found:?}");
        assert_eq!(self.dtrace.status(self.consumer).unwrap().errors, 0, "{name}");
        self.dtrace.close(self.consumer).unwrap();
        assert_eq!(
            self.dtrace.unregister(self.other),
            Err(FrameworkError::Busy),
            "others are open"
        );
        self.console.lock().unwrap().as_mut().unwrap().stop(&mut String::new()).unwrap();
        assert_eq!(self.dtrace.unregister(self.other), Err(FrameworkError::Busy), "{name}");
        let mut server = self.server.lock().unwrap();
        let server = server.as_mut().unwrap();
        while server.step(&mut *self.line.lock().unwrap()).unwrap() {}
        if name != "Server::reset" {
            server.reset();
        }
        self.dtrace.unregister(self.other).unwrap();
        self.dtrace.unregister(self.provider).unwrap();
    }
}
