//! The correct answers of a kernel: recorded once for each program, from a framework.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use dtrace_abi::Platform;
use dtrace_compiler::options::Options;
use dtrace_compiler::surroundings::EveryProbe;
use dtrace_compiler::{Compiler, Source, Specifies, dof};
use dtrace_consumer::consume::{self, Recorded};
use dtrace_consumer::job::{Mode, Text};
use dtrace_consumer::render::Kept;
use dtrace_consumer::transport::{Transport, TransportError};
use dtrace_consumer::{Client, Interrupt, Job};
use dtrace_protocol::{Decoder, Frame, Request};
use sdt_framework::server::{Lost, NoSites, Server, Stream};
use sdt_framework::{Config, Dtrace, Rights};

use crate::server::{Machine, Small};

/// A program, and the effects that it may have.
pub(super) struct Scenario {
    program: &'static str,
    mode: Mode,
    /// Whether the kernel has enabled the program without a consumer.
    claimed: bool,
    /// The requests to the output, in order.
    pub orders: &'static [&'static str],
}

const fn traced(program: &'static str) -> Scenario {
    Scenario { program, mode: Mode::Trace, claimed: false, orders: &[] }
}

/// Programs with every kind of record, aggregation and action, and the other ways to run a program.
pub(super) static SCENARIOS: &[Scenario] = &[
    traced("BEGIN { trace(1); }"),
    traced(
        "BEGIN { printf(\"%d %s %x %c %Y\\n\", 7, probename, 0x99, 65, walltimestamp); trace(execname); }",
    ),
    traced(
        "BEGIN { @a[1, probename] = count(); @b = quantize(5); @c[stack(2)] = avg(7); printa(\"%d %s %@d\\n\", @a); printa(@b); }",
    ),
    traced(
        "BEGIN { @l = lquantize(5, 0, 10, 2); @m = llquantize(50, 10, 0, 3, 10); @s = stddev(9); @x = max(3); normalize(@x, 2); trunc(@l, 1); clear(@m); denormalize(@x); setopt(\"quiet\", \"1\"); }",
    ),
    traced(
        "BEGIN { stack(3); ustack(3); sym(1); mod(1); usym(2); umod(2); uaddr(3); printf(\"%a\", 1); @k[stack(1)] = count(); printa(\"%k %@d\", @k); }",
    ),
    traced(
        "struct pair { int x; char y[8]; }; BEGIN { this->p = (struct pair *)alloca(16); print(*this->p); tracemem(this->p, 12); } ERROR { trace(arg4); } BEGIN { trace(*(int *)0); }",
    ),
    traced(
        "BEGIN { this->s = speculation(); speculate(this->s); trace(9); } END { trace(10); } BEGIN { exit(0); }",
    ),
    Scenario {
        orders: &["made", "freopen(\"\")", "echo BEGIN", "ftruncate()"],
        ..traced(
            "#pragma D option destructive\nBEGIN { freopen(\"made\"); freopen(\"\"); system(\"echo BEGIN\"); ftruncate(); exit(3); }",
        )
    },
    Scenario { mode: Mode::List, ..traced("") },
    Scenario { mode: Mode::Compile, ..traced("BEGIN { trace(`symbol); }") },
    Scenario {
        claimed: true,
        ..traced(
            "#pragma D option destructive\nBEGIN { printf(\"%d %s\\n\", 5, probename); system(\"touch %s\", probename); freopen(\"made\"); ftruncate(); setopt(\"quiet\"); @a[1] = count(); printa(@a); clear(@a); exit(9); }",
        )
    },
];

impl Scenario {
    /// The job of dtrace.
    pub(super) fn job(&self) -> Job {
        let mut job = Job {
            mode: self.mode,
            claim: self.claimed,
            verbose: true,
            sites: true,
            ..Job::default()
        };
        for (name, value) in [
            ("bufsize", "4k"),
            ("aggsize", "4k"),
            ("specsize", "1k"),
            ("strsize", "32"),
            ("dynvarsize", "1k"),
        ] {
            job.set(name, Some(value)).expect("options are as they are");
        }
        if !self.claimed && !self.program.is_empty() {
            job.programs.push(Text::Line(self.program.into(), Specifies::Name));
        }
        job
    }
}

/// The answers.
#[derive(Debug, Default)]
pub(super) struct Told(HashMap<String, Vec<Vec<u8>>>);

impl Told {
    /// Returns the content of the recorded answer to a request: of the answer number `times`, or of the last one if there are
    /// fewer. Empty if the request was never made.
    pub(super) fn answer(&self, asked: &str, times: usize) -> Vec<u8> {
        let all = self.0.get(asked).map(Vec::as_slice).unwrap_or_default();
        all.get(times)
            .or(all.last())
            .or(self.0.get(REFUSED).and_then(|all| all.first()))
            .cloned()
            .unwrap_or_default()
    }
}

/// The position of a refusal.
const REFUSED: &str = "";

/// Returns the part of a request that is the same in every run.
pub(super) fn asked(frame: &Frame<'_>) -> String {
    match frame.message::<Request<'_>>() {
        // The kernel answers with the number of matching probes.
        Ok((Request::Program { size, at, bytes }, _)) => {
            format!("program {}", at as usize + bytes.len() == size as usize)
        }
        // The same for all options.
        Ok((Request::Option { .. }, _)) => "option".into(),
        Ok((request, _)) => format!("{request:?}"),
        Err(_) => REFUSED.into(),
    }
}

