//! Starting a subject, and tracing it.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use dtrace_consumer::compiler::options::Options;
use dtrace_consumer::compiler::surroundings::EveryProbe;
use dtrace_consumer::compiler::{Compiler, Source, dof};
use dtrace_consumer::transport::AddressError;
use dtrace_consumer::{Address, Client, Protection, Transport, TransportError};
use dtrace_protocol::SnapshotOf;
use tempfile::TempDir;

use crate::subject::ROLE;

/// A running subject.
#[derive(Debug)]
pub struct Subject {
    child: Child,
    /// The number of its process, which is a child of `child` if it is in a pid namespace.
    id: u32,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// Its `XDG_RUNTIME_DIR`.
    pub folder: TempDir,
}

impl Subject {
    /// Starts a subject.
    pub fn new(role: &str) -> Self {
        Self::start(&mut Command::new(std::env::current_exe().unwrap()), role, None).unwrap()
    }

    /// Starts a copy of this program, at this path. If there is a `linker`, the copy is its argument.
    pub fn copied(role: &str, to: &Path, linker: Option<&str>) -> Self {
        std::fs::copy(std::env::current_exe().unwrap(), to).unwrap();
        let mut command = Command::new(linker.map_or(to, Path::new));
        if linker.is_some() {
            command.arg(to);
        }
        Self::start(&mut command, role, None).unwrap()
    }

    /// Starts a subject as the first process of a pid namespace, as in a container.
    pub fn in_pid_namespace(role: &str) -> Option<Self> {
        let mut unshare = Command::new("unshare");
        unshare.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
        if !unshare.arg("--").arg("true").status().is_ok_and(|status| status.success()) {
            return None;
        }
        let mut unshare = Command::new("unshare");
        unshare.args(["--pid", "--fork", "--kill-child", "--mount-proc", "--"]);
        Self::start(unshare.arg(std::env::current_exe().unwrap()), role, Some(1))
    }

    /// Starts a subject in its own user namespace, in which this user is root.
    pub fn in_user_namespace(role: &str) -> Option<Self> {
        // SAFETY: returns a number and changes nothing.
        let map = format!("0 {} 1", unsafe { libc::geteuid() });
        let mut command = Command::new(std::env::current_exe().unwrap());
        let enter = move || {
            // SAFETY: the child of a fork has one thread, as `unshare` requires.
            match unsafe { libc::unshare(libc::CLONE_NEWUSER) } {
                0 => std::fs::write("/proc/self/uid_map", &map),
                _ => Err(std::io::Error::last_os_error()),
            }
        };
        // SAFETY: the closure makes system calls only, and allocates nothing.
        unsafe { command.pre_exec(enter) };
        Self::start(&mut command, role, None)
    }

    /// Starts a subject if the system allows the command. `inside` is its number in its own pid namespace.
    fn start(command: &mut Command, role: &str, inside: Option<u32>) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mut child = command
            .args(["subject::main", "--exact", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env("XDG_RUNTIME_DIR", folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        let id = child.id();
        let mut subject = Self { child, id, input, output, folder };
        let first = subject.answer();
        let own = inside.unwrap_or(id);
        let socket = subject.folder.path().join(format!("sdt/{own}")).display().to_string();
        assert_eq!(first, format!("{own} Ok({socket:?})"));
        if inside.is_some() {
            let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
            subject.id = children.unwrap().trim().parse().unwrap();
        }
        Some(subject)
    }

    /// Returns the number of the process.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Sends a command.
    pub fn say(&mut self, command: &str) {
        writeln!(self.input.as_mut().unwrap(), "{command}").unwrap();
    }

    /// Returns the next answer.
    pub fn answer(&mut self) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            let read = self.output.read_line(&mut line).unwrap();
            assert_ne!(read, 0, "the subject has ended: {:?}", self.child.wait());
            // libtest prints a line before the first answer.
            if let Some((_, answer)) = line.split_once("> ") {
                return answer.trim_end().to_owned();
            }
        }
    }

    /// Sends a command, and returns the answer.
    pub fn ask(&mut self, command: &str) -> String {
        self.say(command);
        self.answer()
    }

    /// Sends a command, and returns the number that it is answered with.
    pub fn count(&mut self, command: &str) -> u64 {
        self.ask(command).parse().unwrap()
    }

