//! A run of dtrace(1): from what it is to do to the last line (cmd/dtrace/dtrace.c).

mod absent;
mod compile;
mod list;
mod picture;
mod several;

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dtrace_abi::option::{OptionId, UNSET};
use dtrace_compiler::program::Program;

pub use compile::CompileError;
pub(crate) use compile::specifies;
pub use several::{Target, run_all};

use crate::client::{Client, ClientError};
use crate::format;
use crate::job::{Job, Mode};
use crate::output::OutputError;
use crate::render::{Output, RenderError, Sink, Streams, Structured, Text};
use crate::trace::{Trace, TraceError};

use compile::{Compiled, Scripts};
use picture::Heat;

/// How often an interrupt is looked for while nothing happens.
const BEAT: Duration = Duration::from_millis(50);

/// Why dtrace ends with status 1.
#[derive(Debug, thiserror::Error)]
pub enum DtraceError {
    /// A program is wrong.
    #[error(transparent)]
    Compile(#[from] Box<CompileError>),
    /// A program cannot be read, or not preprocessed.
    #[error("{0}")]
    Read(String),
    /// Nothing was asked for.
    #[error("no probes specified")]
    NothingToDo,
    /// The kernel does not take a program.
    #[error("failed to enable '{name}': {error}")]
    Enable {
        /// What dtrace calls the program.
        name: String,
        /// Why.
        error: TraceError,
    },
    /// The kernel does not begin.
    #[error("could not enable tracing: {0}")]
    Go(#[source] TraceError),
    /// What was to be traced has ended before.
    #[error("{0}")]
    Ended(String),
    /// A program would change something, and was not allowed to.
    #[error("could not enable tracing: Destructive actions not allowed")]
    Destructive,
    /// One of several kernels is what is wrong.
    #[error("{name}: {error}")]
    Host {
        /// What it is called.
        name: String,
        /// What is wrong.
        error: Box<DtraceError>,
    },
    /// Something was asked for that is done with one kernel only.
    #[error("-A, -a, and pictures are for one kernel: name one with --connect")]
    OneKernel,
    /// What was recorded cannot be shown.
    #[error("processing aborted: {0}")]
    Render(#[source] RenderError),
    /// The kernel failed, or what is between us.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// What goes on meanwhile failed.
    #[error(transparent)]
    Meanwhile(Box<dyn std::error::Error + Send + Sync>),
    /// A file cannot be written.
    #[error("failed to open output file '{}': {}", .file.display(), crate::cpp::reason(.error))]
    File {
        /// Which.
        file: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A picture cannot be drawn.
    #[error("{}: {error}", .file.display())]
    Picture {
        /// Its file.
        file: PathBuf,
        /// Why.
        error: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Standard output is closed, or cannot be written to.
    #[error("{0}")]
    Write(#[source] OutputError),
}

impl DtraceError {
    fn is_end_of_line(&self) -> bool {
        matches!(self, Self::Enable { error, .. } | Self::Go(error) if error.is_end_of_line())
    }
}

impl From<io::Error> for DtraceError {
    fn from(error: io::Error) -> Self {
        Self::Write(error.into())
    }
}

impl From<RenderError> for DtraceError {
    fn from(error: RenderError) -> Self {
        match error {
            RenderError::Write(error) => error.into(),
            error => Self::Render(error),
        }
    }
}

impl From<TraceError> for DtraceError {
    fn from(error: TraceError) -> Self {
        match error {
            TraceError::Client(error) => Self::Client(error),
            TraceError::Render(error) => error.into(),
            error => Self::Go(error),
        }
    }
}

/// Set from a signal handler: the run is to end in order.
#[derive(Debug, Default)]
pub struct Interrupt {
    raised: AtomicBool,
    /// Programs are being read and compiled.
    compiling: AtomicBool,
}

impl Interrupt {
    /// Nothing has happened yet.
    pub const fn new() -> Self {
        Self { raised: AtomicBool::new(false), compiling: AtomicBool::new(false) }
    }

    /// Ends the run. Callable from a signal handler. Says whether it has to be ended at once: this had been called before, or
    /// nothing has been begun that could be ended in order, and nobody looks.
    pub fn raise(&self) -> bool {
        self.raised.swap(true, Ordering::Relaxed) || self.compiling.load(Ordering::Relaxed)
    }

    /// Whether the run is to end.
    pub fn raised(&self) -> bool {
        self.raised.load(Ordering::Relaxed)
    }

    /// Does what nobody interrupts in order.
    fn while_compiling<R>(&self, f: impl FnOnce() -> R) -> R {
        self.compiling.store(true, Ordering::Relaxed);
        let done = f();
        self.compiling.store(false, Ordering::Relaxed);
        done
    }
}

/// What goes on while dtrace traces, and ends it: a command that is run, a log that is played.
pub trait Meanwhile {
    /// Goes on a little. `false` when it has come to its end: what has been recorded by then is printed, and that is all.
    ///
    /// # Errors
    /// Tracing ends with it.
    fn step(&mut self) -> Result<bool, Box<dyn std::error::Error + Send + Sync>>;

    /// How long dtrace may wait before the next step. If it is zero, what has been recorded is taken after each.
    fn pause(&self) -> Duration;

    /// What is to be said of its end, if anything.
    fn last_words(&self) -> Option<String> {
        None
    }

    /// What is to be said when what is traced has ended, for which dtrace has been waiting: then that is no failure.
    fn target_ended(&self) -> Option<String> {
        None
    }
}

/// A process that hosts its probes: dtrace traces until it is interrupted, or the process ends.
#[derive(Clone, Copy, Debug)]
pub struct UntilEnded(pub u32);

impl Meanwhile for UntilEnded {
    fn step(&mut self) -> Result<bool, Box<dyn std::error::Error + Send + Sync>> {
        Ok(true)
    }

    fn pause(&self) -> Duration {
        BEAT
    }

    fn target_ended(&self) -> Option<String> {
        Some(format!("pid {} has exited", self.0))
    }
}

/// Nothing, and all has happened already: what has been recorded is printed, and that is all.
#[derive(Clone, Copy, Debug, Default)]
pub struct Past;

impl Meanwhile for Past {
    fn step(&mut self) -> Result<bool, Box<dyn std::error::Error + Send + Sync>> {
        Ok(false)
    }

    fn pause(&self) -> Duration {
        Duration::ZERO
    }
}

/// Nothing: dtrace traces until it is interrupted.
#[derive(Clone, Copy, Debug, Default)]
pub struct UntilInterrupted;

impl Meanwhile for UntilInterrupted {
    fn step(&mut self) -> Result<bool, Box<dyn std::error::Error + Send + Sync>> {
        Ok(true)
    }

    fn pause(&self) -> Duration {
        BEAT
    }
}

impl Job {
    /// Whether there is something to do at all.
    ///
    /// # Errors
    /// [`DtraceError::NothingToDo`].
    pub fn check(&self) -> Result<(), DtraceError> {
        let nothing = self.programs.is_empty() && self.mode != Mode::List && !self.claim;
        if nothing { Err(DtraceError::NothingToDo) } else { Ok(()) }
    }
}

/// Runs dtrace: lists, or traces until a program or `meanwhile` ends, or the run is interrupted. Returns its exit status.
///
/// # Errors
/// Why it does not go on; to be said as `dtrace: ERROR`, exit status 1.
pub fn run(
    client: Client,
    job: &Job,
    interrupt: &Interrupt,
    meanwhile: &mut dyn Meanwhile,
    output: &mut dyn Output,
) -> Result<u8, DtraceError> {
    run_one(client, None, job, interrupt, meanwhile, output)
}

/// The same for a kernel that is called so.
fn run_one(
    client: Client,
    name: Option<&str>,
    job: &Job,
    interrupt: &Interrupt,
    meanwhile: &mut dyn Meanwhile,
    output: &mut dyn Output,
) -> Result<u8, DtraceError> {
    job.check()?;
    let mut options = job.options.clone();
    options.no_probes |= job.mode == Mode::List;
    client.budget().set_limit(job.memory);
    let mut trace = Trace::new(client, options, job.target);
    if let Some(name) = name {
        trace.set_host(name);
    }
    let programs =
        interrupt.while_compiling(|| compile::all(&mut trace, job, &mut Scripts::new(), output))?;
    match job.mode {
        Mode::List => list::list(trace, job, &programs, output)?,
        Mode::Compile => {
            for program in programs.iter().filter(|_| job.verbose) {
                output.line(
                    format::stability(program.kind, &program.name, &program.program).as_bytes(),
                )?;
                list::describe(&trace, &program.program, output)?;
            }
        }
        Mode::Anonymous => anonymous(&mut trace, job, &programs, output)?,
        Mode::Trace => return follow(trace, job, &programs, interrupt, meanwhile, output),
    }
    output.flush()?;
    Ok(0)
}

/// Where a kernel finds what it is to enable by itself, if nothing else is said.
const ANONYMOUS: &str = "dtrace.dof";

/// `-A`: programs for a kernel that has no consumer yet, in one DOF with their options.
fn anonymous(
    trace: &mut Trace,
    job: &Job,
    programs: &[Compiled],
    output: &mut dyn Output,
) -> Result<(), DtraceError> {
    let file = job.output.clone().unwrap_or_else(|| ANONYMOUS.into());
    let all = programs.iter().map(|compiled| &compiled.program);
    let image = trace.anonymous(all).map_err(DtraceError::Go)?;
    std::fs::write(&file, image)
        .map_err(|error| DtraceError::File { file: file.clone(), error })?;
    Ok(output.message(&format!("saved anonymous enabling in {}\n", file.display()))?)
}

/// Enables all programs; `said` is what there is to say of each.
fn enable(
    trace: &mut Trace,
    job: &Job,
    programs: &[Compiled],
    sink: &mut dyn Sink,
    said: &mut Vec<String>,
) -> Result<(), DtraceError> {
    let destructive = trace.options().get(OptionId::Destructive) != UNSET;
    for Compiled { kind, name, program } in programs {
        let error = |error| DtraceError::Enable { name: name.clone(), error };
        // dtrace(1) hears of that only when it begins.
        let refused = !destructive && is_destructive(program);
        let matched = match refused {
            false => trace.enable(program).map_err(error)?,
            true => list::count(trace, program)?,
        };
        said.push(format!("{}\n", format::matched(kind, name, matched)));
        if job.verbose {
            sink.print(&format!("{}\n", format::stability(kind, name, program)))?;
        }
        if refused {
            return Err(DtraceError::Destructive);
        }
    }
    sink.flush()?;
    Ok(())
}

/// Traces.
fn follow(
    mut trace: Trace,
    job: &Job,
    programs: &[Compiled],
    interrupt: &Interrupt,
    meanwhile: &mut dyn Meanwhile,
    output: &mut dyn Output,
) -> Result<u8, DtraceError> {
    let mut timeline = picture::timeline(job)?;
    let mut heat = Heat::new();
    let mut file = job.output.as_deref().map(append).transpose()?;
    let output: &mut dyn Output = match &mut file {
        Some(file) => file,
        None => output,
    };
    let (mut text, mut structured) = match job.markup {
        None => (Some(Text::new(output)), None),
        Some(markup) => (None, Some(Structured::new(output, markup))),
    };
    let mut sink = ((&mut text, &mut structured), &mut timeline);
    let sink: &mut dyn Sink = &mut sink;
    if job.claim {
        trace.claim().map_err(DtraceError::Go)?;
    }
    let is_set = |option| trace.options().get(option) != UNSET;
    let (quiet, destructive) = (is_set(OptionId::Quiet), is_set(OptionId::Destructive));
    let mut said = Vec::new();
    let enabled = enable(&mut trace, job, programs, sink, &mut said);
    let running = enabled.and_then(|()| trace.go().map_err(DtraceError::Go));
    // Who reads how many probes matched can rely on it that they are traced.
    for line in said.iter().filter(|_| !quiet) {
        sink.message(line)?;
    }
    let mut running = running.map_err(|error| match meanwhile.target_ended() {
        Some(words) if error.is_end_of_line() => DtraceError::Ended(words),
        _ => error,
    })?;
    if destructive && !quiet {
        sink.message("allowing destructive actions\n")?;
    }
    running.look(job.look());
    let mut over = false;
    let mut interrupted = false;
    let mut failure = None;
    while !over {
        let goes_on = meanwhile.step().map_err(DtraceError::Meanwhile)?;
        let pause = running.pause().min(meanwhile.pause());
        wait(pause, interrupt);
        if interrupt.raised() && !std::mem::replace(&mut interrupted, true) {
            sink.print("\n")?;
        }
        if let Some(words) = meanwhile.last_words().filter(|_| !goes_on && !quiet) {
            sink.message(&format!("{words}\n"))?;
        }
        let ends = !goes_on || interrupted;
        let stopped = if ends { running.stop() } else { Ok(()) };
        let at_once = meanwhile.pause().is_zero();
        let worked = stopped.and_then(|()| running.work_now(sink, at_once));
        let target = meanwhile.target_ended().filter(|_| !interrupted);
        over = match (worked, target) {
            // Nobody is there any more who could tell the rest.
            (Err(error), Some(words)) if error.is_end_of_line() => {
                target_ended(&words, quiet, sink)?;
                running.forsake();
                true
            }
            // No program has asked for it.
            (Ok(true), Some(words)) if running.was_ended() => {
                target_ended(&words, quiet, sink)?;
                true
            }
            // What has been taken by then is shown before that is said.
            (Err(TraceError::Client(error)), _) => {
                failure = Some(error);
                running.forsake();
                true
            }
            (worked, _) => worked?,
        };
        heat.sample(&running);
    }
    // What was traced is shown, whether it can be drawn or not.
    let drawn = picture::draw(job, &running, &heat);
    let status = running.finish(sink)?;
    if let Some(error) = failure {
        return Err(error.into());
    }
    drawn?;
    // As wait(2) has it.
    Ok(status.unwrap_or(0) as u8)
}

/// As dtrace(1) says it of a process that it has been tracing.
fn target_ended(words: &str, quiet: bool, sink: &mut dyn Sink) -> Result<(), DtraceError> {
    if !quiet {
        sink.message(&format!("{words}\n"))?;
    }
    Ok(())
}

/// Whether a program changes something (`-w`).
fn is_destructive(program: &Program) -> bool {
    program.ecbs.iter().flat_map(|ecb| &ecb.actions).any(|act| {
        act.kind.is_destructive() || act.difo.as_ref().is_some_and(|difo| difo.destructive)
    })
}

/// The file of `-o`, to which all is added.
fn append(file: &Path) -> Result<Streams, DtraceError> {
    let opened = OpenOptions::new().append(true).create(true).open(file);
    let opened = opened.map_err(|error| DtraceError::File { file: file.into(), error })?;
    Ok(Streams::new(opened, "dtrace"))
}

/// Waits, unless it is interrupted.
fn wait(mut pause: Duration, interrupt: &Interrupt) {
    while !interrupt.raised() && !pause.is_zero() {
        let part = pause.min(BEAT);
        std::thread::sleep(part);
        pause -= part;
    }
}
