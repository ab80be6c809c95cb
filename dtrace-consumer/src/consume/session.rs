//! A session: the programs of one run, enabled in all kernels, from the first record to the last.

use std::fs::OpenOptions;
use std::path::Path;

use dtrace_abi::option::OptionId;
use dtrace_compiler::options::OutputFormat;
use dtrace_compiler::program::Program;

use super::compile::Compiled;
use super::error::DtraceError;
use super::interrupt::Interrupt;
use super::workload::Workload;
use super::{list, picture};
use crate::client::ClientError;
use crate::format;
use crate::hosts::{Hosts, answer_limit};
use crate::job::Job;
use crate::render::{Markup, Output, Sink, Streams, Structured, Text};
use crate::trace::{Running, Trace, TraceError};

/// A kernel with the programs that are compiled for it.
pub(super) struct Prepared {
    /// The kernel's name in errors, if there are several kernels.
    pub name: Option<String>,
    pub trace: Trace,
    pub programs: Vec<Compiled>,
}

/// The result of a step of a session.
enum Step {
    /// The run continues.
    Continue,
    /// The run is over, and all records are read.
    Ended,
    /// The connection to the last kernel is lost. The data that were read before still have to be shown.
    Lost(ClientError),
}

/// Traces until a program, the workload or the user ends the run. Returns dtrace's exit status.
pub(super) fn run(
    kernels: Vec<Prepared>,
    job: &Job,
    interrupt: &Interrupt,
    workload: &mut dyn Workload,
    output: &mut dyn Output,
) -> Result<u8, DtraceError> {
    let mut file = job.output.as_deref().map(append).transpose()?;
    let output: &mut dyn Output = match &mut file {
        Some(file) => file,
        None => output,
    };
    Session::start(kernels, job, interrupt, workload, output)?.run()
}

/// A run that traces: the kernels, the sinks of their records, and what can end the run.
struct Session<'a> {
    hosts: Hosts,
    sinks: Vec<Box<dyn Sink + 'a>>,
    workload: &'a mut dyn Workload,
    interrupt: &'a Interrupt,
    /// Whether the user has interrupted the run.
    interrupted: bool,
    /// Whether only the program's own output is printed.
    quiet: bool,
}

impl<'a> Session<'a> {
    /// Enables all programs in all kernels and starts tracing.
    fn start(
        kernels: Vec<Prepared>,
        job: &Job,
        interrupt: &'a Interrupt,
        workload: &'a mut dyn Workload,
        output: &'a mut dyn Output,
    ) -> Result<Self, DtraceError> {
        let is_set = |id| kernels.iter().any(|kernel| kernel.trace.options().is_set(id));
        let (quiet, destructive) = (is_set(OptionId::Quiet), is_set(OptionId::Destructive));
        let format = kernels.first().map(|kernel| kernel.trace.options().output_format);
        let mut sinks: Vec<Box<dyn Sink + 'a>> = vec![match format.unwrap_or_default() {
            OutputFormat::Text => Box::new(Text::new(output)),
            OutputFormat::Json => Box::new(Structured::new(output, Markup::Json)),
            OutputFormat::Xml => Box::new(Structured::new(output, Markup::Xml)),
        }];
        for picture in picture::sinks(job)? {
            sinks.push(picture);
        }
        let mut matched = Matched::default();
        let several = kernels.len() > 1;
        let started = start_all(kernels, job, &mut sinks, &mut matched);
        // The messages follow the start, so a script that waits for them can rely on it that tracing has begun. If the only
        // kernel fails to start, the messages precede the error.
        if !quiet && (started.is_ok() || !several) {
            for (kind, name, probes) in &matched.0 {
                sinks.message(&format!("{}\n", format::matched(kind, name, *probes)))?;
            }
        }
        let running = started.map_err(|error| match workload.exit_message() {
            Some(message) if error.is_end_of_line() => DtraceError::Exited(message),
            _ => error,
        })?;
        for running in &running {
            for lowered in running.lowered()? {
                let name = running.host().map(|name| format!("{name}: ")).unwrap_or_default();
                sinks.message(&format!("{name}{lowered}\n"))?;
            }
        }
        if destructive && !quiet {
            sinks.message("allowing destructive actions\n")?;
        }
        let mut hosts = Hosts::new(running);
        hosts.set_look(job.look());
        Ok(Self { hosts, sinks, workload, interrupt, interrupted: false, quiet })
    }

    /// Traces to the end, and shows the rest. Returns dtrace's exit status.
    fn run(mut self) -> Result<u8, DtraceError> {
        let lost = loop {
            match self.step()? {
                Step::Continue => {}
                Step::Ended => break None,
                Step::Lost(error) => break Some(error),
            }
        };
        if lost.is_some() {
            self.hosts.abandon();
        }
        let status = self.hosts.finish(&mut self.sinks)?;
        match lost {
            Some(error) => Err(DtraceError::from(error).after_enabling()),
            // The low 8 bits, as in wait(2).
            None => Ok(status.unwrap_or(0) as u8),
        }
    }

    /// Runs a part of the workload, waits, and shows the records that are due.
    fn step(&mut self) -> Result<Step, DtraceError> {
        let continues = self.workload.step().map_err(DtraceError::Workload)?;
        let pause = self.workload.pause();
        self.interrupt.wait(self.hosts.pause().min(pause));
        self.report_ends(continues)?;
        let ends = !continues || self.interrupted;
        let stopped = if ends { self.hosts.stop(&mut self.sinks) } else { Ok(()) };
        let worked = stopped.and_then(|()| self.hosts.work_now(&mut self.sinks, pause.is_zero()));
        self.report_missing()?;
        match (worked, self.workload.exit_message().filter(|_| !self.interrupted)) {
            (Err(error), Some(message)) if error.is_end_of_line() => {
                self.message(&message)?;
                self.hosts.abandon();
                Ok(Step::Ended)
            }
            // The kernel ended the run without an `exit` of a program.
            (Ok(true), Some(message)) if self.hosts.was_ended() => {
                self.message(&message)?;
                Ok(Step::Ended)
            }
            (Ok(over), _) => Ok(if over { Step::Ended } else { Step::Continue }),
            (Err(TraceError::Client(error)), _) => Ok(Step::Lost(error)),
            (Err(error), _) => Err(error.into()),
        }
    }

    /// Prints that the user or the workload ends the run.
    fn report_ends(&mut self, continues: bool) -> Result<(), DtraceError> {
        if self.interrupt.raised() && !std::mem::replace(&mut self.interrupted, true) {
            self.sinks.print("\n")?;
        }
        match self.workload.end_message() {
            Some(message) if !continues => self.message(&message),
            _ => Ok(()),
        }
    }

    /// Prints why functions have no names, and why stacks are short, once for each kernel.
    fn report_missing(&mut self) -> Result<(), DtraceError> {
        for message in self.hosts.process_messages() {
            self.sinks.message(&format!("{message}\n"))?;
        }
        Ok(())
    }

    /// Prints a message that `-q` suppresses.
    fn message(&mut self, message: &str) -> Result<(), DtraceError> {
        if !self.quiet {
            self.sinks.message(&format!("{message}\n"))?;
        }
        Ok(())
    }
}