    /// Waits until the subject has ended by itself.
    pub fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// Ends the subject.
    pub fn end(mut self) {
        drop(self.input.take());
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut self.output, &mut rest).unwrap();
        assert!(self.child.wait().unwrap().success(), "{rest}");
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        // The subject has ended already, or a test has failed.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A consumer that traces a process.
#[derive(Debug)]
pub struct Consumer(pub Client);

/// The records that a consumer has read.
#[derive(Clone, Debug, Default)]
pub struct Read {
    /// The id of the probe, and its arguments.
    pub records: Vec<(u32, [u64; 2])>,
    /// The number of dropped records.
    pub drops: u64,
}

impl Read {
    pub fn len(&self) -> u64 {
        self.records.len() as u64 + self.drops
    }
}

/// Opens the line to a process.
pub fn line(process: u32) -> Result<Box<dyn Transport>, AddressError> {
    Address::Process(process).open(&Protection::Machine, || {})
}

/// A line that discards all writes while `is_lost` is set.
pub struct Losing {
    pub line: Box<dyn Transport>,
    pub is_lost: Arc<AtomicBool>,
}

impl Transport for Losing {
    fn read(&mut self, buffer: &mut [u8], wait: Duration) -> Result<usize, TransportError> {
        self.line.read(buffer, wait)
    }

    fn write(&mut self, bytes: &[u8], limit: Duration) -> Result<(), TransportError> {
        if self.is_lost.load(Ordering::Relaxed) { Ok(()) } else { self.line.write(bytes, limit) }
    }
}

/// Compiles a clause that records the arguments of the probes that a description matches, to DOF.
pub fn program(spec: &str) -> Vec<u8> {
    let traced: String = (0..10).map(|n| format!("trace(arg{n}); ")).collect();
    let mut compiler = Compiler::new(dtrace_abi::Platform::Freebsd, Options::default());
    let text = format!("{spec} {{ {traced} }}");
    let program = compiler.compile(Source::file(text.as_bytes()), &EveryProbe).unwrap();
    dof::program(&program, compiler.options()).unwrap()
}

impl Consumer {
    /// Connects as `dtrace -p` does.
    pub fn of(process: u32) -> Self {
        Self(Client::connect(line(process).unwrap()).unwrap())
    }

    /// Connects, and enables the probes that a description matches.
    pub fn enabling(process: u32, spec: &str) -> Self {
        let mut consumer = Self::of(process);
        consumer.0.open().unwrap();
        assert_ne!(consumer.0.program(&program(spec)).unwrap(), 0);
        consumer.0.go().unwrap();
        consumer
    }

    /// Returns the names of the program's probes.
    pub fn list(&mut self) -> Vec<String> {
        let probes = self.0.list("subject:::").unwrap();
        let name = |of: &dtrace_consumer::client::Probe| {
            format!("{}:{}:{}:{}", of.provider, of.module, of.function, of.name)
        };
        probes.iter().map(name).collect()
    }

    /// Returns the id of a probe.
    pub fn probe(&mut self, name: &str) -> u32 {
        let probes = self.0.list(&format!("subject:::{name}")).unwrap();
        let [probe] = &probes[..] else { panic!("{probes:?}") };
        probe.id
    }

    /// Reads until there are this many records and drops.
    pub fn until(&mut self, count: u64) -> Read {
        let mut read = Read::default();
        while read.len() < count {
            assert!(self.take(&mut read, Duration::from_secs(60)), "{} of {count}", read.len());
        }
        read
    }

    /// Reads everything that is left.
    pub fn rest(&mut self) -> Read {
        let mut read = Read::default();
        while self.take(&mut read, Duration::ZERO) {}
        read
    }

    /// Reads the buffers of all CPUs until there is a record or a drop, or the time is over. Returns whether there was any.
    pub fn take(&mut self, read: &mut Read, wait: Duration) -> bool {
        let end = Instant::now() + wait;
        let cpus = self.0.status().unwrap().cpus;
        let before = read.len();
        let mut probes = BTreeMap::new();
        loop {
            for cpu in 0..cpus {
                let snapshot = self.0.snapshot(cpu, SnapshotOf::Records).unwrap();
                read.drops += snapshot.drops;
                for record in sdt_framework::records(&snapshot.data) {
                    let epid = record.epid;
                    let probe = *probes
                        .entry(epid)
                        .or_insert_with(|| self.0.eprobe(epid).unwrap().unwrap().probe);
                    read.records.push((probe, [record.args[0], record.args[1]]));
                }
            }
            if read.len() != before || Instant::now() >= end {
                return read.len() != before;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
