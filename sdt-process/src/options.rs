//! The options of tracing a process, and the start.

use std::ffi::CString;
use std::io::{self, Write as _};

use sdt_core::Probe;
use sdt_core::attach::{self, Attachment};
use sdt_core::patch::Mode;
use sdt_framework::{Config, Dtrace};

use crate::error::StartError;
use crate::framework::SiteFramework;
use crate::image::Image;
use crate::parent;
use crate::process::Process;
use crate::refused::Refused;
use crate::sampling::{self, TIMERS};
use crate::server::Server;
use crate::slots::Slots;
use crate::socket::Socket;
use crate::state::{self, Attached, State};
use crate::text::Text;
use crate::{fork, identity, memory, program, reserve, sandbox, shutdown, stack, worker};

/// The providers and probes of DTrace itself: `dtrace` with BEGIN, END and ERROR, and `profile` with its timers.
const OWN: [usize; 2] = [2, 3 + TIMERS];
/// The number of clauses that can be enabled for the probes of DTrace itself.
const CLAUSES: usize = 256;
/// The number of providers that the program can make at run time (`sdt_core::runtime`), and of their probes.
const RUNTIME: [usize; 2] = [8, 256];

/// The default number of instructions at the boundaries of functions that can be traced.
const FUNCTION_SITES: usize = 4096;

/// How a process is traced. [`start`](Self::start) starts it.
///
/// Only the options of the first start in a process have an effect. Later starts ignore theirs.
#[derive(Clone, Debug)]
pub struct Options {
    mode: Mode,
    config: Config,
    slots: Option<usize>,
    module: Option<CString>,
    functions: bool,
    function_sites: usize,
    on_refusal: fn(&Probe, &Refused),
    allowed_by_sandbox: bool,
}

impl Default for Options {
    /// Returns the options of [`new`](Self::new).
    fn default() -> Self {
        Self::new()
    }
}

impl Options {
    /// Returns the default options:
    ///
    /// | | |
    /// |---|---|
    /// | [`mode`](Self::mode) | jumps |
    /// | probes | those of the program, and 256 of 8 providers that are made at run time; each can be enabled four times |
    /// | consumers | eight, each with a buffer of 64 kB for each slot |
    /// | [`slots`](Self::slots) | two for each CPU, and six more |
    /// | memory for programs in D | 1 GB, but at most a quarter of the memory that this process may use (machine, control groups, `RLIMIT_AS`, `RLIMIT_DATA`), and 128 MB if the system counts or provides memory when it is allocated (`vm.overcommit_memory=2`, `mlockall(2)`); the programs of one consumer get an eighth, unless it sets `bufresize=manual` |
    ///
    /// The system provides memory when it is first used, and gets it back after a burst of records, and when the consumer leaves.
    /// [`config`](Self::config) changes the numbers.
    pub fn new() -> Self {
        let [providers, probes] = RUNTIME;
        let (providers, probes) =
            (attach::providers().len() + providers, attach::probes().len() + probes);
        Self {
            mode: Mode::Jump,
            config: Config { providers, probes, ecbs: 4 * probes, ..Config::DEFAULT },
            slots: None,
            module: None,
            functions: true,
            function_sites: FUNCTION_SITES,
            on_refusal: print_refusal,
            allowed_by_sandbox: false,
        }
    }

    /// Sets how enabled sites lead to the framework. A jump raises no signal. A program that is built in gate mode ignores this.
    pub const fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets the capacity of the framework. The probes of DTrace itself come in addition.
    pub const fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Sets the number of hits that can be recorded at the same time. Each slot has a buffer for each consumer.
    pub const fn slots(mut self, slots: usize) -> Self {
        self.slots = Some(slots);
        self
    }

    /// Sets the module part of the probes' descriptions. The default is the program's name.
    pub fn module(mut self, module: CString) -> Self {
        self.module = Some(module);
        self
    }

    /// Sets whether descriptions contain the function of a probe, or `none` for all probes. Finding the functions reads the symbols of
    /// the program's file once. A probe with sites in several functions has `none`. The names are Rust paths; in a description, `?`
    /// stands for each colon: `hello::greeter??main:greeted`.
    pub const fn functions(mut self, functions: bool) -> Self {
        self.functions = functions;
        self
    }

    /// Sets the room for functions that consumers trace without a declared probe (`dtrace -n 'pid$target:a.out:main:entry'`): the entry
    /// of a function takes one place, and each instruction that leaves it another one. With 0, no function can be traced. The default
    /// is 4096.
    pub const fn function_sites(mut self, sites: usize) -> Self {
        self.function_sites = sites;
        self
    }

    /// Sets the function that is called when a probe cannot be enabled or disabled. The default prints the reason on standard error. The
    /// function is called with locks held: it must not start or end tracing, nor fork. If it panics, the panic ends there.
    pub const fn on_refusal(mut self, on_refusal: fn(&Probe, &Refused)) -> Self {
        self.on_refusal = on_refusal;
        self
    }

    /// Declares that seccomp filters which the program installs after the start allow the system calls that tracing makes. They are in
    /// the table "The system calls that a sandbox must allow" of this crate's documentation.
    ///
    /// Unless this is `true`, no probe is enabled or disabled once there is such a filter, as a forbidden call may end the process. A
    /// filter that all threads have before the start needs no declaration: `start` tries the calls in the thread that calls it, and fails
    /// if one of them does. Declare also a filter that only some threads have before the start, and any filter on Linux before 5.9, which
    /// does not count filters.
    pub const fn allowed_by_sandbox(mut self, allowed: bool) -> Self {
        self.allowed_by_sandbox = allowed;
        self
    }

