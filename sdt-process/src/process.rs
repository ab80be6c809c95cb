//! This process, from `start` to the end.

use std::collections::TryReserveError;
use std::ffi::CString;
use std::io::{self, PipeWriter, Write as _};
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sdt_core::Probe;
use sdt_core::attach::{self, AttachError, Attachment, DetachError};
use sdt_core::ops::FrameworkError;
use sdt_core::patch::Mode;
use sdt_framework::{Config, ConsumerError, Counters, Dtrace, InitError};

use crate::cpus::Slots;
use crate::fork;
use crate::hits::Hits;
use crate::image::Image;
use crate::lock::Mine;
use crate::ours::Ours;
use crate::serve::{self, Serving};
use crate::socket::{Socket, SocketError};
use crate::text::{Refused, Text, TextError};
use crate::{memory, stack};

/// All there is, locked by whoever calls the framework outside of a hit: so nothing of it is locked when a child is made.
pub(crate) static STATE: Mutex<State> =
    Mutex::new(State { attached: None, serving: None, waker: None, until: None });

/// How many threads are about to fork or to end serving, and wait for [`STATE`].
pub(crate) static WANTED: AtomicUsize = AtomicUsize::new(0);

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) attached: Option<Attached>,
    pub(crate) serving: Option<Serving>,
    /// Wakes the thread that serves.
    waker: Option<Ours<PipeWriter>>,
    /// Serving ends, as soon as consumers have what was recorded for them, and then at the latest.
    pub(crate) until: Option<Instant>,
}

/// So long consumers have to take what has been recorded when the process ends, and so long is waited for the lock of the state.
const GOODBYE: Duration = Duration::from_secs(2);

/// How long a thread sleeps that waits for the lock of the state, or for the end of serving.
const BETWEEN: Duration = Duration::from_millis(1);

/// Serving is to end: for the thread that serves, which may have the state locked for long.
static ENDING: AtomicBool = AtomicBool::new(false);

impl State {
    /// Has serving end if it is to. Returns whether it is.
    pub(crate) fn heed_end(&mut self) -> bool {
        let is_ending = ENDING.load(Ordering::Acquire);
        if is_ending {
            self.wind_up();
        }
        is_ending
    }

    /// Has serving end.
    fn wind_up(&mut self) {
        if self.serving.is_none() || self.until.is_some() {
            return;
        }
        self.until = Some(Instant::now() + GOODBYE);
        if let Some(attached) = &self.attached {
            // Refused in probe context only, where no thread takes the lock of the state.
            let _ = attached.dtrace.end_runs();
        }
        self.wake();
    }

    /// The thread that serves looks at what there is to do.
    fn wake(&self) {
        if let Some(waker) = &self.waker {
            // There is room for a byte.
            waker.get().and_then(|mut waker| waker.write_all(&[0])).ok();
        }
    }

    /// Nobody is served any more. With the lock held all the time, so that whoever forks finds either all of it or nothing.
    pub(crate) fn end(&mut self) {
        if let Some(mut serving) = self.serving.take() {
            serving.socket().remove();
            serving.close_all();
        }
        if let Some(attached) = &self.attached {
            let _ = attached.dtrace.close_anonymous();
        }
        (self.waker, self.until) = (None, None);
    }

    /// This is the child of a fork, which nobody is to trace: what there was is its parent's.
    pub(crate) fn disown(&mut self) -> Option<Serving> {
        (self.waker, self.until) = (None, None);
        self.serving.take()
    }
}

