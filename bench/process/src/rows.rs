//! The probes that are measured, each with the clause that is enabled for it and the function that fires it.

use std::ffi::CStr;
use std::hint::black_box;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use dtrace_consumer::compiler::Source;
use dtrace_consumer::compiler::options::Options as TraceOptions;
use dtrace_consumer::render::{Streams, Text};
use dtrace_consumer::trace::Running;
use dtrace_consumer::{Address, Client, Protection, Trace};
use sdt_core::{sdt_probe, sdt_provider};
use sdt_process::Process;

sdt_provider! {
    /// The rows of the benchmark.
    pub row {
        /// Never enabled.
        fn disabled(number: u64);
        /// An integer.
        fn integer(number: u64);
        /// A text of 16 bytes on the heap.
        fn heap(text: &str);
        /// A text of 16 bytes that is a constant of the program.
        fn constant(text: &str);
        /// A C string of 15 bytes on the heap.
        fn c_string(text: &CStr);
        /// A text of 16 bytes on the heap, which is recorded.
        fn record(text: &str);
        /// Seven frames below the function that measures.
        fn stack(number: u64);
        /// A probe whose clause records the stack of the process.
        fn ustack(number: u64);
        /// An integer, beside the process and the thread.
        fn identity(number: u64);
        /// A probe whose hits are only counted.
        fn counted(number: u64);
    }
}

/// A row of the table.
pub struct Row {
    /// The name in the table.
    pub name: &'static str,
    /// The clause; empty if the probe is not enabled.
    clause: &'static str,
    fire: fn(&Arguments, u64),
}

/// The arguments of the probes.
pub struct Arguments {
    text: String,
    c_string: std::ffi::CString,
}

/// The rows.
pub const ROWS: [Row; 12] = [
    Row {
        name: "disabled",
        clause: "",
        fire: |_, calls| repeat(calls, |n| sdt_probe!(row::disabled, n)),
    },
    Row {
        name: "@[arg0] = count()",
        clause: "row:::integer { @a[arg0] = count(); }",
        fire: |_, calls| repeat(calls, |_| sdt_probe!(row::integer, black_box(7))),
    },
    Row {
        name: "@[args[0]] = count(), a &str of 16 bytes on the heap",
        clause: "row:::heap { @b[args[0]] = count(); }",
        fire: |of, calls| repeat(calls, |_| sdt_probe!(row::heap, black_box(&*of.text))),
    },
    Row {
        name: "@[args[0]] = count(), a constant &str of 16 bytes",
        clause: "row:::constant { @c[args[0]] = count(); }",
        fire: |_, calls| {
            repeat(calls, |_| sdt_probe!(row::constant, black_box("sixteen bytes ok")))
        },
    },
    Row {
        name: "@[stringof(arg0)] = count(), a &CStr of 15 bytes on the heap",
        clause: "row:::c-string { @d[stringof(arg0)] = count(); }",
        fire: |of, calls| repeat(calls, |_| sdt_probe!(row::c_string, black_box(&*of.c_string))),
    },
    Row {
        name: "trace(args[0]), a &str of 16 bytes on the heap",
        clause: "row:::record { trace(args[0]); }",
        fire: |of, calls| repeat(calls, |_| sdt_probe!(row::record, black_box(&*of.text))),
    },
    Row {
        name: "@[stack(7)] = count()",
        clause: "row:::stack { @e[stack(7)] = count(); }",
        fire: |_, calls| {
            repeat(calls, |n| {
                black_box(deep(6, n, |n| sdt_probe!(row::stack, n)));
            })
        },
    },
    Row {
        name: "@[ustack(7)] = count()",
        clause: "row:::ustack { @f[ustack(7)] = count(); }",
        fire: |_, calls| {
            repeat(calls, |n| {
                black_box(deep(6, n, |n| sdt_probe!(row::ustack, n)));
            })
        },
    },
    Row {
        name: "@[pid, tid] = count()",
        clause: "row:::identity { @g[pid, tid] = count(); }",
        fire: |_, calls| repeat(calls, |_| sdt_probe!(row::identity, black_box(7))),
    },
    Row {
        name: "@ = count()",
        clause: "row:::counted { @h = count(); }",
        fire: |_, calls| repeat(calls, |n| sdt_probe!(row::counted, n)),
    },
    Row {
        name: "@ = count(), pid: the entry of a function",
        clause: "pid$target:a.out:bench_process??rows??entered:entry { @i = count(); }",
        fire: |_, calls| {
            repeat(calls, |n| {
                black_box(entered(n));
            })
        },
    },
    Row {
        name: "@ = count(), pid: the return of a function",
        clause: "pid$target:a.out:bench_process??rows??left:return { @j = count(); }",
        fire: |_, calls| {
            repeat(calls, |n| {
                black_box(left(n));
            })
        },
    },
];