    /// Lets this process be traced. See [`start`](crate::start).
    ///
    /// # Errors
    /// See [`StartError`]. Then nothing is traced, and no socket is left.
    pub fn start(&self) -> Result<Process, StartError> {
        if !fork::claim() {
            return Err(StartError::Forked);
        }
        Image::here().keep().map_err(StartError::Library)?;
        fork::register_handlers().map_err(StartError::Thread)?;
        let mut state = state::lock();
        if state.server.is_some() {
            return Err(StartError::Started);
        }
        identity::prepare();
        // At each start, as the program may have closed the descriptors of an earlier one.
        sandbox::allow(self.allowed_by_sandbox);
        if sdt_core::patch::PATCHES {
            Text::prepare().map_err(StartError::Text)?;
        } else {
            // Without a count, tracing ends as if no filter had been installed.
            sandbox::remember().ok();
        }
        memory::prepare().map_err(StartError::Pages)?;
        let attached = self.attach(&mut state)?;
        sampling::prepare(attached.dtrace);
        let socket = Socket::bind()?;
        let path = socket.path.clone();
        let serve = |socket| {
            let (server, waker) = Server::new(socket, attached.consumers)?;
            shutdown::register_at_exit()?;
            // The thread waits for the lock of the state.
            Ok((server, waker, worker::spawn()?))
        };
        let (server, waker, worker) = serve(socket).map_err(|error| {
            std::fs::remove_file(&path).ok();
            StartError::Thread(error)
        })?;
        shutdown::reset();
        (state.server, state.waker, state.deadline) = (Some(server), Some(waker), None);
        // The thread serves consumers once the state is unlocked.
        drop(state);
        let thread = worker.wait_until_idle();
        parent::wait_for(attached.dtrace);
        Ok(Process::new(path, attached.dtrace, thread))
    }

    /// Attaches the probes to a framework, unless this process has done so.
    fn attach(&self, state: &mut State) -> Result<Attached, StartError> {
        match state.attached {
            Some(attached) if attached.process == std::process::id() => return Ok(attached),
            // The framework of the parent, with nothing enabled. Threads of the parent may have been recording in it,
            // so this process creates a new framework.
            Some(_) => {
                attach::detach().map_err(StartError::Detach)?;
                state.attached = None;
            }
            None => {}
        }
        stack::prepare();
        let (dtrace, consumers) = self.framework()?;
        let text = Text::new(self.on_refusal).with_functions(self.functions).with_mode(self.mode);
        let module = self.module.clone().unwrap_or_else(program::module);
        let attachment = Box::leak(Box::new(Attachment {
            framework: Box::leak(Box::new(SiteFramework(dtrace))),
            patcher: Box::leak(Box::new(text)),
            mode: self.mode,
            module: Box::leak(module.into_boxed_c_str()),
        }));
        // SAFETY: `Text::prepare` has installed the handler of breakpoints, which asks `sdt_core` and is never removed; the image stays
        // loaded (`Image::keep`). In a child, threads that were recording in the parent do not exist.
        unsafe { attach::attach(attachment) }.map_err(StartError::Attach)?;
        // After the program's probes, so that their numbers do not depend on the number of timers.
        if let Err(error) = dtrace.register_profile(TIMERS) {
            // Detach, so that the program can start with another configuration. Nothing is enabled yet.
            attach::detach().map_err(StartError::Detach)?;
            return Err(StartError::Own(error));
        }
        if sdt_core::patch::PATCHES && self.function_sites != 0 {
            // A program without a build ID has no functions to trace. The consumer gets the reason.
            let text = Text::new(self.on_refusal).with_mode(self.mode);
            let _ = crate::function::register(dtrace, text, self.function_sites);
        }
        let attached = Attached { process: std::process::id(), dtrace, consumers };
        state.attached = Some(attached);
        Ok(attached)
    }

    /// Creates a framework. Returns it, and the number of consumers that it has room for.
    fn framework(&self) -> Result<(&'static Dtrace<Slots>, usize), StartError> {
        let slots = self.slots.unwrap_or_else(Slots::for_this_machine);
        let slots = Slots::new(slots).map_err(|source| {
            let bytes = slots.saturating_mul(Slots::EACH);
            StartError::Memory { bytes, source }
        })?;
        let [providers, probes] = OWN;
        let config = Config {
            providers: self.config.providers.saturating_add(providers + 1),
            probes: self.config.probes.saturating_add(probes).saturating_add(self.function_sites),
            ecbs: self.config.ecbs.saturating_add(CLAUSES).saturating_add(self.function_sites),
            ..self.config
        };
        config.check().map_err(StartError::Config)?;
        let consumers = config.consumers;
        let bytes = config.memory::<Slots>(sdt_framework::Host::cpus(&slots), consumers);
        // A site of a function takes at most 56 bytes, besides the allocator's part of the tables.
        let bytes =
            bytes.saturating_add(self.function_sites.saturating_mul(56)).saturating_add(256);
        let (memory, programs) = reserve::memory(bytes)?;
        let dtrace: &'static Dtrace<Slots> = Box::leak(Box::new(Dtrace::new(slots)));
        dtrace.init(memory, &config).map_err(StartError::Config)?;
        // Fails in probe context only, where `register_own` fails, too.
        let _ = dtrace.share_memory(programs / consumers.max(1));
        dtrace.register_own().map_err(StartError::Own)?;
        Ok((dtrace, consumers))
    }
}

/// Prints on standard error why a probe could not be enabled or disabled.
fn print_refusal(probe: &Probe, why: &Refused) {
    let [provider, name] = [probe.provider().name(), probe.name()].map(|of| of.to_string_lossy());
    // Not `eprintln!`, which panics if standard error is closed.
    let line = format!("sdt-process: {provider}:::{name} cannot be enabled or disabled: {why}\n");
    io::stderr().write_all(line.as_bytes()).ok();
}