/// Has the thread that serves end that, and waits until it has, for so long at most. Returns whether it has. If not, the thread does it
/// as soon as it can.
///
/// That thread may wait for a hit that does not end, with the state locked, and so may one of the program's that changes a provider.
/// And this one may have been interrupted with the state locked. So no lock is waited for without an end.
fn end_serving(patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    ENDING.store(true, Ordering::Release);
    let Some(state) = lock_until(Instant::now() + GOODBYE) else { return false };
    // Another child's.
    if state.attached.is_none_or(|attached| attached.process != std::process::id()) {
        return false;
    }
    state.wake();
    drop(state);
    loop {
        if try_lock().is_some_and(|state| state.serving.is_none()) {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(BETWEEN);
    }
}

/// The program ends otherwise than by dropping its [`Process`].
extern "C" fn at_exit() {
    // A child's, that does not let itself be traced.
    if fork::is_ours() {
        end_serving(GOODBYE);
    }
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
    /// This is the child of a `fork` that could not wait for the other threads of its parent, or of `_Fork`.
    #[error(
        "this process was forked while its parent's probes were being seen to, and cannot be traced; have it execute a \
         program, or fork elsewhere than in a signal handler, in Rules, or while they wait"
    )]
    Forked,
    /// This crate is in a shared object that cannot be kept from being unloaded.
    #[error(
        "the shared object that sdt_process is in cannot be kept loaded: {0}; link it with -z nodelete"
    )]
    Library(String),
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
    /// What the configuration and the number of slots take is more than there is.
    #[error(
        "no memory for {bytes} bytes of tables and buffers ({source}); ask for less by Options::config and \
         Options::slots"
    )]
    Memory {
        /// How many bytes it takes.
        bytes: usize,
        /// What the allocator says.
        source: TryReserveError,
    },
    /// There is no room for what DTrace itself has: BEGIN and its like, and timers.
    #[error("no probes of dtrace's own: {0}")]
    Own(FrameworkError),
    /// The system does not let text be patched.
    #[error("this process cannot change its own text: {0}; build the program with SDT_PATCH=gate")]
    Text(#[source] TextError),
    /// The map of pages cannot be opened, by which programs in D read memory without waiting for it.
    #[error(
        "/proc/self/pagemap cannot be read: {0}; give the process /proc, and start before it cannot be dumped"
    )]
    Pages(#[source] io::Error),
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
const PROGRAMS: usize = if cfg!(target_pointer_width = "64") { 128 << 20 } else { 8 << 20 };
/// Providers, and probes of theirs, that a program can make as it runs (`sdt_core::runtime`).
const RUNTIME: [usize; 2] = [8, 256];

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
    trusts_sandbox: bool,
}

impl Default for Options {
    /// See [`new`](Self::new).
    fn default() -> Self {
        Self::new()
    }
}