/// Returns the answers of a kernel for the program with this number.
pub(super) fn told(scenario: usize) -> &'static Told {
    static ALL: OnceLock<Vec<Told>> = OnceLock::new();
    &ALL.get_or_init(|| SCENARIOS.iter().map(record).collect())[scenario]
}

/// Bytes of the framework's memory.
const BYTES: usize = 1 << 20;
/// Bytes of its frames.
const FRAME: usize = 8 << 10;

/// The frameworks whose answers were recorded.
static KEPT: Mutex<Vec<&'static Small>> = Mutex::new(Vec::new());

fn record(scenario: &Scenario) -> Told {
    let memory: &'static mut [u64] = vec![0; BYTES / 8].leak();
    let bytes = memory.as_mut_ptr().cast::<std::mem::MaybeUninit<u8>>();
    // SAFETY: the memory was leaked just now: it is `BYTES` long, it stays, and nothing else refers to it.
    let over = unsafe { std::slice::from_raw_parts_mut(bytes, BYTES) };
    let dtrace: &'static Small = Box::leak(Box::new(Dtrace::new(Machine(AtomicU64::new(1)))));
    let config = Config { providers: 2, probes: 16, ecbs: 32, consumers: 2, buffer: 512 };
    dtrace.init(over, &config).expect("there is enough memory");
    dtrace.register_own().expect("there is room for its own provider");
    if scenario.claimed {
        let job = scenario.job();
        let mut compiler = Compiler::new(Platform::Freebsd, Options::clone(&job.options));
        let program = compiler.compile(Source::line(scenario.program.as_bytes()), &EveryProbe);
        let program = program.expect("the program is right");
        let dof = dof::anonymous(std::iter::once(&program), None, compiler.options());
        dtrace.enable_anonymously(&dof.expect("it is short")).expect("there is room");
    }
    // Stays reachable, or the end of a run of libFuzzer reports a leak.
    KEPT.lock().expect("one thread").push(dtrace);
    let told = Arc::new(Mutex::new(Told::default()));
    let server = Server::new(dtrace, &NoSites, Rights::ALL);
    let line = Heard {
        server,
        wire: Wire::default(),
        at: 0,
        asked: Decoder::new(vec![0; FRAME]),
        answered: Decoder::new(vec![0; FRAME]),
        open: None,
        told: told.clone(),
    };
    let client = Client::connect(line).expect("it answers");
    let mut shown = Shown(Kept::default());
    consume::run(client, &scenario.job(), &Interrupt::new(), &mut Recorded, &mut shown)
        .unwrap_or_else(|error| panic!("{}: {error}", scenario.program));
    std::mem::take(&mut *told.lock().expect("one thread"))
}

/// An output that performs no action.
struct Shown(Kept);

impl dtrace_consumer::render::Output for Shown {
    fn line(&mut self, text: &[u8]) -> std::io::Result<()> {
        self.0.line(text)
    }

    fn write(&mut self, text: &[u8]) -> std::io::Result<()> {
        self.0.write(text)
    }

    fn message(&mut self, text: &str) -> std::io::Result<()> {
        self.0.message(text)
    }

    fn listing(&mut self, text: &str) -> std::io::Result<()> {
        self.0.listing(text)
    }

    fn perform(&mut self, _: &dtrace_consumer::render::Order<'_>) -> std::io::Result<()> {
        Ok(())
    }
}

/// Both directions of a line.
#[derive(Default)]
struct Wire {
    arriving: Vec<u8>,
    sent: Vec<u8>,
}

impl Stream for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Lost> {
        let length = buffer.len().min(self.arriving.len());
        buffer.iter_mut().zip(self.arriving.drain(..length)).for_each(|(to, from)| *to = from);
        Ok(length)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<usize, Lost> {
        self.sent.extend(bytes);
        Ok(bytes.len())
    }
}

/// A line to a framework in this process, which records requests and replies.
struct Heard {
    server: Server<'static, FRAME, 2>,
    wire: Wire,
    /// The number of sent bytes that have been read.
    at: usize,
    asked: Decoder<Vec<u8>>,
    answered: Decoder<Vec<u8>>,
    /// The unanswered requests.
    open: Option<String>,
    told: Arc<Mutex<Told>>,
}

impl Transport for Heard {
    fn read(&mut self, buffer: &mut [u8], _: Duration) -> Result<usize, TransportError> {
        while self.server.step(&mut self.wire).expect("the line is there") {}
        let rest = &self.wire.sent[self.at..];
        let count = buffer.len().min(rest.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        for &byte in &rest[..count] {
            let Some(Ok(frame)) = self.answered.push(byte) else { continue };
            let mut told = self.told.lock().expect("one thread");
            let answer = frame.content.to_vec();
            if let Some(asked) = self.open.take() {
                told.0.entry(asked).or_default().push(answer);
            }
        }
        self.at += count;
        if count == 0 { Err(TransportError::Closed(None)) } else { Ok(count) }
    }

    fn write(&mut self, bytes: &[u8], _: Duration) -> Result<(), TransportError> {
        for &byte in bytes {
            if let Some(Ok(frame)) = self.asked.push(byte) {
                self.open = Some(asked(&frame));
            }
        }
        self.wire.arriving.extend(bytes);
        Ok(())
    }
}
