//! The framework's server: any bytes over its line, while probes fire. It sends only complete replies to requests, and
//! after the line is lost no consumer is open.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use arbitrary::{Arbitrary, Unstructured};
use dtrace_abi::Platform;
use dtrace_compiler::options::Options;
use dtrace_compiler::surroundings::EveryProbe;
use dtrace_compiler::{Compiler, Source, dof};
use dtrace_protocol::{
    DataOf, Datum, Decoder, Header, Probe, Reply, Request, RunOption, Site, SiteState, SnapshotOf,
    VERSION, Writer,
};
use sdt_core::ops::{Framework as _, Privileges, ProbeId, ProviderAttr, ProviderOps};
use sdt_framework::kernel::{Kernel, ModuleText, Symbol};
use sdt_framework::server::{Lost, MIN_FRAME, Server, Sites, Stream};
use sdt_framework::{Config, Dtrace, Host, Rights, SpinLock};

use crate::handed::Handed;

pub(crate) const CPUS: usize = 2;
/// A small configuration, so that the tables fill up.
pub(crate) const CONFIG: Config = Config {
    providers: 2,
    probes: 6,
    ecbs: 8,
    consumers: 2,
    buffer: 4 * sdt_framework::Record::SIZE,
};

pub(crate) type Small = Dtrace<Machine>;

/// Runs the target.
///
/// # Panics
/// The server sends a reply to no request, or leaves a consumer open.
pub fn run(input: &[u8]) {
    let Ok(steps) = Vec::<Step>::arbitrary_take_rest(Unstructured::new(input)) else { return };
    let memory = Handed::new(CONFIG.memory::<Machine>(CPUS, CONFIG.consumers));
    let dtrace: Box<Small> = Box::new(Dtrace::new(Machine(AtomicU64::new(1))));
    // SAFETY: only the framework uses the memory, and `memory` is dropped after it.
    dtrace.init(unsafe { memory.over() }, &CONFIG).expect("it is enough");
    let null = std::ptr::null_mut();
    // SAFETY: the ops do nothing.
    let provider = unsafe {
        dtrace.register(c"p", &ProviderAttr::SDT, Privileges::USER, &ProviderOps::INERT, null)
    }
    .expect("there is room for a provider");
    let ids = [c"one", c"two", c"a-name-that-is-rather-long-and-takes-its-room"].map(|name| {
        // SAFETY: the ops do not look at the pointer.
        unsafe { dtrace.probe_create(provider, c"m", c"f", name, 1, null) }
            .expect("there is room for three probes")
    });
    let mut server: Server<'_, MIN_FRAME, 3> = Server::new(&*dtrace, &Numbered, Rights::ALL);
    let mut line = Line::default();
    for step in steps {
        match step {
            Step::Noise(noise) => line.arriving.extend(noise),
            Step::Frame { channel, seq, content } => line.arrive(channel, seq, &content),
            Step::Ask { channel, seq, what } => line.ask(channel % 5, seq, &what),
            Step::Program { channel } => {
                const PIECE: u16 = 256;
                for (n, at) in (0..program().len() as u16).step_by(PIECE.into()).enumerate() {
                    line.ask(channel % 5, n as u32, &What::Piece { at, length: PIECE });
                }
            }
            Step::Fire { cpu, probe } => {
                CPU.set(usize::from(cpu) % CPUS);
                dtrace.probe(ids[usize::from(probe) % ids.len()], &[u64::from(probe); 6]);
            }
            Step::Room(room) => line.room = usize::from(room),
            Step::Serve => _ = server.step(&mut line).expect("the line is there"),
            Step::Reset => {
                server.reset();
                // Half an answer may have been sent.
                line.check_sent(false);
                line.arriving.clear();
            }
        }
    }
    line.room = usize::MAX;
    while server.step(&mut line).expect("the line is there") {}
    line.check_sent(true);

    // After any input, the server answers a consumer that sends a zero byte and `Hello`.
    line.arriving.push_back(0);
    line.ask(1, 7, &What::Hello { other: false });
    while server.step(&mut line).expect("the line is there") {}
    assert!(!line.sent.is_empty());
    line.check_sent(true);

    line.lost = true;
    assert_eq!(server.step(&mut line), Err(Lost));
    dtrace.unregister(provider).expect("no consumer has the framework open");
}

/// A program in DOF that records and aggregates an argument.
fn program() -> &'static [u8] {
    static PROGRAM: OnceLock<Vec<u8>> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let mut compiler = Compiler::new(Platform::Freebsd, Options::default());
        let text = b"p::: { trace(arg0); @[probename] = sum(arg0); } p:::one /arg1/ { printf(\"%d\", arg2); }";
        let program = compiler.compile(Source::file(text), &EveryProbe).expect("it is D");
        dof::program(&program, compiler.options()).expect("it is short")
    })
}

