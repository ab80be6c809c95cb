//! A command line and a printer for a kernel's own console: tracing without another machine.
//!
//! A kernel's shell, or its serial line, passes typed lines to [`Console::command`], and calls [`Console::print`] from time to
//! time:
//!
//! | | |
//! |---|---|
//! | `-l` | lists all probes, as `dtrace -l` does |
//! | `-l -n SPEC` | lists matching probes; any number of `-P`, `-m`, `-f` and `-n`, as with `dtrace` |
//! | `-n SPEC` | also enables matching probes; from here on hits are printed |
//! | `stop` | prints the remaining records, and disables all probes of the console |
//!
//! A hit is printed in the format of dtrace(1): CPU, probe number, function and name. Its arguments follow, formatted
//! by their types.
//!
//! # Printing that fires probes
//!
//! All code that prints may contain probes: the console's driver, the allocator that a [`Write`] uses, any other code. Buffers
//! are switched before the first record is printed, and no lock is held meanwhile. Each call of `print` switches once for each
//! CPU, so it ends even if every line that it prints fires a probe that is enabled; the next call prints these hits. Records that
//! do not fit the buffers are dropped, counted and reported.
//!
//! All functions take the framework's locks: in probe context they return an error, and interrupt handlers and panics
//! must not call them.

mod error;
mod row;

use core::fmt::{self, Write};

pub use error::ConsoleError;

use dtrace_abi::spec::{Field, Spec};

use crate::base::rights::Rights;
use crate::control::arguments::{Record, records};
use crate::control::query::Which;
use crate::control::tracer::Tracer;
use crate::run::consumer::ConsumerId;

/// The consumer of a kernel's console. It reads `BUFFER` bytes at a time.
pub struct Console<'d, const BUFFER: usize = 2048> {
    tracer: &'d dyn Tracer,
    consumer: Option<ConsumerId>,
    /// The number of records and drops at the last read of the buffers.
    recorded: u64,
    bytes: [u8; BUFFER],
}

impl<const BUFFER: usize> fmt::Debug for Console<'_, BUFFER> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Console").field("consumer", &self.consumer).finish_non_exhaustive()
    }
}

/// A parsed command.
enum Command {
    List,
    Enable,
    Stop,
}

impl<'d, const BUFFER: usize> Console<'d, BUFFER> {
    /// The largest number of bytes of complete records that fit into the buffer.
    const WHOLE: usize = BUFFER - BUFFER % Record::SIZE;

    /// Creates a console that has enabled no probes. A [`Dtrace`](crate::Dtrace) is a `Tracer`.
    pub const fn new(tracer: &'d dyn Tracer) -> Self {
        const { assert!(BUFFER >= Record::SIZE, "a console reads at least one record at a time") };
        Self { tracer, consumer: None, recorded: 0, bytes: [0; BUFFER] }
    }

    /// Executes a command. Called by a thread with interrupts on.
    ///
    /// # Errors
    /// See [`ConsoleError`]; a console prints it after `dtrace: `. If the framework has
    /// [refused](ConsoleError::Refused) to enable one of several descriptions, those before it are enabled until
    /// `stop`; otherwise nothing has changed.
    pub fn command(&mut self, line: &str, out: &mut impl Write) -> Result<(), ConsoleError> {
        // Checks the whole line before the first part of it is executed.
        let command = self.check(line)?;
        match command {
            Command::Stop => return self.stop(out),
            Command::List => {
                out.write_str(row::LIST)?;
                if specs(line).next().is_none() {
                    self.list(&Spec::ALL, out)?;
                }
            }
            Command::Enable => {}
        }
        for spec in specs(line) {
            let (text, spec) = spec?;
            match command {
                Command::Enable => {
                    let matched = self.enable(&spec)?;
                    let plural = if matched == 1 { "" } else { "s" };
                    writeln!(out, "dtrace: description '{text}' matched {matched} probe{plural}")?;
                }
                _ => self.list(&spec, out)?,
            }
        }
        if let (Command::Enable, Some(consumer)) = (command, self.consumer) {
            self.tracer.start(consumer)?;
            out.write_str(row::HITS)?;
        }
        Ok(())
    }

    /// Prints the new records. Returns whether there were any. Call it regularly, by a thread with interrupts on.
    ///
    /// # Errors
    /// If the console failed; the records that were read are lost.
    pub fn print(&mut self, out: &mut impl Write) -> Result<bool, ConsoleError> {
        self.tracer.need_thread()?;
        let counters = self.tracer.counters();
        let recorded = counters.records.wrapping_add(counters.drops);
        // Switching the buffers interrupts all CPUs, so do it only if some consumer has recorded something.
        let is_new = self.consumer.is_some() && recorded != self.recorded;
        self.recorded = recorded;
        if is_new { self.print_all(out) } else { Ok(false) }
    }

