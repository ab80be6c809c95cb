//! A running stand-in kernel, and what can be asked of it.

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use sdt_protocol::{
    Counters, Detail, Event, Exec, Module, Probe, Reentered, Refusal, Reply, Request, Site, Sites,
    Spec, Tortured, VERSION,
};

use crate::kernel;
use crate::machine::{Ended, Machine, MachineError, Options};
use crate::qemu;
use crate::wire::{Incoming, Wire, WireError, name};
use cargo_sdt::arch::Arch;
use cargo_sdt::module::BuildError;
use cargo_sdt::progress::step;
use cargo_sdt::setup::SetupError;

/// The kernel boots in about a second; a machine under load takes longer.
const BOOT: Duration = Duration::from_secs(60);
/// Every request is answered at once, but for executions, which are many.
const ANSWER: Duration = Duration::from_secs(60);
/// A machine that is told to power off does so at once.
const POWER_OFF: Duration = Duration::from_secs(5);

/// What can go wrong with a kernel.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// Something it needs is missing.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// It could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// There is no machine for it.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// It refused a request, and goes on.
    #[error("{}", .0.message)]
    Refused(Refusal),
    /// It failed.
    #[error("{0}")]
    Failed(Box<Failure>),
    /// It is not the kernel that belongs to this consumer.
    #[error("the kernel's {what} is {found}, not {expected}; build it again")]
    Foreign {
        /// What differs.
        what: &'static str,
        /// What the kernel has.
        found: String,
        /// What this consumer has.
        expected: String,
    },
}

/// How a kernel failed.
#[derive(Debug)]
pub struct Failure {
    /// What happened on the line.
    pub error: WireError,
    /// How the machine ended, if it did.
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

/// A running kernel. When this is dropped, it is gone.
#[derive(Debug)]
pub struct Session {
    machine: Machine,
    /// The line to it.
    pub wire: Wire,
    cpus: u32,
}

/// Asks and picks what the reply must be.
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
    /// Builds the kernel if need be and boots it.
    ///
    /// # Errors
    /// Any step failed.
    pub fn boot(arch: Arch, cpus: u32, echo: bool) -> Result<Self, SessionError> {
        let qemu = qemu::find(arch)?;
        let kernel = kernel::build(arch)?;
        Self::start(&Options { arch, qemu, kernel, cpus }, echo)
    }

    /// Boots a kernel and makes sure that it is ours.
    ///
    /// # Errors
    /// It does not come up, or is another one.
    pub fn start(options: &Options, echo: bool) -> Result<Self, SessionError> {
        let (machine, line) = Machine::start(options)?;
        let mut session = Self { machine, wire: Wire::new(line, echo), cpus: options.cpus };
        let hello = step("booting the stand-in kernel", || {
            session.wire.wait_until_up(BOOT)?;
            session.wire.request(Request::Hello, ANSWER)
        });
        let hello = hello.map_err(|error| session.failed(error))?;
        let Reply::Hello { version, cpus, arch: found } = hello else {
            let error = WireError::Strange { request: "hello", reply: Box::new(hello) };
            return Err(session.failed(error));
        };
        let same = |what, found: String, expected: String| {
            if found == expected {
                return Ok(());
            }
            Err(SessionError::Foreign { what, found, expected })
        };
        same("protocol version", version.to_string(), VERSION.to_string())?;
        same("architecture", found, options.arch.name().into())?;
        same("number of CPUs", cpus.to_string(), options.cpus.to_string())?;
        Ok(session)
    }

    /// Number of CPUs.
    pub fn cpus(&self) -> u32 {
        self.cpus
    }

    /// Process id of the machine.
    pub fn pid(&self) -> u32 {
        self.machine.pid()
    }

    /// The error for a failure on the line, with what is known of how it came about.
    pub fn failed(&mut self, error: WireError) -> SessionError {
        let error = match error {
            WireError::Refused(refusal) => return SessionError::Refused(refusal),
            error => error,
        };
        // A line that is closed means that the machine is going; a moment later it is known how.
        let wait = if matches!(error, WireError::Closed) { POWER_OFF } else { Duration::ZERO };
        let ended = self.machine.ended(wait);
        let console = self.wire.console().map(Into::into).collect();
        SessionError::Failed(Box::new(Failure { error, ended, console }))
    }

    fn request(&mut self, request: Request) -> Result<Reply, SessionError> {
        self.wire.request(request, ANSWER).map_err(|error| self.failed(error))
    }

    /// Makes the kernel that of the FreeBSD with this `__FreeBSD_version`; it starts as that of
    /// 15.0-RELEASE.
    ///
    /// # Errors
    /// The kernel does not know it, has modules loaded, or failed.
    pub fn freebsd(&mut self, version: i32) -> Result<(), SessionError> {
        ask!(self, Request::FreeBsd { version }, Reply::Done => ())
    }

    /// Makes the kernel illumos's, before any module is loaded.
    ///
    /// # Errors
    /// The kernel refuses, or failed.
    pub fn illumos(&mut self) -> Result<(), SessionError> {
        self.illumos_with(Sites::default())
    }

    /// Makes the kernel one that is as illumos's but for what becomes of probes' calls.
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

    /// Opens the framework as one more consumer.
    ///
    /// # Errors
    /// The kernel refuses, or failed.
    pub fn open(&mut self) -> Result<u32, SessionError> {
        ask!(self, Request::Open, Reply::Consumer { consumer } => consumer)
    }

    /// Closes a consumer.
    ///
    /// # Errors
    /// The kernel refuses, or failed.
    pub fn close(&mut self, consumer: u32) -> Result<(), SessionError> {
        ask!(self, Request::Close { consumer }, Reply::Done => ())
    }

