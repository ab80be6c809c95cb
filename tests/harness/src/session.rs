//! A running stand-in kernel, and the requests to it.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, UNIX_EPOCH};

use dtrace_compiler::options::Options as ProgramOptions;
use dtrace_compiler::surroundings::Description;
use dtrace_consumer::TransportError;
use dtrace_consumer::client::{Client, ClientError, Detail, Probe, Site};
use dtrace_consumer::functions::Functions;
use dtrace_consumer::trace::Trace;
use sdt_protocol::{
    Called, Counters, Event, Exec, MAILBOX_ROOM, Message, Module, Reentered, Refusal, Reply,
    Request, Sites, Tortured, TorturedFunctions, VERSION, frame,
};

use crate::kernel;
use crate::machine::{Ended, Machine, MachineError, Options};
use crate::qemu;
use crate::records::{self, Records};
use crate::wire::{Wire, WireError, name};
use cargo_sdt::internal::arch::Arch;
use cargo_sdt::internal::module::BuildError;
use cargo_sdt::internal::progress::step;
use cargo_sdt::internal::setup::SetupError;

/// The kernel boots in about a second; a machine under load takes longer.
const BOOT: Duration = Duration::from_secs(60);
/// Time limit for an answer. The kernel answers all requests at once, except executions, of which there are many.
const ANSWER: Duration = Duration::from_secs(60);
/// Time limit for a machine to power off, which takes long only under load.
const POWER_OFF: Duration = Duration::from_secs(60);
/// The number of images that one request executes before the session reads the records: few enough that no buffer of the
/// kernel fills, with all images on one CPU and a dozen records for each.
const BATCH: usize = 64;

/// Why a session failed.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// A program that it needs is missing.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The kernel could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The machine could not be started.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// No shared machine listens at the socket.
    #[error("no machine is running at {}: {source}; start one with cargo xtask machine", .socket.display())]
    NoMachine {
        /// The path of the socket.
        socket: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The kernel refused a request, and continues.
    #[error("{}", .0.message)]
    Refused(Refusal),
    /// The kernel failed.
    #[error("{0}")]
    Failed(Box<Failure>),
    /// The kernel does not belong to this consumer.
    #[error("{what} of the kernel is {found}, not {expected}; build the kernel again")]
    Foreign {
        /// The property that differs.
        what: &'static str,
        /// The kernel's value.
        found: String,
        /// The value of this consumer.
        expected: String,
    },
}

/// The failure of a kernel.
#[derive(Debug)]
pub struct Failure {
    /// The error on the line.
    pub error: WireError,
    /// The reason for the machine's end, if it has ended.
    pub ended: Option<Ended>,
    /// The last lines of the kernel's console.
    pub console: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.error)?;
        if let Some(ended) = &self.ended {
            write!(f, "; {ended}")?;
        }
        for line in &self.console {
            write!(f, "\n  kernel: {line}")?;
        }
        Ok(())
    }
}

/// A running kernel. Dropping it ends the machine.
#[derive(Debug)]
pub struct Session {
    /// `None` if another process owns the machine.
    machine: Option<Machine>,
    /// The line to it.
    pub wire: Wire,
    cpus: u32,
    /// A client that lists probes, and does not open the framework.
    lister: Option<Client>,
    /// The consumers that have opened the framework, by number.
    consumers: BTreeMap<u32, Consumer>,
    /// The records read so far, each with its consumer's number, in order of arrival.
    pub records: Vec<(u32, Records)>,
}

#[derive(Debug)]
struct Consumer {
    client: Client,
    going: bool,
}

fn same(what: &'static str, found: String, expected: String) -> Result<(), SessionError> {
    if found == expected { Ok(()) } else { Err(SessionError::Foreign { what, found, expected }) }
}

/// Sends a request, and takes the value out of the reply of the given pattern.
macro_rules! ask {
    ($session:expr, $request:expr, $pattern:pat => $value:expr) => {{
        let request = $request;
        let asked = name(&request);
        match $session.request(request)? {
            $pattern => Ok($value),
            reply => {
                let error = WireError::Strange { request: asked, reply: Box::new(reply) };
                Err($session.failed(error))
            }
        }
    }};
}

impl Session {
    /// Builds the kernel if necessary, and boots it.
    ///
    /// # Errors
    /// Any step failed.
    pub fn boot(arch: Arch, cpus: u32, echo: bool) -> Result<Self, SessionError> {
        let qemu = qemu::find(arch)?;
        let kernel = kernel::build(arch)?;
        Self::start(&Options { arch, qemu, kernel, cpus }, echo)
    }