#[derive(Debug, Arbitrary)]
enum Step {
    Noise(Vec<u8>),
    /// A complete frame with any content.
    Frame {
        channel: u8,
        seq: u32,
        content: Vec<u8>,
    },
    Ask {
        channel: u8,
        seq: u32,
        what: What,
    },
    Fire {
        cpu: u8,
        probe: u8,
    },
    /// A consumer on this channel sends the whole [`program`].
    Program {
        channel: u8,
    },
    /// The line accepts this number of bytes at a time from now on.
    Room(u8),
    Serve,
    Reset,
}

#[derive(Debug, Arbitrary)]
pub(crate) enum What {
    Hello {
        other: bool,
    },
    Open,
    Close,
    List {
        spec: Option<String>,
        after: u32,
    },
    Describe {
        probe: u8,
    },
    Argument {
        probe: u8,
        index: u8,
    },
    Sites {
        probe: u8,
        skip: u8,
    },
    Go,
    Stop,
    Status,
    /// A piece of [`program`].
    Piece {
        at: u16,
        length: u16,
    },
    Set {
        option: u8,
        value: i32,
    },
    Snapshot {
        cpu: u8,
        aggregations: bool,
        at: u16,
    },
    Run,
    Eprobe {
        epid: u8,
    },
    Aggregation {
        id: u8,
    },
    Format {
        number: u8,
        at: u8,
    },
    Claim,
    Declared {
        index: u8,
        at: u32,
    },
    SymbolNamed {
        module: String,
        name: String,
    },
    Data {
        eprobe: bool,
        number: u8,
        skip: u8,
    },
    Options {
        from: u32,
    },
}

impl What {
    /// A description, or that of all probes.
    fn spec(spec: &Option<String>) -> &str {
        spec.as_deref().unwrap_or(":::")
    }

    pub(crate) fn request(&self) -> Request<'_> {
        match self {
            Self::Hello { other } => Request::Hello { version: VERSION + u32::from(*other) },
            Self::Open => Request::Open,
            Self::Close => Request::Close,
            Self::List { spec, after } => Request::List { spec: Self::spec(spec), after: *after },
            Self::Describe { probe } => Request::Describe { probe: u32::from(*probe) },
            Self::Argument { probe, index } => {
                Request::Argument { probe: u32::from(*probe), index: *index }
            }
            Self::Sites { probe, skip } => {
                Request::Sites { probe: u32::from(*probe), skip: u32::from(*skip) }
            }
            Self::Go => Request::Go,
            Self::Stop => Request::Stop,
            Self::Status => Request::Status,
            Self::Piece { at, length } => {
                let (dof, start) = (program(), usize::from(*at));
                let rest = dof.get(start..).unwrap_or_default();
                let bytes = &rest[..rest.len().min(usize::from(*length))];
                Request::Program { size: dof.len() as u32, at: start as u32, bytes }
            }
            Self::Set { option, value } => {
                Request::Option { option: (*option).into(), value: (*value).into() }
            }
            Self::Snapshot { cpu, aggregations, at } => {
                let buffer =
                    if *aggregations { SnapshotOf::Aggregations } else { SnapshotOf::Records };
                Request::Snapshot { cpu: (*cpu).into(), buffer, at: (*at).into() }
            }
            Self::Run => Request::Run,
            Self::Eprobe { epid } => Request::Eprobe { epid: (*epid).into() },
            Self::Aggregation { id } => Request::Aggregation { id: (*id).into() },
            Self::Format { number, at } => {
                Request::Format { number: (*number).into(), at: (*at).into() }
            }
            Self::Claim => Request::Claim,
            Self::Declared { index, at } => Request::Declared { index: u32::from(*index), at: *at },
            Self::SymbolNamed { module, name } => Request::SymbolNamed { module, name },
            Self::Data { eprobe, number, skip } => {
                let number = u32::from(*number);
                let of = if *eprobe { DataOf::Eprobe(number) } else { DataOf::Aggregation(number) };
                Request::Data { of, skip: u32::from(*skip) }
            }
            Self::Options { from } => Request::Options { from: *from },
        }
    }
}

/// Both directions of a line.
#[derive(Default)]
struct Line {
    arriving: VecDeque<u8>,
    sent: Vec<u8>,
    room: usize,
    lost: bool,
    /// The requests.
    asked: Vec<Header>,
}