impl Options {
    /// Jumps; room for all probes of the program and 256 that it makes as it runs, in 8 providers, all enabled four times each;
    /// for eight consumers with 64 kB for each of some slots more than there are CPUs; besides, 128 MB for programs in D, of
    /// which each consumer's take an eighth at most, if they do not insist (`bufresize=manual`). Memory is touched when it
    /// is needed. [`config`](Self::config) chooses otherwise.
    pub fn new() -> Self {
        let [providers, probes] = RUNTIME;
        let (providers, probes) =
            (attach::providers().len() + providers, attach::probes().len() + probes);
        let config = Config { providers, probes, ecbs: 4 * probes, ..Config::DEFAULT };
        let refused = |probe: &Probe, why: &Refused| {
            let [provider, name] = [probe.provider().name(), probe.name()];
            let [provider, name] = [provider, name].map(|of| of.to_string_lossy());
            // Not `eprintln!`, which panics when nobody reads it any more.
            let line = format!("sdt-process: {provider}:::{name} stays as it is: {why}\n");
            io::stderr().write_all(line.as_bytes()).ok();
        };
        let (mode, slots, module) = (Mode::Jump, None, None);
        let trusts_sandbox = false;
        Self { mode, config, slots, module, functions: true, refused, trusts_sandbox }
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

    /// Whether a seccomp filter that the program installs after the start allows the system calls that tracing makes: those of
    /// the table "The system calls that a sandbox must allow" in this crate's documentation. Unless this is `true`, no probe is
    /// enabled or disabled once there is such a filter, since a call that it forbids may end the process. A filter that all
    /// threads have before the start needs no word: `start` makes the calls that matter, in the thread that calls it, and fails
    /// if they do. Say it also for a filter that only some threads have before the start, and for any on Linux before 5.9, which
    /// does not tell whether another one has come.
    pub const fn allowed_by_sandbox(mut self, allowed: bool) -> Self {
        self.trusts_sandbox = allowed;
        self
    }

    /// Lets this process be traced. See [`start`](crate::start).
    ///
    /// # Errors
    /// See [`StartError`]. Nothing is traced, and nothing listens.
    pub fn start(&self) -> Result<Process, StartError> {
        if !fork::is_ours() {
            return Err(StartError::Forked);
        }
        Image::here().keep().map_err(StartError::Library)?;
        fork::heed().map_err(StartError::Thread)?;
        let mut state = lock();
        if state.serving.is_some() {
            return Err(StartError::Started);
        }
        // Each time, as the program may have closed what was open.
        if sdt_core::patch::PATCHES {
            Text::prepare().map_err(StartError::Text)?;
        }
        memory::prepare().map_err(StartError::Pages)?;
        let attached = self.attached(&mut state)?;
        let socket = Socket::bind()?;
        let path = socket.path.clone();
        let serve = |socket| {
            let (serving, waker) = Serving::new(socket, attached.consumers)?;
            heed_exit()?;
            Ok((serving, waker, serve::spawn()?))
        };
        let (serving, waker, thread) = serve(socket).map_err(|error| {
            std::fs::remove_file(&path).ok();
            StartError::Thread(error)
        })?;
        // The thread waits for the lock.
        ENDING.store(false, Ordering::Release);
        (state.serving, state.waker, state.until) = (Some(serving), Some(waker), None);
        let (dtrace, process) = (attached.dtrace, std::process::id());
        Ok(Process { path, dtrace, process, thread: Some(thread) })
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
        stack::prepare();
        let slots = self.slots.unwrap_or_else(Slots::for_this_machine);
        let slots = Slots::new(slots).map_err(|source| {
            let bytes = slots.saturating_mul(Slots::EACH);
            StartError::Memory { bytes, source }
        })?;
        let [providers, probes] = OWN;
        let config = Config {
            providers: self.config.providers.saturating_add(providers),
            probes: self.config.probes.saturating_add(probes),
            ecbs: self.config.ecbs.saturating_add(CLAUSES),
            ..self.config
        };
        config.check().map_err(StartError::Config)?;
        let consumers = config.consumers;
        let bytes = config.memory::<Slots>(sdt_framework::Host::cpus(&slots), consumers);
        let bytes = bytes.saturating_add(PROGRAMS);
        // Large, so the system's zero pages until they are written to.
        let mut memory = Vec::<MaybeUninit<u8>>::new();
        memory.try_reserve_exact(bytes).map_err(|source| StartError::Memory { bytes, source })?;
        // SAFETY: there is room for so many, and they need not be initialised.
        unsafe { memory.set_len(bytes) };
        let memory = memory.leak();
        let dtrace: &'static Dtrace<Slots> = Box::leak(Box::new(Dtrace::new(slots)));
        dtrace.init(memory, &config).map_err(StartError::Config)?;
        // Refused in probe context, where nothing is registered either.
        let _ = dtrace.share_memory(PROGRAMS / consumers.max(1));
        dtrace.register_own().map_err(StartError::Own)?;
        let text = Text::new(self.refused)
            .with_functions(self.functions)
            .allowed_by_sandbox(self.trusts_sandbox);
        let attachment = Box::leak(Box::new(Attachment {
            framework: Box::leak(Box::new(Hits(dtrace))),
            patcher: Box::leak(Box::new(text)),
            mode: self.mode,
            module: Box::leak(self.module.clone().unwrap_or_else(program).into_boxed_c_str()),
        }));
        // SAFETY: the handler of breakpoints is there, and asks; it stays, and so does the program. Who was recording in
        // the parent is not in the child.
        unsafe { attach::attach(attachment) }.map_err(StartError::Attach)?;
        // Behind the program's own, whose numbers do not depend on how many timers there are.
        if let Err(error) = dtrace.register_profile(TIMERS) {
            // Or nobody could start it with another configuration. Nothing is enabled that would stay.
            attach::detach().map_err(StartError::Detach)?;
            return Err(StartError::Own(error));
        }
        let attached = Attached { process: std::process::id(), dtrace, consumers };
        state.attached = Some(attached);
        Ok(attached)
    }
}

/// Has the C library call [`at_exit`], once.
fn heed_exit() -> io::Result<()> {
    static HEEDED: Once = Once::new();
    let mut result = Ok(());
    HEEDED.call_once(|| {
        // SAFETY: it stays, and does what functions at exit may.
        if unsafe { libc::atexit(at_exit) } != 0 {
            result = Err(io::ErrorKind::OutOfMemory.into());
        }
    });
    result
}

/// [`STATE`], and that this thread has it.
#[derive(Debug)]
pub(crate) struct Locked {
    state: MutexGuard<'static, State>,
    _mine: Mine,
}

impl Deref for Locked {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

/// [`lock`] without waiting.
pub(crate) fn try_lock() -> Option<Locked> {
    let mine = Mine::new();
    let state = match STATE.try_lock() {
        Ok(state) => state,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => return None,
    };
    Some(Locked { state, _mine: mine })
}

/// [`lock`], unless that takes longer than until then.
fn lock_until(deadline: Instant) -> Option<Locked> {
    // The thread that serves lets others go first.
    WANTED.fetch_add(1, Ordering::AcqRel);
    let state = loop {
        match try_lock() {
            None if Instant::now() < deadline => std::thread::sleep(BETWEEN),
            state => break state,
        }
    };
    WANTED.fetch_sub(1, Ordering::AcqRel);
    state
}

pub(crate) fn lock() -> Locked {
    let mine = Mine::new();
    let state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    Locked { state, _mine: mine }
}

/// The program's name, as much of it as there is room for.
fn program() -> CString {
    let name = crate::kernel::program_name();
    let name = name.to_string_lossy();
    // What would be cut or no description could mean is left out.
    let name = name.chars().filter(char::is_ascii_graphic).take(63).collect::<String>();
    CString::new(name).unwrap_or_default()
}

/// A process that can be traced, until this is dropped, or the program ends by `exit`. Then consumers take what has been
/// recorded for their programs, for which they have two seconds; sites are nops, and the socket is gone.
///
/// If the thread that answers consumers is stuck, as it waits for a hit that does not end, dropping this returns all the same, after four
/// seconds at most. The thread does the rest when it can; until then `start` returns [`StartError::Started`].
///
/// In the child of a `fork` it is nobody's: dropping it there does nothing.
#[derive(Debug)]
#[must_use = "it ends when this is dropped"]
pub struct Process {
    path: PathBuf,
    dtrace: &'static Dtrace<Slots>,
    process: u32,
    thread: Option<JoinHandle<()>>,
}

impl Process {
    /// Where it listens.
    pub fn socket(&self) -> &Path {
        &self.path
    }