    /// Boots a kernel, and checks that it belongs to this consumer.
    ///
    /// # Errors
    /// It does not boot, or is another kernel.
    pub fn start(options: &Options, echo: bool) -> Result<Self, SessionError> {
        let (machine, line) = Machine::start(options)?;
        let mut session = Self::over(Wire::new(line, echo), Some(machine));
        let up = step("booting the stand-in kernel", || session.wire.wait_until_up(BOOT));
        up.map_err(|error| session.failed(error))?;
        let arch = session.hello()?;
        same("architecture", arch, options.arch.name().into())?;
        same("number of CPUs", session.cpus.to_string(), options.cpus.to_string())?;
        Ok(session)
    }

    /// Connects to a machine that another process shares.
    ///
    /// # Errors
    /// No machine listens at the socket, or it runs another kernel.
    pub fn attach(socket: &Path) -> Result<Self, SessionError> {
        let line = UnixStream::connect(socket)
            .map_err(|source| SessionError::NoMachine { socket: socket.into(), source })?;
        let mut session = Self::over(Wire::new(line, false), None);
        session.hello()?;
        Ok(session)
    }

    fn over(wire: Wire, machine: Option<Machine>) -> Self {
        let (consumers, records) = (BTreeMap::new(), Vec::new());
        Self { machine, wire, cpus: 0, lister: None, consumers, records }
    }

