//! This process, from `start` to the end.

use std::ffi::CString;
use std::io::{self, PipeWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use sdt_core::__private::record::{PROBES, PROVIDERS};
use sdt_core::Probe;
use sdt_core::attach::{self, AttachError, Attachment, DetachError};
use sdt_core::ops::FrameworkError;
use sdt_core::patch::Mode;
use sdt_framework::{Config, Counters, Dtrace, InitError};

use crate::cpus::Slots;
use crate::fork;
use crate::serve::{self, Serving};
use crate::socket::{Socket, SocketError};
use crate::stack;
use crate::text::{Refused, Text};

/// All there is, locked by whoever calls the framework outside of a hit: so nothing of it is locked when a child is made.
pub(crate) static STATE: Mutex<State> = Mutex::new(State { attached: None, serving: None });

/// How many threads are about to fork, and wait for [`STATE`].
pub(crate) static WANTED: AtomicUsize = AtomicUsize::new(0);

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) attached: Option<Attached>,
    pub(crate) serving: Option<Serving>,
}

/// The framework that the probes of this image are attached to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attached {
    /// The process that has done it: the child of a fork does it again.
    process: u32,
    pub(crate) dtrace: &'static Dtrace<Slots>,
    consumers: usize,
}

/// Why a process cannot be traced.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// It can be already.
    #[error("sdt_process has been started already")]
    Started,
    /// The records of the probes do not hold together, or do not fit.
    #[error("the probes of this program cannot be attached: {0}")]
    Attach(AttachError),
    /// What a parent attached cannot be given up.
    #[error(
        "the probes of this program cannot be detached from what they were attached to before a fork: {0}"
    )]
    Detach(DetachError),
    /// The configuration is no good.
    #[error("no framework with this configuration: {0}")]
    Config(InitError),
    /// There is no room for what DTrace itself has: BEGIN and its like, and timers.
    #[error("no probes of dtrace's own: {0}")]
    Own(FrameworkError),
    /// The system does not let text be patched.
    #[error(
        "the system does not let a process change its own text, which takes membarrier(2) and a handler of SIGTRAP \
         ({0}); build the program with SDT_PATCH=gate"
    )]
    Text(#[source] io::Error),
    /// There is no socket.
    #[error("no socket for dtrace: {0}")]
    Socket(#[from] SocketError),
    /// The system has no more threads or pipes.
    #[error("nothing that answers dtrace: {0}")]
    Thread(#[source] io::Error),
}

/// Providers and probes of DTrace's own: `dtrace`, with BEGIN, END and ERROR, and `profile`, with so many timers.
const OWN: [usize; 2] = [2, 3 + TIMERS];
/// Timers of different rates that there can be. Thirteen are listed.
const TIMERS: usize = 32;
/// Clauses that can be enabled for them.
const CLAUSES: usize = 256;
/// Bytes for what programs in D declare and for the larger buffers that they ask for, all consumers together.
const PROGRAMS: usize = if cfg!(target_pointer_width = "64") { 64 << 20 } else { 8 << 20 };

/// How a process is traced; [`start`](Self::start) does it.
///
/// What is said here counts when the process is first started. It is the same when it is started again after that.
#[derive(Clone, Debug)]
pub struct Options {
    mode: Mode,
    config: Config,
    slots: Option<usize>,
    module: Option<CString>,
    functions: bool,
    refused: fn(&Probe, &Refused),
}

impl Default for Options {
    /// See [`new`](Self::new).
    fn default() -> Self {
        Self::new()
    }
}

impl Options {
    /// Jumps; room for all probes of the program, enabled four times each, and for eight consumers with 64 kB for each of
    /// some slots more than there are CPUs; besides, 64 MB for programs in D. Memory is touched when it is needed.
    pub fn new() -> Self {
        let (providers, probes) = (PROVIDERS.len().max(1), PROBES.len().max(1));
        let config = Config { providers, probes, ecbs: 4 * probes, ..Config::DEFAULT };
        let refused = |probe: &Probe, why: &Refused| {
            let [provider, name] = [probe.provider().name(), probe.name()];
            let [provider, name] = [provider, name].map(|of| of.to_string_lossy());
            eprintln!("sdt-process: {provider}:::{name} stays as it is: {why}");
        };
        let (mode, slots, module) = (Mode::Jump, None, None);
        Self { mode, config, slots, module, functions: true, refused }
    }

    /// What enabled sites do. A jump costs no signal. A program that is built in gate mode does neither.
    pub const fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// How much the framework has room for, beside the probes of DTrace's own.
    pub const fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// How many hits can be recorded at the same time: [`Slots`]. Each has a buffer for each consumer.
    pub const fn slots(mut self, slots: usize) -> Self {
        self.slots = Some(slots);
        self
    }

    /// The module part of the probes' descriptions, instead of the program's name.
    pub fn module(mut self, module: CString) -> Self {
        self.module = Some(module);
        self
    }

    /// Whether descriptions have the function that a probe is in, as DTrace's do, or `none` for all: finding out reads the
    /// symbols of the program's file, once. A probe whose sites are in several functions has `none`. Names are Rust's paths;
    /// in a description `?` stands for a colon of theirs: `hello::greeter??main:greeted`.
    pub const fn functions(mut self, functions: bool) -> Self {
        self.functions = functions;
        self
    }

    /// What is told when a probe cannot be enabled or disabled, instead of standard error. It is called with locks held, and
    /// must not start, stop or fork.
    pub const fn on_refusal(mut self, refused: fn(&Probe, &Refused)) -> Self {
        self.refused = refused;
        self
    }

    /// Lets this process be traced. See [`start`](crate::start).
    ///
    /// # Errors
    /// See [`StartError`]. Nothing is traced, and nothing listens.
    pub fn start(&self) -> Result<Process, StartError> {
        let mut state = lock();
        if state.serving.is_some() {
            return Err(StartError::Started);
        }
        let attached = self.attached(&mut state)?;
        let socket = Socket::bind()?;
        let path = socket.path.clone();
        let serve = |socket| {
            let (serving, waker) = Serving::new(socket, attached.consumers)?;
            fork::heed()?;
            Ok((serving, waker, serve::spawn()?))
        };
        let (serving, waker, thread) = serve(socket).map_err(|error| {
            std::fs::remove_file(&path).ok();
            StartError::Thread(error)
        })?;
        // The thread waits for the lock.
        state.serving = Some(serving);
        let running = Some((waker, thread));
        Ok(Process { path, dtrace: attached.dtrace, process: std::process::id(), running })
    }

    /// Attaches the probes, if this process has not done so.
    fn attached(&self, state: &mut State) -> Result<Attached, StartError> {
        match state.attached {
            Some(attached) if attached.process == std::process::id() => return Ok(attached),
            // A parent's, and nothing of it is enabled. Its threads may have been recording, so it is not used again.
            Some(_) => {
                attach::detach().map_err(StartError::Detach)?;
                state.attached = None;
            }
            None => {}
        }
        if sdt_core::patch::PATCHES {
            Text::prepare().map_err(StartError::Text)?;
        }
        stack::prepare();
        let slots = self.slots.map_or_else(Slots::for_this_machine, Slots::new);
        let [providers, probes] = OWN;
        let config = Config {
            providers: self.config.providers.saturating_add(providers),
            probes: self.config.probes.saturating_add(probes),
            ecbs: self.config.ecbs.saturating_add(CLAUSES),
            ..self.config
        };
        let consumers = config.consumers;
        let bytes = config.memory::<Slots>(sdt_framework::Host::cpus(&slots), consumers);
        let dtrace: &'static Dtrace<Slots> = Box::leak(Box::new(Dtrace::new(slots)));
        // Large, so the system's zero pages until they are written to.
        let memory = Box::leak(Box::new_uninit_slice(bytes.saturating_add(PROGRAMS)));
        dtrace.init(memory, &config).map_err(StartError::Config)?;
        dtrace.register_own().map_err(StartError::Own)?;
        let text = Text::new(self.refused).with_functions(self.functions);
        let attachment = Box::leak(Box::new(Attachment {
            framework: dtrace,
            patcher: Box::leak(Box::new(text)),
            mode: self.mode,
            module: Box::leak(self.module.clone().unwrap_or_else(program).into_boxed_c_str()),
        }));
        // SAFETY: the handler of breakpoints is there, and asks; it stays, and so does the program. Who was recording in
        // the parent is not in the child.
        unsafe { attach::attach(attachment) }.map_err(StartError::Attach)?;
        // Behind the program's own, whose numbers do not depend on how many timers there are.
        dtrace.register_profile(TIMERS).map_err(StartError::Own)?;
        let attached = Attached { process: std::process::id(), dtrace, consumers };
        state.attached = Some(attached);
        Ok(attached)
    }
}

pub(crate) fn lock() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The program's name, as much of it as there is room for.
fn program() -> CString {
    let name = crate::kernel::program_name();
    let name = name.to_string_lossy();
    // What would be cut or no description could mean is left out.
    let name = name.chars().filter(char::is_ascii_graphic).take(63).collect::<String>();
    CString::new(name).unwrap_or_default()
}

/// A process that can be traced, until this is dropped. Then consumers are told by the end of their connection, sites are
/// nops, and the socket is gone.
///
/// In the child of a `fork` it is nobody's: dropping it there does nothing.
#[derive(Debug)]
#[must_use = "it ends when this is dropped"]
pub struct Process {
    path: PathBuf,
    dtrace: &'static Dtrace<Slots>,
    process: u32,
    running: Option<(PipeWriter, JoinHandle<()>)>,
}

impl Process {
    /// Where it listens.
    pub fn socket(&self) -> &Path {
        &self.path
    }

    /// What became of all hits since the process was first started: those of BEGIN, END, ERROR and timers, too.
    pub fn counters(&self) -> Counters {
        self.dtrace.counters()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let Some((mut waker, thread)) = self.running.take() else { return };
        if self.process != std::process::id() {
            // There is no such thread here.
            std::mem::forget(thread);
            return;
        }
        let serving = lock().serving.take();
        // There is room for a byte, and the thread does not panic.
        waker.write_all(&[0]).ok();
        thread.join().ok();
        if let Some(mut serving) = serving {
            // As the thread would have: nobody forks meanwhile.
            let _state = lock();
            serving.socket().remove();
            serving.close_all();
        }
    }
}