    /// Enables a program in D by itself, before and without any consumer: what `dtrace -p PID -A` has written. With `-x
    /// bufpolicy=ring` it keeps the latest records, for `dtrace --core` when the process has crashed. Returns how many
    /// probes its clauses mean so far; those that come to be later are enabled as well. Until `dtrace -p PID -a` claims it, it
    /// goes on.
    ///
    /// # Errors
    /// [`ConsumerError::Going`] if there is such a program already; what is wrong with this one, or what there is no room for.
    /// [`ConsumerError::NotPermitted`] in the child of a `fork`.
    pub fn enable_anonymously(&self, dof: &[u8]) -> Result<u32, ConsumerError> {
        if self.process != std::process::id() {
            return Err(ConsumerError::NotPermitted);
        }
        let state = lock();
        let enabled = self.dtrace.enable_anonymously(dof)?;
        // It cleans for that from now on.
        state.wake();
        Ok(enabled)
    }

    /// What became of all hits since the process was first started: those of BEGIN, END, ERROR and timers, too.
    pub fn counters(&self) -> Counters {
        self.dtrace.counters()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if self.process != std::process::id() {
            // There is no such thread here.
            std::mem::forget(thread);
            return;
        }
        // After the consumers' two seconds the thread has as many to close what they had.
        if end_serving(2 * GOODBYE) {
            // The thread does not panic.
            thread.join().ok();
        }
    }
}
