//! A run of dtrace: from the options to the last line.

use std::collections::HashMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use sdt_protocol::{Event, Exec, Probe};

use super::clause::{Clause, ClauseError, Description};
use super::format;
use cargo_sdt::arch::Arch;
use cargo_sdt::check::Kin;
use cargo_sdt::module::{BuildError, Module, Patch};
use cargo_sdt::output::OutputError;
use cargo_sdt::platform::{FreeBsd, Os, Route};
use harness::session::{Session, SessionError};
use harness::shell::Command;
use harness::workload::{self, WorkloadError};
use harness::workspace::{self, default_workload};

/// So many executions are asked for at a time: few enough that hits are seen as they happen and an
/// interrupt is heeded at once.
const BATCH: usize = 16;

/// What to do.
#[derive(Clone, Debug)]
pub struct Options {
    /// Architecture of the kernel.
    pub arch: Arch,
    /// Its CPUs.
    pub cpus: u32,
    /// Its operating system.
    pub os: Os,
    /// Its release, of FreeBSD.
    pub freebsd: FreeBsd,
    /// How it comes to know the probes of the example.
    pub route: Route,
    /// What enabled sites of the example do, with a provider of its own.
    pub patch: Option<Patch>,
    /// Modules to load; none: the example.
    pub modules: Vec<PathBuf>,
    /// The exec log to play; none: the recorded one.
    pub workload: Option<PathBuf>,
    /// What is run instead of playing a log.
    pub command: Option<Command>,
    /// Show the kernel's console on standard error.
    pub console: bool,
    /// List probes instead of enabling them (`-l`).
    pub list: bool,
    /// With [`list`](Self::list): stability and argument types, too (`-v`).
    pub verbose: bool,
    /// With [`list`](Self::list): every site of a probe, too.
    pub sites: bool,
    /// Print only what was asked for (`-q`).
    pub quiet: bool,
    /// A clause may match nothing (`-Z`).
    pub allow_none: bool,
    /// What to list or enable.
    pub clauses: Vec<Clause>,
}