    /// Prints the content of the buffers.
    fn print_all(&mut self, out: &mut impl Write) -> Result<bool, ConsoleError> {
        let Some(consumer) = self.consumer else { return Ok(false) };
        let mut any = false;
        for cpu in 0..self.tracer.cpus() {
            let (mut at, mut size) = (0, usize::MAX);
            while at < size {
                let bytes = self.bytes.get_mut(..Self::WHOLE).unwrap_or_default();
                let found = self.tracer.snapshot(consumer, cpu, Which::Records, at, bytes)?;
                for record in records(bytes.get(..found.read).unwrap_or_default()) {
                    any = true;
                    row::hit(self.tracer, consumer, cpu, &record, out)?;
                }
                if at == 0 && found.drops != 0 {
                    let plural = if found.drops == 1 { "" } else { "s" };
                    writeln!(out, "dtrace: {} drop{plural} on CPU {cpu}", found.drops)?;
                }
                size = found.size;
                at += Self::WHOLE;
            }
        }
        Ok(any)
    }

    /// Stops recording, prints the remaining records, and disables all probes of the console.
    ///
    /// # Errors
    /// The console failed; the probes are disabled nevertheless.
    pub fn stop(&mut self, out: &mut impl Write) -> Result<(), ConsoleError> {
        let Some(consumer) = self.consumer else { return Ok(()) };
        self.tracer.stop(consumer)?;
        // Recording has stopped, so printing fires no recorded probe.
        let printed = self.print_all(out);
        self.consumer = None;
        self.tracer.close(consumer)?;
        printed.map(|_| ())
    }

    fn check(&self, line: &str) -> Result<Command, ConsoleError> {
        let command = match line.split_whitespace().next() {
            Some("stop") if line.trim() == "stop" => return Ok(Command::Stop),
            Some(_) if words(line).any(|word| word == "-l") => Command::List,
            Some(_) => Command::Enable,
            None => return Err(ConsoleError::Usage),
        };
        for (index, spec) in specs(line).enumerate() {
            let (_, spec) = spec?;
            self.tracer.need_thread()?;
            if self.tracer.next_probe(&spec, 0, Rights::ALL).is_none() {
                return Err(ConsoleError::NoMatch { description: index + 1 });
            }
        }
        Ok(command)
    }

    fn list(&self, spec: &Spec, out: &mut impl Write) -> Result<(), ConsoleError> {
        self.tracer.need_thread()?;
        let mut after = 0;
        while let Some(probe) = self.tracer.next_probe(spec, after, Rights::ALL) {
            row::listed(&probe, out)?;
            after = probe.id().get();
        }
        Ok(())
    }

    /// Enables a description. Opens the console's consumer if it is not open.
    fn enable(&mut self, spec: &Spec) -> Result<u32, ConsoleError> {
        if let Some(consumer) = self.consumer {
            return Ok(self.tracer.enable(consumer, spec)?);
        }
        let consumer = self.tracer.open(Rights::ALL)?;
        let enabled = self.tracer.enable(consumer, spec);
        match enabled {
            Ok(_) => self.consumer = Some(consumer),
            Err(_) => self.tracer.close(consumer)?,
        }
        Ok(enabled?)
    }
}

/// Splits a line into words, and removes the quotes around a word. A simple version of a shell's rules.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split_whitespace().map(|word| {
        let quoted = |quote| word.strip_prefix(quote)?.strip_suffix(quote);
        quoted('\'').or_else(|| quoted('"')).unwrap_or(word)
    })
}

/// Returns the descriptions of a line: the text of each, and the parsed description.
fn specs(line: &str) -> impl Iterator<Item = Result<(&str, Spec), ConsoleError>> {
    let mut words = words(line).filter(|&word| word != "-l");
    core::iter::from_fn(move || {
        let last = match words.next()? {
            "-P" => Field::Provider,
            "-m" => Field::Module,
            "-f" => Field::Function,
            "-n" => Field::Name,
            _ => return Some(Err(ConsoleError::Usage)),
        };
        let Some(text) = words.next() else { return Some(Err(ConsoleError::Usage)) };
        Some(Spec::parse(text, last).map(|spec| (text, spec)).map_err(ConsoleError::Spec))
    })
}
