//! Records on their way from a process to a file: the highest rate without a drop, the bytes on the socket, and the CPU time of both
//! sides.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use dtrace_consumer::compiler::Source;
use dtrace_consumer::compiler::options::Options;
use dtrace_consumer::render::{Markup, Sink, Streams, Structured, Text};
use dtrace_consumer::transport::{Transport, TransportError};
use dtrace_consumer::{Address, Client, Protection, Trace};
use sdt_core::{sdt_enabled, sdt_probe, sdt_provider};

sdt_provider! {
    /// The records of the benchmark.
    pub records {
        /// Two numbers.
        fn two(first: u64, second: u64);
        /// A number and a text of 16 bytes, a constant of the program.
        fn text(number: u64, text: &str);
    }
}

/// The tested rates in records a second, in ascending order.
pub const RATES: [u64; 10] = [
    50_000, 100_000, 200_000, 500_000, 1_000_000, 1_500_000, 2_000_000, 2_500_000, 3_000_000,
    4_000_000,
];
/// The rate at which the CPU time is measured.
pub const MEASURED: u64 = 200_000;
/// The time for which records are made.
pub const LENGTH: Duration = Duration::from_secs(2);
/// The time between two bursts of records.
const BURST: Duration = Duration::from_micros(100);

/// A row of the table.
struct Row {
    name: &'static str,
    program: &'static str,
    options: &'static [(&'static str, &'static str)],
    is_json: bool,
}

/// Strings that take little of a buffer.
const SHORT: &[(&str, &str)] = &[("strsize", "32")];

const ROWS: [Row; 4] = [
    Row {
        name: "printf of two u64",
        program: "records:::two { printf(\"%d %d\\n\", arg0, arg1); }",
        options: &[],
        is_json: false,
    },
    Row {
        name: "JSON of two u64",
        program: "records:::two { trace(arg0); trace(arg1); }",
        options: &[],
        is_json: true,
    },
    Row {
        name: "printf of a 16-byte string and a u64",
        program: "records:::text { printf(\"%s %d\\n\", args.text, arg0); }",
        options: &[],
        is_json: false,
    },
    Row {
        name: "the same, -x strsize=32",
        program: "records:::text { printf(\"%s %d\\n\", args.text, arg0); }",
        options: SHORT,
        is_json: false,
    },
];

/// The costs of a run.
#[derive(Clone, Copy)]
struct Costs {
    records: u64,
    drops: u64,
    /// Bytes that this process received.
    bytes: u64,
    /// CPU time in nanoseconds of the thread that makes records, of the server's thread, and of this thread.
    program: u64,
    server: u64,
    consumer: u64,
}

/// The process that makes records. It ends when this is dropped, also after an error before it was enabled.
struct Producer(Child);

impl Drop for Producer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Prints the table.
///
/// # Errors
/// A process could not be traced.
pub fn run() -> Result<()> {
    let width = ROWS.iter().map(|row| row.name.len()).max().unwrap_or(0);
    println!(
        "{:width$}  {:>12}  {:>5}  {:>7}  {:>10}  {:>10}",
        "RECORDS", "without drop", "CPUs", "bytes", "server, ns", "dtrace, ns"
    );
    for row in &ROWS {
        let (mut most, mut used) = (0, 0.0);
        for rate in RATES {
            let Costs { drops, program, server, consumer, .. } = trace(row, rate)?;
            if drops != 0 {
                break;
            }
            (most, used) = (rate, (program + server + consumer) as f64 / LENGTH.as_nanos() as f64);
        }
        let costs = trace(row, MEASURED)?;
        let each = |sum: u64| sum as f64 / costs.records.max(1) as f64;
        println!(
            "{:width$}  {:>10}/s  {:>5.2}  {:>7.1}  {:>10.0}  {:>10.0}",
            row.name,
            most,
            used,
            each(costs.bytes),
            each(costs.server),
            each(costs.consumer),
        );
    }
    Ok(())
}