/// Calls a function this often.
#[inline(never)]
fn repeat(calls: u64, call: impl Fn(u64)) {
    for number in 0..calls {
        call(black_box(number));
    }
}

/// A function whose entry is traced.
#[inline(never)]
fn entered(number: u64) -> u64 {
    black_box(number) + 1
}

/// A function whose return is traced.
#[inline(never)]
fn left(number: u64) -> u64 {
    black_box(number) + 2
}

/// Calls a function below this many frames of its own.
#[inline(never)]
fn deep(frames: u32, number: u64, call: fn(u64)) -> u64 {
    if frames == 0 {
        call(number);
        return number;
    }
    // The call is not the last step, so each frame remains.
    black_box(deep(black_box(frames - 1), number, call)) + 1
}

/// This program with all clauses enabled.
pub struct Traced {
    process: Process,
    running: Running,
    sink: Text<Streams>,
    arguments: Arguments,
}

impl Traced {
    /// Lets this process be traced, and traces it. Nothing else runs in the process during a round: its consumer sends requests only
    /// in [`rest`](Self::rest).
    ///
    /// # Errors
    /// The process cannot be traced, or a clause matches no probe.
    pub fn new() -> Result<Self> {
        let process = sdt_process::start().context("starting to be traced")?;
        let own = std::process::id();
        let line = Address::Process(own).open(&Protection::Machine, || {});
        let line = line.context("finding its own socket")?;
        let client = Client::connect(line).context("connecting to itself")?;
        let mut options = TraceOptions::default();
        for (name, value) in [("bufpolicy", "ring"), ("bufsize", "64k"), ("aggsize", "1m")] {
            options.set(name, Some(value)).context("an option of the benchmark")?;
        }
        let mut trace = Trace::new(client, options, own.into());
        trace.set_process(own);
        let text: String = ROWS.iter().map(|row| row.clause).collect();
        let program = trace.compile(Source::line(text.as_bytes())).context("compiling")?;
        let enabled = trace.enable(&program).context("enabling")?;
        let clauses = ROWS.iter().filter(|row| !row.clause.is_empty()).count();
        ensure!(enabled as usize == clauses, "{enabled} probes are enabled, not {clauses}");
        let running = trace.go().context("starting the trace")?;
        let sink = Text::new(Streams::new(tempfile::tempfile()?, "dtrace"));
        let (text, c_string) = ("sixteen bytes ok".to_owned(), c"fifteen bytes !".to_owned());
        Ok(Self { process, running, sink, arguments: Arguments { text, c_string } })
    }

    /// Lets the consumer send its requests.
    ///
    /// # Errors
    /// The connection failed.
    pub fn rest(&mut self) -> Result<()> {
        self.running.work(&mut self.sink).context("reading records")?;
        Ok(())
    }

    /// Measures one round of a row, in nanoseconds a call.
    ///
    /// # Errors
    /// A hit was not recorded, or its clause failed: then ERROR fired.
    pub fn round(&self, row: &Row, calls: u64) -> Result<f64> {
        let before = self.process.counters();
        let start = Instant::now();
        (row.fire)(&self.arguments, calls);
        let time = start.elapsed().as_nanos() as f64 / calls as f64;
        let after = self.process.counters();
        let expected = if row.clause.is_empty() { 0 } else { calls };
        // A clause that fails makes ERROR fire, which is a hit, too.
        let found = (after.hits - before.hits, after.records - before.records);
        ensure!(found == (expected, expected), "{}: {found:?}, not {expected} hits", row.name);
        Ok(time)
    }
}