/// Why dtrace ends with status 1.
#[derive(Debug, thiserror::Error)]
pub enum DtraceError {
    /// A clause means no probe.
    #[error(transparent)]
    Clause(#[from] ClauseError),
    /// Nothing was asked for.
    #[error("no probes specified")]
    NothingToDo,
    /// The module could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The log cannot be played.
    #[error("failed to read the workload: {0}")]
    Workload(#[from] WorkloadError),
    /// The kernel refused a module.
    #[error("failed to load {}: {error}{}", .module.display(), .advice.as_ref().map(|of| format!("; {of}")).unwrap_or_default())]
    Load {
        /// The module.
        module: PathBuf,
        /// Why.
        error: Box<SessionError>,
        /// What that means, if it is known.
        advice: Option<String>,
    },
    /// The kernel failed.
    #[error("{0}")]
    Kernel(#[from] SessionError),
    /// Standard output is closed, or cannot be written to.
    #[error("{0}")]
    Write(#[source] OutputError),
}

/// Set from a signal handler: the run is to end in order.
#[derive(Debug, Default)]
pub struct Interrupt(AtomicBool);

impl Interrupt {
    /// Nothing has happened yet.
    pub const fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Ends the run. Callable from a signal handler. Says whether it had been called before.
    pub fn raise(&self) -> bool {
        self.0.swap(true, Ordering::Relaxed)
    }

    fn raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Where dtrace's texts go.
#[derive(Debug)]
pub struct Output<O, E> {
    /// Standard output.
    pub out: O,
    /// Standard error.
    pub err: E,
}

impl<O: Write, E: Write> Output<O, E> {
    fn print(&mut self, text: &str) -> Result<(), DtraceError> {
        let written = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
        written.map_err(|error| DtraceError::Write(error.into()))
    }

    /// A message, as dtrace prefixes it. Nowhere to say it is no reason to stop.
    fn say(&mut self, text: &str) {
        let _ = writeln!(self.err, "dtrace: {text}");
    }
}

/// Runs dtrace.
///
/// # Errors
/// Why it does not go on; to be said as `dtrace: ERROR`, exit status 1.
pub fn run<O: Write, E: Write>(
    options: &Options,
    interrupt: &Interrupt,
    output: &mut Output<O, E>,
) -> Result<(), DtraceError> {
    if options.clauses.is_empty() && !options.list {
        return Err(DtraceError::NothingToDo);
    }
    // What can be wrong without a kernel is found before one is built.
    let execs = if options.list || options.command.is_some() {
        Vec::new()
    } else {
        workload::read(options.workload.as_deref().unwrap_or(&default_workload()))?
    };
    let modules = if options.modules.is_empty() {
        let example = Module {
            os: options.os,
            freebsd: options.freebsd,
            route: options.route,
            patch: options.patch,
            ..workspace::example(options.arch)
        };
        // A companion needs its module, which is loaded before and unloaded after it.
        let companion = example.companion();
        let both = std::iter::once(example).chain(companion);
        both.map(|module| module.build(None)).collect::<Result<_, _>>()?
    } else {
        options.modules.clone()
    };
    let mut session = Session::boot(options.arch, options.cpus, options.console)?;
    match options.os {
        Os::FreeBsd => session.freebsd(options.freebsd.kernel_version() as i32)?,
        Os::Illumos => session.illumos()?,
    }
    let mut loaded = Vec::new();
    let mut kin = Vec::new();
    for module in modules {
        // A file that cannot be read is the session's to speak of.
        let of = Kin::of(&std::fs::read(&module).unwrap_or_default());
        match session.kldload_file(&module) {
            Ok(name) => loaded.push(name),
            Err(error) => {
                let advice = of.refused(options.os, &loaded);
                return Err(DtraceError::Load { module, error: Box::new(error), advice });
            }
        }
        kin.push(of);
    }
    for (name, kin) in loaded.iter().zip(&kin) {
        if let Some(advice) = kin.silent(&loaded) {
            output.say(&format!("warning: {name} has no probes: {advice}"));
        }
    }
    if options.list {
        list(&mut session, options, output)?;
    } else {
        trace(&mut session, options, &execs, interrupt, output)?;
    }
    for name in loaded.iter().rev() {
        session.kldunload(name)?;
    }
    session.power_off()?;
    Ok(())
}

fn list<O: Write, E: Write>(
    session: &mut Session,
    options: &Options,
    output: &mut Output<O, E>,
) -> Result<(), DtraceError> {
    output.print(&format::list_header())?;
    let any = [Description::any()];
    let descriptions = options.clauses.iter().flat_map(|clause| &clause.descriptions);
    let descriptions: Vec<_> =
        if options.clauses.is_empty() { any.iter().collect() } else { descriptions.collect() };
    for description in descriptions {
        let probes = session.list(description.spec())?;
        if probes.is_empty() {
            // An error to dtrace's user, not to its exit status (`list_stmt` in dtrace.c).
            output.say(&format!("failed to match {description}: No probe matches description"));
        }
        for probe in &probes {
            output.print(&format::listed(probe))?;
            if options.verbose {
                output.print(&format::detail(&session.describe(probe.id)?))?;
            }
            if options.sites {
                output.print(&format::sites(&session.sites(probe.id)?))?;
            }
        }
    }
    Ok(())
}

fn trace<O: Write, E: Write>(
    session: &mut Session,
    options: &Options,
    execs: &[Exec],
    interrupt: &Interrupt,
    output: &mut Output<O, E>,
) -> Result<(), DtraceError> {
    // As dtrace does: all clauses have to hold before the first one is enabled.
    let mut names = HashMap::new();
    for clause in &options.clauses {
        for description in &clause.descriptions {
            let probes = session.list(description.spec())?;
            if probes.is_empty() && !options.allow_none {
                return Err(clause.no_match(description).into());
            }
            let shown = |probe: &Probe| (probe.id, format::function_and_name(probe));
            names.extend(probes.iter().map(shown));
        }
    }
    let consumer = session.open()?;
    for clause in &options.clauses {
        let mut matched = 0;
        for description in &clause.descriptions {
            matched += session.enable(consumer, description.spec())?;
        }
        if !options.quiet {
            output.say(&format::matched(&clause.text, matched));
        }
    }
    session.go(consumer)?;
    if let Some(command) = &options.command {
        command.run(session)?;
    }
    let mut printer = Printer { names, quiet: options.quiet, heading: false, failed: None };
    for batch in execs.chunks(BATCH) {
        session.exec_with(batch, |event| printer.event(event, output))?;
        if interrupt.raised() || printer.failed.is_some() {
            break;
        }
    }
    if interrupt.raised() {
        printer.print("\n", output);
    }
    session.stop(consumer)?;
    while let Some(event) = session.wire.events.pop_front() {
        printer.event(event, output);
    }
    printer.print("\n", output);
    for description in options.clauses.iter().flat_map(|clause| &clause.descriptions) {
        session.disable(consumer, description.spec())?;
    }
    session.close(consumer)?;
    printer.failed.map_or(Ok(()), Err)
}

/// Prints hits and drops as they come.
struct Printer {
    /// What is shown of a probe, by id.
    names: HashMap<u32, String>,
    quiet: bool,
    heading: bool,
    /// Printing failed; nothing more is printed.
    failed: Option<DtraceError>,
}

impl Printer {
    fn event<O: Write, E: Write>(&mut self, event: Event, output: &mut Output<O, E>) {
        match event {
            Event::Records { cpu, records, .. } if !self.quiet => {
                let mut text = String::new();
                for record in records {
                    if !self.heading {
                        text.push_str(format::HIT_HEADER);
                        self.heading = true;
                    }
                    let name = self.names.get(&record.probe).map_or("", String::as_str);
                    text.push_str(&format::hit(cpu, record.probe, name));
                }
                self.print(&text, output);
            }
            Event::Drops { cpu, count, .. } => output.say(&format::drops(cpu, count)),
            // Quiet records; the rest is seen to by the line.
            Event::Records { .. }
            | Event::Console { .. }
            | Event::Reply { .. }
            | Event::Progress { .. }
            | Event::BadFrame { .. }
            | Event::Panic { .. } => {}
        }
    }

    fn print<O: Write, E: Write>(&mut self, text: &str, output: &mut Output<O, E>) {
        if self.failed.is_none() {
            self.failed = output.print(text).err();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sdt_protocol::Record;

    fn hits(cpu: u32, probes: &[u32]) -> Event {
        let record = |&probe| Record { probe, timestamp: 0, args: [0; 10] };
        Event::Records { consumer: 1, cpu, records: probes.iter().map(record).collect() }
    }

    fn printed(quiet: bool, events: Vec<Event>) -> (String, String) {
        let mut output = Output { out: Vec::new(), err: Vec::new() };
        let names = HashMap::from([(14, "none:exec-success".to_owned())]);
        let mut printer = Printer { names, quiet, heading: false, failed: None };
        for event in events {
            printer.event(event, &mut output);
        }
        assert!(printer.failed.is_none());
        (String::from_utf8(output.out).unwrap(), String::from_utf8(output.err).unwrap())
    }

    #[test]
    fn hits_are_printed_under_one_heading() {
        let drops = Event::Drops { consumer: 1, cpu: 1, count: 2 };
        let (out, err) = printed(false, vec![hits(1, &[14]), drops, hits(0, &[14, 14])]);
        assert_eq!(
            out,
            "CPU     ID                    FUNCTION:NAME\n\
             \x20 1     14                none:exec-success \n\
             \x20 0     14                none:exec-success \n\
             \x20 0     14                none:exec-success \n"
        );
        assert_eq!(err, "dtrace: 2 drops on CPU 1\n");
    }

    #[test]
    fn quiet_runs_print_no_hits_but_drops() {
        let drops = Event::Drops { consumer: 1, cpu: 1, count: 1 };
        let (out, err) = printed(true, vec![hits(1, &[14]), drops]);
        assert_eq!((&*out, &*err), ("", "dtrace: 1 drop on CPU 1\n"));
    }

    #[test]
    fn a_closed_output_ends_the_printing() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(std::io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let mut output = Output { out: Closed, err: Vec::new() };
        let mut printer =
            Printer { names: HashMap::new(), quiet: false, heading: false, failed: None };
        printer.event(hits(0, &[1]), &mut output);
        assert!(matches!(printer.failed, Some(DtraceError::Write(OutputError::Closed))));
    }

    #[test]
    fn nothing_to_do_is_an_error() {
        let options = Options {
            arch: Arch::X86_64,
            cpus: 2,
            os: Os::default(),
            freebsd: FreeBsd::default(),
            route: Route::default(),
            patch: None,
            modules: Vec::new(),
            workload: None,
            command: None,
            console: false,
            list: false,
            verbose: false,
            sites: false,
            quiet: false,
            allow_none: false,
            clauses: Vec::new(),
        };
        let mut output = Output { out: Vec::new(), err: Vec::new() };
        let error = run(&options, &Interrupt::new(), &mut output).unwrap_err();
        assert_eq!(error.to_string(), "no probes specified");
    }
}