/// Traces a process that makes records at a rate.
fn trace(row: &Row, rate: u64) -> Result<Costs> {
    let program = std::env::current_exe().context("finding this program")?;
    let child = Command::new(program)
        .args(["--produce", &rate.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut child = Producer(child.context("starting the process")?);
    let mut output = BufReader::new(child.0.stdout.take().context("a child without output")?);
    let mut line = String::new();
    output.read_line(&mut line)?;
    ensure!(line == "ready\n", "the process has ended");
    let pid = child.0.id();
    let transport = Address::Process(pid).open(&Protection::Machine, || {})?;
    let received = Arc::new(AtomicU64::new(0));
    let client = Client::connect(Counting { transport, received: received.clone() })?;
    let mut options = Options::default();
    options.set("quiet", None)?;
    options.set("bufsize", Some("4m"))?;
    for (name, value) in row.options {
        options.set(name, Some(value))?;
    }
    let mut trace = Trace::new(client, options, i64::from(pid));
    let program = trace.compile(Source::line(row.program.as_bytes()))?;
    trace.enable(&program)?;
    let mut running = trace.go()?;
    let file = Streams::new(tempfile()?, "dtrace");
    let mut sink: Box<dyn Sink> = match row.is_json {
        true => Box::new(Structured::new(file, Markup::Json)),
        false => Box::new(Text::new(file)),
    };
    let (bytes, consumer) = (received.load(Ordering::Relaxed), cpu_time("thread-self")?);
    // A thread waits for the end of the records.
    let ended = std::thread::spawn(move || {
        let mut line = String::new();
        output.read_line(&mut line).map(|_| line)
    });
    while !ended.is_finished() {
        running.work(&mut *sink)?;
        std::thread::sleep(running.pause());
    }
    running.stop()?;
    while !running.work(&mut *sink)? {}
    let consumer = cpu_time("thread-self")? - consumer;
    let bytes = received.load(Ordering::Relaxed) - bytes;
    let report = ended.join().ok().context("the thread has panicked")??;
    let numbers = report.split_whitespace().map(str::parse).collect::<Result<Vec<u64>, _>>()?;
    let [records, drops, program, server] = numbers[..] else {
        anyhow::bail!("the process: {report}")
    };
    running.finish(&mut *sink)?;
    Ok(Costs { records, drops, bytes, program, server, consumer })
}

/// Makes records at a rate once they are enabled, and reports records, drops, and the CPU time of this thread and of the server's
/// thread.
///
/// # Errors
/// This process cannot be traced.
pub fn produce(rate: u64) -> Result<()> {
    let process = sdt_process::start().context("starting to be traced")?;
    println!("ready");
    while !sdt_enabled!(records::two) && !sdt_enabled!(records::text) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let before = [cpu_time("thread-self")?, server_time()?];
    let (start, mut made) = (Instant::now(), 0);
    while start.elapsed() < LENGTH {
        let due = (start.elapsed().as_secs_f64() * rate as f64) as u64;
        for number in made..due {
            sdt_probe!(records::two, number, number * 3);
            sdt_probe!(records::text, number, "sixteen bytes ok");
        }
        made = due.max(made);
        std::thread::sleep(BURST);
    }
    let program = cpu_time("thread-self")? - before[0];
    // The records of the last moment are on their way.
    std::thread::sleep(Duration::from_millis(50));
    let counters = process.counters();
    let server = server_time()? - before[1];
    println!("{} {} {program} {server}", counters.records, counters.drops);
    std::io::stdout().flush()?;
    // Until the parent has read the rest.
    std::io::stdin().lines().for_each(drop);
    Ok(())
}

/// Returns the CPU time of the thread that serves consumers, in nanoseconds.
fn server_time() -> Result<u64> {
    for task in std::fs::read_dir("/proc/self/task")? {
        let task = task?.path();
        if std::fs::read_to_string(task.join("comm"))?.trim() == "sdt-process" {
            let name = task.file_name().context("a task without a number")?;
            return cpu_time(&format!("self/task/{}", name.to_string_lossy()));
        }
    }
    anyhow::bail!("no thread serves consumers")
}

/// Returns the CPU time of a thread, or of a process with one thread, in nanoseconds (`/proc/PID/schedstat`).
pub fn cpu_time(thread: &str) -> Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{thread}/schedstat"))?;
    text.split(' ').next().unwrap_or_default().parse().context("schedstat")
}

/// Returns a file without a name.
pub fn tempfile() -> Result<File> {
    let path = std::env::temp_dir().join(format!("bench-process.{}", std::process::id()));
    let file = File::create(&path).with_context(|| format!("creating {}", path.display()))?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

/// A transport that counts the received bytes.
struct Counting {
    transport: Box<dyn Transport>,
    received: Arc<AtomicU64>,
}

impl Transport for Counting {
    fn read(&mut self, buffer: &mut [u8], wait: Duration) -> Result<usize, TransportError> {
        let length = self.transport.read(buffer, wait)?;
        self.received.fetch_add(length as u64, Ordering::Relaxed);
        Ok(length)
    }

    fn write(&mut self, bytes: &[u8], limit: Duration) -> Result<(), TransportError> {
        self.transport.write(bytes, limit)
    }
}
