//! A run of dtrace: from the options to the last line.

use std::collections::HashMap;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::clause::{Clause, ClauseError, Description};
use crate::client::{Client, ClientError, Probe, Records};
use crate::format;
use crate::output::OutputError;

/// How often an interrupt is looked for while nothing happens.
const BEAT: Duration = Duration::from_millis(50);

/// What to do.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// List probes instead of enabling them (`-l`).
    pub list: bool,
    /// With `list`: stability attributes and argument types, too (`-v`).
    pub verbose: bool,
    /// With `list`: where each probe fires.
    pub sites: bool,
    /// Print only what is traced explicitly (`-q`).
    pub quiet: bool,
    /// Descriptions may match no probes (`-Z`).
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
    /// The kernel failed, or what is between us.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// What goes on meanwhile failed.
    #[error(transparent)]
    Meanwhile(Box<dyn std::error::Error + Send + Sync>),
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

    /// Whether the run is to end.
    pub fn raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What goes on while dtrace traces, and ends it: a command that is run, a log that is played.
pub trait Meanwhile {
    /// Goes on a little. `false` when it has come to its end: what has been recorded by then is printed, and that is all.
    ///
    /// # Errors
    /// Tracing ends with it.
    fn step(&mut self) -> Result<bool, Box<dyn std::error::Error + Send + Sync>>;

    /// How long dtrace waits for records before the next step, if there are none.
    fn pause(&self) -> Duration;
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
    pub fn say(&mut self, text: &str) {
        let _ = writeln!(self.err, "dtrace: {text}");
    }
}

impl Options {
    /// Whether there is something to do at all.
    ///
    /// # Errors
    /// [`DtraceError::NothingToDo`].
    pub fn check(&self) -> Result<(), DtraceError> {
        if self.clauses.is_empty() && !self.list { Err(DtraceError::NothingToDo) } else { Ok(()) }
    }
}

/// Runs dtrace: lists, or traces until `meanwhile` ends or the run is interrupted.
///
/// # Errors
/// Why it does not go on; to be said as `dtrace: ERROR`, exit status 1.
pub fn run<O: Write, E: Write>(
    client: &mut Client,
    options: &Options,
    interrupt: &Interrupt,
    meanwhile: &mut dyn Meanwhile,
    output: &mut Output<O, E>,
) -> Result<(), DtraceError> {
    options.check()?;
    if options.list {
        list(client, options, output)
    } else {
        trace(client, options, interrupt, meanwhile, output)
    }
}

fn list<O: Write, E: Write>(
    client: &mut Client,
    options: &Options,
    output: &mut Output<O, E>,
) -> Result<(), DtraceError> {
    output.print(&format::list_header())?;
    let any = [Description::any()];
    let descriptions = options.clauses.iter().flat_map(|clause| &clause.descriptions);
    let descriptions: Vec<_> =
        if options.clauses.is_empty() { any.iter().collect() } else { descriptions.collect() };
    for description in descriptions {
        let probes = client.list(&description.to_string())?;
        if probes.is_empty() {
            // An error to dtrace's user, not to its exit status (`list_stmt` in dtrace.c).
            output.say(&format!("failed to match {description}: No probe matches description"));
        }
        for probe in &probes {
            output.print(&format::listed(probe))?;
            if options.verbose {
                output.print(&format::detail(&client.describe(probe.id)?))?;
            }
            if options.sites {
                output.print(&format::sites(&client.sites(probe.id)?))?;
            }
        }
    }
    Ok(client.close()?)
}

fn trace<O: Write, E: Write>(
    client: &mut Client,
    options: &Options,
    interrupt: &Interrupt,
    meanwhile: &mut dyn Meanwhile,
    output: &mut Output<O, E>,
) -> Result<(), DtraceError> {
    // As dtrace does: all clauses have to hold before the first one is enabled.
    let mut names = HashMap::new();
    for clause in &options.clauses {
        for description in &clause.descriptions {
            let probes = client.list(&description.to_string())?;
            if probes.is_empty() && !options.allow_none {
                return Err(clause.no_match(description).into());
            }
            let shown = |probe: &Probe| (probe.id, format::function_and_name(probe));
            names.extend(probes.iter().map(shown));
        }
    }
    client.open()?;
    for clause in &options.clauses {
        let mut matched = 0;
        for description in &clause.descriptions {
            matched += client.enable(&description.to_string())?;
        }
        if !options.quiet {
            output.say(&format::matched(&clause.text, matched));
        }
    }
    client.go()?;
    let mut printer = Printer { names, quiet: options.quiet, heading: false, failed: None };
    let ends = |printer: &Printer| interrupt.raised() || printer.failed.is_some();
    while !ends(&printer) && meanwhile.step().map_err(DtraceError::Meanwhile)? {
        let mut pause = meanwhile.pause();
        while let Some(records) = client.read(pause)? {
            printer.records(&records, output);
            if ends(&printer) {
                break;
            }
            pause = Duration::ZERO;
        }
    }
    if interrupt.raised() {
        printer.print("\n", output);
    }
    client.stop()?;
    while let Some(records) = client.read(Duration::ZERO)? {
        printer.records(&records, output);
    }
    printer.print("\n", output);
    client.close()?;
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
    fn records<O: Write, E: Write>(&mut self, records: &Records, output: &mut Output<O, E>) {
        let cpu = records.cpu;
        let mut text = String::new();
        for record in records.records.iter().filter(|_| !self.quiet) {
            if !self.heading {
                text.push_str(format::HIT_HEADER);
                self.heading = true;
            }
            let name = self.names.get(&record.probe).map_or("", String::as_str);
            text.push_str(&format::hit(cpu, record.probe, name));
        }
        self.print(&text, output);
        if records.drops != 0 {
            output.say(&format::drops(cpu, records.drops));
        }
        if records.damaged != 0 {
            output.say(&format::damaged(records.damaged));
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
    use dtrace_protocol::Record;

    fn hits(cpu: u32, probes: &[u32]) -> Records {
        let record = |&probe| Record { probe, timestamp: 0, args: [0; 10] };
        Records { cpu, records: probes.iter().map(record).collect(), ..Records::default() }
    }

    fn printed(quiet: bool, all: Vec<Records>) -> (String, String) {
        let mut output = Output { out: Vec::new(), err: Vec::new() };
        let names = HashMap::from([(14, "none:exec-success".to_owned())]);
        let mut printer = Printer { names, quiet, heading: false, failed: None };
        for records in all {
            printer.records(&records, &mut output);
        }
        assert!(printer.failed.is_none());
        (String::from_utf8(output.out).unwrap(), String::from_utf8(output.err).unwrap())
    }

    #[test]
    fn hits_are_printed_under_one_heading() {
        let drops = Records { cpu: 1, drops: 2, ..Records::default() };
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
        let drops = Records { cpu: 1, drops: 1, ..Records::default() };
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
        printer.records(&hits(0, &[1]), &mut output);
        assert!(matches!(printer.failed, Some(DtraceError::Write(OutputError::Closed))));
    }

    #[test]
    fn nothing_to_do_is_an_error() {
        let error = Options::default().check().unwrap_err();
        assert_eq!(error.to_string(), "no probes specified");
    }
}