/// The number of probes that each program has matched in all kernels, with its kind and name.
#[derive(Default)]
struct Matched(Vec<(&'static str, String, u32)>);

impl Matched {
    fn add(&mut self, index: usize, program: &Compiled, probes: u32) {
        match self.0.get_mut(index) {
            Some((.., sum)) => *sum = sum.saturating_add(probes),
            None => self.0.push((program.kind, program.name.clone(), probes)),
        }
    }
}

/// Enables all programs in all kernels, and starts each kernel.
fn start_all(
    kernels: Vec<Prepared>,
    job: &Job,
    sink: &mut dyn Sink,
    matched: &mut Matched,
) -> Result<Vec<Running>, DtraceError> {
    let limit = answer_limit(kernels.len());
    let several = kernels.len() > 1;
    let mut running = Vec::with_capacity(kernels.len());
    for mut kernel in kernels {
        let name = kernel.name.take();
        let named = |error: DtraceError| error.of(name.as_deref());
        if several {
            // The kernels that were started before trace already, and close a session without requests. So this kernel must
            // answer in time.
            kernel.trace.kernel().limit_answers(limit);
        }
        if job.claim {
            kernel.trace.claim().map_err(|error| named(DtraceError::Go(error)))?;
        }
        let enabled = enable(&mut kernel, job, sink, matched);
        enabled.map_err(|error| named(error.after_enabling()))?;
        let no_probes = kernel.trace.options().no_probes;
        if !job.claim && !no_probes && matched.0.iter().all(|(.., probes)| *probes == 0) {
            return Err(DtraceError::NoMatch);
        }
        let started = kernel.trace.go();
        running.push(started.map_err(|error| named(DtraceError::Go(error).after_enabling()))?);
    }
    Ok(running)
}

/// Enables the programs of a kernel, and adds the numbers of matched probes.
fn enable(
    kernel: &mut Prepared,
    job: &Job,
    sink: &mut dyn Sink,
    matched: &mut Matched,
) -> Result<(), DtraceError> {
    let Prepared { trace, programs, .. } = kernel;
    let permitted = trace.options().is_set(OptionId::Destructive);
    for (index, compiled) in programs.iter().enumerate() {
        let Compiled { kind, name, program } = compiled;
        // dtrace(1) reports the number of probes before it refuses.
        let refused = !permitted && is_destructive(program);
        let probes = match refused {
            false => trace
                .enable(program)
                .map_err(|error| DtraceError::Enable { name: name.clone(), error })?,
            true => list::count(trace, program)?,
        };
        matched.add(index, compiled, probes);
        if job.verbose {
            sink.print(&format!("{}\n", format::stability(kind, name, program)))?;
        }
        if refused {
            return Err(DtraceError::Destructive);
        }
    }
    Ok(sink.flush()?)
}

/// Returns whether a program has a destructive action or subroutine (`-w`).
fn is_destructive(program: &Program) -> bool {
    program.ecbs.iter().flat_map(|ecb| &ecb.actions).any(|act| {
        act.kind.is_destructive() || act.difo.as_ref().is_some_and(|difo| difo.destructive)
    })
}

/// Opens the file of `-o` to append to it.
fn append(file: &Path) -> Result<Streams, DtraceError> {
    let opened = OpenOptions::new().append(true).create(true).open(file);
    let opened = opened.map_err(|error| DtraceError::File { file: file.into(), error })?;
    Ok(Streams::new(opened, "dtrace"))
}