    /// The probes a description matches.
    ///
    /// # Errors
    /// The kernel refuses the description, or failed.
    pub fn list(&mut self, spec: Spec) -> Result<Vec<Probe>, SessionError> {
        ask!(self, Request::List { spec }, Reply::Probes(probes) => probes)
    }

    /// Stability and argument types of a probe.
    ///
    /// # Errors
    /// There is no such probe, or the kernel failed.
    pub fn describe(&mut self, probe: u32) -> Result<Detail, SessionError> {
        ask!(self, Request::Describe { probe }, Reply::Detail(detail) => detail)
    }

    /// Where a probe fires, and what is there now.
    ///
    /// # Errors
    /// The kernel failed.
    pub fn sites(&mut self, probe: u32) -> Result<Vec<Site>, SessionError> {
        ask!(self, Request::Sites { probe }, Reply::Sites(sites) => sites)
    }

    /// Enables what a description matches; says how many probes.
    ///
    /// # Errors
    /// The kernel refuses, or failed.
    pub fn enable(&mut self, consumer: u32, spec: Spec) -> Result<u32, SessionError> {
        ask!(self, Request::Enable { consumer, spec }, Reply::Matched { probes } => probes)
    }

    /// Disables what a description matches; says how many probes.
    ///
    /// # Errors
    /// The kernel refuses, or failed.
    pub fn disable(&mut self, consumer: u32, spec: Spec) -> Result<u32, SessionError> {
        ask!(self, Request::Disable { consumer, spec }, Reply::Matched { probes } => probes)
    }

    /// Starts recording.
    ///
    /// # Errors
    /// The kernel refuses, or failed.
    pub fn go(&mut self, consumer: u32) -> Result<(), SessionError> {
        ask!(self, Request::Go { consumer }, Reply::Done => ())
    }

    /// Stops recording; all that was recorded has arrived when this returns.
    ///
    /// # Errors
    /// The kernel refuses, or failed.
    pub fn stop(&mut self, consumer: u32) -> Result<(), SessionError> {
        ask!(self, Request::Stop { consumer }, Reply::Done => ())
    }

    /// Executes images; says how many on each CPU. What else arrives meanwhile is kept with the other
    /// events of [`wire`](Self::wire).
    ///
    /// # Errors
    /// The kernel refuses, or failed.
    pub fn exec(&mut self, execs: &[Exec]) -> Result<Vec<u64>, SessionError> {
        let mut events = Vec::new();
        let per_cpu = self.exec_with(execs, |event| events.push(event))?;
        self.wire.events.extend(events);
        Ok(per_cpu)
    }

    /// Executes images and gives `handle` what else arrives meanwhile, as it comes.
    ///
    /// # Errors
    /// The kernel refuses, or failed.
    pub fn exec_with(
        &mut self,
        execs: &[Exec],
        mut handle: impl FnMut(Event),
    ) -> Result<Vec<u64>, SessionError> {
        let deadline = Instant::now() + ANSWER;
        match self.wait_for(Request::Exec { execs: execs.to_vec() }, |event| {
            handle(event);
            deadline
        })? {
            Reply::Executed { per_cpu } => Ok(per_cpu),
            reply => Err(self.strange("exec", reply)),
        }
    }

    /// Asks, and gives `handle` what else arrives until the answer does. It returns the new deadline.
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
                Some(Incoming::Event(event)) => deadline = handle(event),
                Some(Incoming::Reply(seq, result)) if seq == asked => {
                    return result.map_err(SessionError::Refused);
                }
                Some(Incoming::Reply(..)) => {}
            }
        }
    }

    fn strange(&mut self, request: &'static str, reply: Reply) -> SessionError {
        self.failed(WireError::Strange { request, reply: Box::new(reply) })
    }

    /// Tortures the kernel's own probes; `progress` is told how many transitions are done. There is no
    /// limit to how long it may take, as long as it goes on.
    ///
    /// # Errors
    /// The kernel refuses, or failed: that is how it takes a trap that it did not expect.
    pub fn torture(
        &mut self,
        seed: u64,
        transitions: u64,
        mut progress: impl FnMut(u64),
    ) -> Result<Tortured, SessionError> {
        let mut others = Vec::new();
        let result = self.wait_for(Request::Torture { seed, transitions }, |event| {
            match event {
                Event::Progress { done, .. } => progress(done),
                event => others.push(event),
            }
            Instant::now() + ANSWER
        });
        self.wire.events.extend(others);
        match result? {
            Reply::Tortured(result) => Ok(result),
            reply => Err(self.strange("torture", reply)),
        }
    }

    /// Hits the kernel's own probes where others are being fired, so many times on each CPU, with sites
    /// that jump or that trap.
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

    /// The bytes of a loaded module's text.
    ///
    /// # Errors
    /// There is no such module, or the kernel failed.
    pub fn read_text(&mut self, file: &str) -> Result<Vec<u8>, SessionError> {
        ask!(self, Request::ReadText { file: file.into() }, Reply::Bytes(bytes) => bytes)
    }

    /// What has happened in the kernel.
    ///
    /// # Errors
    /// The kernel failed.
    pub fn counters(&mut self) -> Result<Counters, SessionError> {
        ask!(self, Request::Counters, Reply::Counters(counters) => counters)
    }

    /// Powers the machine off and says how it ended; one that does not end is ended.
    ///
    /// # Errors
    /// The line failed before.
    pub fn power_off(mut self) -> Result<Option<Ended>, SessionError> {
        self.wire.send(Request::PowerOff, ANSWER).map_err(|error| self.failed(error))?;
        Ok(self.machine.ended(POWER_OFF))
    }
}