    /// Checks that the kernel speaks this protocol, and sets its clock. Returns its architecture.
    fn hello(&mut self) -> Result<String, SessionError> {
        let time = UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos() as u64);
        let (version, cpus, arch) = ask!(
            self,
            Request::Hello { time },
            Reply::Hello { version, cpus, arch } => (version, cpus, arch)
        )?;
        same("protocol version", version.to_string(), VERSION.to_string())?;
        self.cpus = cpus;
        Ok(arch)
    }

    /// Returns the machine and its line, to be shared. The caller closes the consumers that are open.
    pub(crate) fn into_parts(self) -> Option<(Machine, UnixStream, VecDeque<String>)> {
        let Self { machine, wire, lister, consumers, .. } = self;
        drop((lister, consumers));
        let (line, console) = wire.into_line()?;
        Some((machine?, line, console))
    }

    /// Number of CPUs.
    pub fn cpus(&self) -> u32 {
        self.cpus
    }

    /// Process id of the machine; 0 if another process owns it.
    pub fn pid(&self) -> u32 {
        self.machine.as_ref().map_or(0, Machine::pid)
    }

    /// Returns the error for a failure on the line, with the machine's end and its last console lines.
    pub fn failed(&mut self, error: WireError) -> SessionError {
        let error = match error {
            WireError::Refused(refusal) => return SessionError::Refused(refusal),
            error => error,
        };
        // If the line is closed, the machine is about to end; wait for its status.
        let closed = match &error {
            WireError::Closed => true,
            WireError::Consumer(ClientError::Transport(error)) => {
                matches!(error, TransportError::Closed(_))
            }
            _ => false,
        };
        let wait = if closed { POWER_OFF } else { Duration::ZERO };
        let ended = self.machine.as_mut().and_then(|machine| machine.ended(wait));
        let console = self.wire.console().collect();
        SessionError::Failed(Box::new(Failure { error, ended, console }))
    }

    fn request(&mut self, request: Request) -> Result<Reply, SessionError> {
        let request = self.mailed(request)?;
        self.wire.request(request, ANSWER).map_err(|error| self.failed(error))
    }

    /// Puts a long request into the mailbox, if this process owns the machine. Returns the request to send instead.
    fn mailed(&self, request: Request) -> Result<Request, SessionError> {
        let is_long = matches!(request, Request::KldLoad { .. } | Request::Exec { .. });
        let Some(machine) = self.machine.as_ref().filter(|_| is_long) else { return Ok(request) };
        let message = Message { seq: 0, request };
        let frame = frame::encode(&message);
        if frame.len() > MAILBOX_ROOM {
            return Ok(message.request);
        }
        machine.mail(&frame)?;
        Ok(Request::Mailed { length: frame.len() as u32 })
    }

    /// Makes the kernel behave like the FreeBSD kernel with this `__FreeBSD_version`. It starts as that of 15.0-RELEASE.
    ///
    /// # Errors
    /// The kernel does not know it, has modules loaded, or failed.
    pub fn freebsd(&mut self, version: i32) -> Result<(), SessionError> {
        ask!(self, Request::FreeBsd { version }, Reply::Done => ())
    }

    /// Makes the kernel behave like illumos's kernel, before any module is loaded.
    ///
    /// # Errors
    /// The kernel refuses, or failed.
    pub fn illumos(&mut self) -> Result<(), SessionError> {
        self.illumos_with(Sites::default())
    }

    /// Makes the kernel behave like illumos's kernel, and selects the way in which it marks the calls of probes.
    ///
    /// # Errors
    /// As [`illumos`](Self::illumos).
    pub fn illumos_with(&mut self, sites: Sites) -> Result<(), SessionError> {
        ask!(self, Request::Illumos { sites }, Reply::Done => ())
    }

    /// Loads a module.
    ///
    /// # Errors
    /// The kernel refuses it, or failed.
    pub fn kldload(&mut self, file: &str, image: Vec<u8>) -> Result<(), SessionError> {
        ask!(self, Request::KldLoad { file: file.into(), image }, Reply::Done => ())
    }

    /// Loads a module from a file, under the file's name, which is returned.
    ///
    /// # Errors
    /// The file cannot be read, the kernel refuses it, or failed.
    pub fn kldload_file(&mut self, file: &Path) -> Result<String, SessionError> {
        let image =
            std::fs::read(file).map_err(|source| BuildError::File { file: file.into(), source })?;
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.kldload(&name, image)?;
        Ok(name)
    }

    /// Unloads a module.
    ///
    /// # Errors
    /// The kernel refuses, or failed.
    pub fn kldunload(&mut self, file: &str) -> Result<(), SessionError> {
        ask!(self, Request::KldUnload { file: file.into() }, Reply::Done => ())
    }

    /// Lists the loaded files.
    ///
    /// # Errors
    /// The kernel failed.
    pub fn kldstat(&mut self) -> Result<Vec<Module>, SessionError> {
        ask!(self, Request::KldStat, Reply::Modules(modules) => modules)
    }

    /// Connects another client.
    ///
    /// # Errors
    /// The kernel refuses, or failed.
    pub fn connect(&mut self) -> Result<Client, SessionError> {
        let port = self.wire.port().map_err(|error| self.failed(error))?;
        let channel = port.channel();
        Client::greet(port, channel, ANSWER).map_err(|error| self.client_failed(error))
    }

    /// Returns the error for a failure of a client.
    pub fn client_failed(&mut self, error: ClientError) -> SessionError {
        if let ClientError::Refused { message, .. } = error {
            return SessionError::Refused(Refusal { errno: 0, message });
        }
        let panicked = self.wire.panicked().map(WireError::Panicked);
        self.failed(panicked.unwrap_or(WireError::Consumer(error)))
    }

    /// Opens the framework as one more consumer.
    ///
    /// # Errors
    /// The kernel refuses, or failed.
    pub fn open(&mut self) -> Result<u32, SessionError> {
        let mut client = self.connect()?;
        client.open().map_err(|error| self.client_failed(error))?;
        let number = self.consumers.last_key_value().map_or(1, |(last, _)| last + 1);
        self.consumers.insert(number, Consumer { client, going: false });
        Ok(number)
    }

    /// Closes a consumer.
    ///
    /// # Errors
    /// The kernel refuses, or failed.
    pub fn close(&mut self, consumer: u32) -> Result<(), SessionError> {
        self.with(consumer, |consumer| consumer.client.close())?;
        self.consumers.remove(&consumer);
        Ok(())
    }

    /// Sends a request of a consumer.
    fn with<R>(
        &mut self,
        consumer: u32,
        ask: impl FnOnce(&mut Consumer) -> Result<R, ClientError>,
    ) -> Result<R, SessionError> {
        let Some(consumer) = self.consumers.get_mut(&consumer) else {
            let message = format!("consumer {consumer} is not open");
            return Err(SessionError::Refused(Refusal { errno: 0, message }));
        };
        ask(consumer).map_err(|error| self.client_failed(error))
    }

    /// Sends a request of the client that opens nothing.
    fn look<R>(
        &mut self,
        ask: impl FnOnce(&mut Client) -> Result<R, ClientError>,
    ) -> Result<R, SessionError> {
        let mut lister = match self.lister.take() {
            Some(lister) => lister,
            None => self.connect()?,
        };
        let answer = ask(&mut lister);
        self.lister = Some(lister);
        answer.map_err(|error| self.client_failed(error))
    }

    /// Returns the probes that a description matches: `provider:module:function:name`, or its last parts.
    ///
    /// # Errors
    /// The kernel refuses the description, or failed.
    pub fn list(&mut self, spec: impl AsRef<str>) -> Result<Vec<Probe>, SessionError> {
        self.look(|client| client.list(spec.as_ref()))
    }

    /// Returns the stability and the argument types of a probe.
    ///
    /// # Errors
    /// There is no such probe, or the kernel failed.
    pub fn describe(&mut self, probe: u32) -> Result<Detail, SessionError> {
        let found = self.look(|client| {
            let listed = client.probe(probe)?;
            listed.map_or(Ok(None), |listed| client.describe(&listed))
        })?;
        let message = || format!("there is no probe {probe}");
        found.ok_or_else(|| SessionError::Refused(Refusal { errno: 0, message: message() }))
    }

    /// Returns the sites of a probe, with the bytes at each.
    ///
    /// # Errors
    /// The kernel failed.
    pub fn sites(&mut self, probe: u32) -> Result<Vec<Site>, SessionError> {
        self.look(|client| client.sites(probe))
    }

    /// Enables a clause that records the arguments of the probes that a description matches. Returns their number.
    /// [`close`](Self::close) disables them.
    ///
    /// # Errors
    /// The kernel refuses, or failed.
    pub fn enable(&mut self, consumer: u32, spec: impl AsRef<str>) -> Result<u32, SessionError> {
        let program = records::program(spec.as_ref());
        self.with(consumer, |consumer| consumer.client.program(&program))
    }

    /// Starts recording.
    ///
    /// # Errors
    /// The kernel refuses, or failed.
    pub fn go(&mut self, consumer: u32) -> Result<(), SessionError> {
        self.with(consumer, |consumer| {
            consumer.going = true;
            consumer.client.go().map(drop)
        })
    }

    /// Stops recording, and adds the remaining records to [`records`](Self::records).
    ///
    /// # Errors
    /// The kernel refuses, or failed.
    pub fn stop(&mut self, consumer: u32) -> Result<(), SessionError> {
        self.with(consumer, |consumer| {
            consumer.going = false;
            consumer.client.stop().map(drop)
        })?;
        self.take_records(consumer)
    }

    /// Reads the records of a consumer.
    fn take_records(&mut self, number: u32) -> Result<(), SessionError> {
        let cpus = self.cpus;
        let read = self.with(number, |consumer| records::read(&mut consumer.client, cpus))?;
        self.records.extend(read.into_iter().map(|records| (number, records)));
        Ok(())
    }

    /// Executes images, and returns the number on each CPU. Adds the records of consumers that have started to
    /// [`records`](Self::records).
    ///
    /// # Errors
    /// The kernel refuses, or failed.
    pub fn exec(&mut self, execs: &[Exec]) -> Result<Vec<u64>, SessionError> {
        let mut all = vec![0; self.cpus as usize];
        for batch in execs.chunks(BATCH) {
            let per_cpu = self.exec_at_once(batch)?;
            all.iter_mut().zip(per_cpu).for_each(|(all, count)| *all += count);
            let going = self.consumers.iter().filter(|(_, consumer)| consumer.going);
            for number in going.map(|(&number, _)| number).collect::<Vec<_>>() {
                self.take_records(number)?;
            }
        }
        Ok(all)
    }

    /// Executes images without reading records, and returns the number on each CPU.
    ///
    /// # Errors
    /// The kernel refuses, or failed.
    pub fn exec_at_once(&mut self, execs: &[Exec]) -> Result<Vec<u64>, SessionError> {
        let request = Request::Exec { execs: execs.to_vec() };
        ask!(self, request, Reply::Executed { per_cpu } => per_cpu)
    }

    /// Sends a request. Until the reply, passes all other events to `handle`, which returns the new deadline.
    fn wait_for(
        &mut self,
        request: Request,
        mut handle: impl FnMut(Event) -> Instant,
    ) -> Result<Reply, SessionError> {
        let name = name(&request);
        let mut deadline = Instant::now() + ANSWER;
        let asked = self.wire.send(request, ANSWER).map_err(|error| self.failed(error))?;
        loop {
            match self.wire.next(deadline).map_err(|error| self.failed(error))? {
                None => {
                    return Err(self.failed(WireError::NoAnswer { request: name, limit: ANSWER }));
                }
                Some(Event::Reply { seq, result }) if seq == asked => {
                    return result.map_err(SessionError::Refused);
                }
                Some(event) => deadline = handle(event),
            }
        }
    }

    fn strange(&mut self, request: &'static str, reply: Reply) -> SessionError {
        self.failed(WireError::Strange { request, reply: Box::new(reply) })
    }

    /// Tortures the kernel's own probes. `program` is a D program for some of them ([`torture`](crate::torture)), or empty. Calls
    /// `progress` with the number of transitions so far. Only the time between two reports of progress is limited.
    ///
    /// # Errors
    /// The kernel refuses, or failed, as it does after an unexpected trap.
    pub fn torture(
        &mut self,
        seed: u64,
        transitions: u64,
        program: Vec<u8>,
        mut progress: impl FnMut(u64),
    ) -> Result<Tortured, SessionError> {
        let result = self.wait_for(Request::Torture { seed, transitions, program }, |event| {
            if let Event::Progress { done, .. } = event {
                progress(done);
            }
            Instant::now() + ANSWER
        });
        match result? {
            Reply::Tortured(result) => Ok(result),
            reply => Err(self.strange("torture", reply)),
        }
    }

    /// Enables and disables all functions of the kernel. `file` is the kernel's; its functions are sent before. Calls `progress` with
    /// the number of transitions so far. Only the time between two reports of progress is limited.
    ///
    /// # Errors
    /// The file is not the kernel's, or the kernel refuses, or failed, as it does after an unexpected trap.
    pub fn torture_functions(
        &mut self,
        file: &Path,
        seed: u64,
        transitions: u64,
        mut progress: impl FnMut(u64),
    ) -> Result<TorturedFunctions, SessionError> {
        let refused = |message| SessionError::Refused(Refusal { errno: 0, message });
        let functions = Functions::read(file).map_err(|error| refused(error.to_string()))?;
        let mut trace = Trace::new(self.connect()?, ProgramOptions::default(), 0);
        trace.trace_functions(functions).map_err(|error| refused(error.to_string()))?;
        let all = Description { provider: "fbt".into(), ..Description::default() };
        trace.kernel().list(&all).map_err(|error| self.client_failed(error))?;
        let result = self.wait_for(Request::TortureFunctions { seed, transitions }, |event| {
            if let Event::Progress { done, .. } = event {
                progress(done);
            }
            Instant::now() + ANSWER
        });
        match result? {
            Reply::TorturedFunctions(result) => Ok(result),
            reply => Err(self.strange("torture functions", reply)),
        }
    }

    /// Makes every CPU call functions that count their calls, `rounds` times.
    ///
    /// # Errors
    /// The kernel failed.
    pub fn call(&mut self, rounds: u32) -> Result<Called, SessionError> {
        ask!(self, Request::Call { rounds }, Reply::Called(called) => called)
    }

    /// Returns a hash of the kernel's text.
    ///
    /// # Errors
    /// The kernel failed.
    pub fn hash_text(&mut self) -> Result<u64, SessionError> {
        ask!(self, Request::HashText, Reply::Hash(hash) => hash)
    }

    /// Hits the kernel's own probes while others fire, `rounds` times on each CPU, with sites in jump mode or in trap mode.
    ///
    /// # Errors
    /// The kernel refuses, or failed.
    pub fn reenter(&mut self, rounds: u32, jump: bool) -> Result<Reentered, SessionError> {
        ask!(self, Request::Reenter { rounds, jump }, Reply::Reentered(result) => result)
    }

    /// Writes to a sysctl, as `sysctl NAME=VALUE` does.
    ///
    /// # Errors
    /// There is no such sysctl, it does not take the value, or the kernel failed.
    pub fn sysctl(&mut self, name: &str, value: &str) -> Result<(), SessionError> {
        ask!(self, Request::Sysctl { name: name.into(), value: value.into() }, Reply::Done => ())
    }

    /// Reads the data of a kstat, `module:instance:name`.
    ///
    /// # Errors
    /// There is no such kstat, it cannot be read, or the kernel failed.
    pub fn kstat(&mut self, name: &str) -> Result<Vec<u8>, SessionError> {
        ask!(self, Request::Kstat { name: name.into() }, Reply::Bytes(bytes) => bytes)
    }

    /// Returns the bytes of a loaded module's text.
    ///
    /// # Errors
    /// There is no such module, or the kernel failed.
    pub fn read_text(&mut self, file: &str) -> Result<Vec<u8>, SessionError> {
        ask!(self, Request::ReadText { file: file.into() }, Reply::Bytes(bytes) => bytes)
    }

    /// Returns the counters of the kernel.
    ///
    /// # Errors
    /// The kernel failed.
    pub fn counters(&mut self) -> Result<Counters, SessionError> {
        ask!(self, Request::Counters, Reply::Counters(counters) => counters)
    }

    /// Powers the machine off, and returns its status. Kills a machine that does not end.
    ///
    /// # Errors
    /// The line failed before.
    pub fn power_off(mut self) -> Result<Option<Ended>, SessionError> {
        self.wire.send(Request::PowerOff, ANSWER).map_err(|error| self.failed(error))?;
        Ok(self.machine.as_mut().and_then(|machine| machine.ended(POWER_OFF)))
    }
}