impl Stream for Line {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Lost> {
        let length = buffer.len().min(self.arriving.len());
        buffer.iter_mut().zip(self.arriving.drain(..length)).for_each(|(to, from)| *to = from);
        if self.lost { Err(Lost) } else { Ok(length) }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<usize, Lost> {
        let length = bytes.len().min(self.room);
        self.sent.extend(&bytes[..length]);
        if self.lost { Err(Lost) } else { Ok(length) }
    }
}

impl Line {
    fn ask(&mut self, channel: u8, seq: u32, what: &What) {
        let (mut buffer, mut line) = (vec![0; 1 << 16], vec![0; 1 << 17]);
        // A longer message is no request.
        let Ok(frame) = Writer::new(&mut buffer, Header { channel, seq }, &what.request()) else {
            return;
        };
        let length = frame.seal(&mut line).expect("the line is long enough");
        self.asked.push(Header { channel, seq });
        self.arriving.extend(&line[..length]);
    }

    fn arrive(&mut self, channel: u8, seq: u32, content: &[u8]) {
        let header = Header { channel, seq };
        let frame = dtrace_protocol::Frame { header, content };
        let (mut buffer, mut line) = (vec![0; content.len() + 16], vec![0; content.len() * 2 + 32]);
        let length = frame.pass_on(header, &mut buffer, &mut line).expect("there is room");
        self.asked.push(header);
        self.arriving.extend(&line[..length]);
    }

    /// Checks the sent bytes. If `whole` is set, they are complete frames.
    fn check_sent(&mut self, whole: bool) {
        let mut decoder = Decoder::new([0; MIN_FRAME]);
        let sent = std::mem::take(&mut self.sent);
        assert!(!whole || sent.last().is_none_or(|&byte| byte == 0), "half a frame");
        for byte in sent {
            let Some(frame) = decoder.push(byte) else { continue };
            let frame = frame.expect("the server sends whole frames");
            // Random bytes that are a frame with a right checksum are too improbable to occur.
            assert!(self.asked.contains(&frame.header), "{frame:?} was not asked for");
            let (reply, items) = frame.message::<Reply<'_>>().expect("the server sends replies");
            match reply {
                Reply::Probes => assert!(items.iter::<Probe<'_>>().all(|item| item.is_ok())),
                Reply::Sites => assert!(items.iter::<Site<'_>>().all(|item| item.is_ok())),
                Reply::Declared(Some(of)) => {
                    assert!(of.next <= of.end && !of.text.contains(&0) && items.is_empty());
                }
                Reply::Data { .. } | Reply::Eprobe { .. } | Reply::Aggregation { .. } => {
                    assert!(items.iter::<Datum>().all(|item| item.is_ok()));
                }
                Reply::Options => assert!(items.iter::<RunOption>().all(|item| item.is_ok())),
                _ => assert!(items.is_empty()),
            }
        }
    }
}

/// Gives each probe as many sites as its number.
struct Numbered;

impl Sites for Numbered {
    fn each(&self, probe: ProbeId, skip: usize, show: &mut dyn FnMut(&Site<'_>) -> bool) {
        let symbol = "s".repeat(probe.get() as usize * 9);
        let site = |n: u64| Site {
            address: n,
            function: Some((&symbol, n)),
            state: SiteState::Nop,
            target: n,
            in_reach: false,
            reach: 1,
        };
        let _ = (skip as u64..u64::from(probe.get())).all(|n| show(&site(n)));
    }
}

thread_local! {
    pub(crate) static CPU: Cell<usize> = const { Cell::new(0) };
}

/// CPUs for which one thread acts, one after the other.
#[derive(Debug)]
pub(crate) struct Machine(pub(crate) AtomicU64);

// SAFETY: one thread acts as all CPUs, so probe contexts never overlap.
unsafe impl Host for Machine {
    type Lock = SpinLock<Self>;

    fn cpu(&self) -> usize {
        CPU.get()
    }

    fn cpus(&self) -> usize {
        CPUS
    }

    fn timestamp(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    fn without_interrupts<R>(&self, f: impl FnOnce() -> R) -> R {
        f()
    }

    fn sync(&self) {}

    fn kernel(&self) -> &(dyn Kernel + Sync) {
        self
    }
}

/// A kernel with two modules: one declares a long text, the other an empty one.
impl Kernel for Machine {
    fn timestamp(&self) -> u64 {
        Host::timestamp(self)
    }

    fn load(&self, _address: u64, _into: &mut [u8]) -> bool {
        false
    }

    fn symbol_named(&self, module: Option<&[u8]>, name: &[u8], show: &mut dyn FnMut(Symbol<'_>)) {
        show(Symbol { module: module.unwrap_or(b"m"), name, address: 1, size: 8 });
    }

    fn declared(&self, index: usize, show: &mut dyn FnMut(ModuleText<'_>)) {
        match index {
            0 => show(ModuleText { module: b"m", text: &b"text\t\0\0".repeat(200) }),
            1 => show(ModuleText { module: b"n", text: b"" }),
            _ => {}
        }
    }
}
