//! A command line and a printer for a kernel's own console: tracing without another machine.
//!
//! A kernel's shell, or its serial line, hands [`Console::command`] what somebody has typed, and calls
//! [`Console::print`] now and then:
//!
//! | | |
//! |---|---|
//! | `-l` | lists all probes, as `dtrace -l` does |
//! | `-l -n SPEC` | those that the description means; any number of `-P`, `-m`, `-f` and `-n`, as of `dtrace` |
//! | `-n SPEC` | enables them, beside what is enabled already; from here on hits are printed |
//! | `stop` | prints what is left, and disables all that was enabled here |
//!
//! A hit is printed as dtrace(1) does, CPU, probe and its function and name, and behind that its arguments, by their types.
//!
//! # Printing that fires probes
//!
//! is allowed: in the console's driver, in the allocator that a [`Write`] uses, anywhere. Records are read out of the buffers before
//! the first of them is printed, and no lock is held meanwhile. Each call of `print` reads once for each CPU, so it comes to
//! its end even if every line that it prints fires a probe that is enabled; those hits are there for the next call. What does
//! not fit the buffers is dropped, counted and told, as ever.
//!
//! Nothing here is for probe context, where it refuses, nor for an interrupt handler or a panic: it takes the framework's locks.

mod error;
mod row;

use core::fmt::Write;

pub use error::ConsoleError;

use crate::buffer::{ConsumerId, LONGEST, Records};
use crate::dtrace::Dtrace;
use crate::host::Host;
use dtrace_abi::spec::{Field, Spec};

/// The consumer of a kernel's console. `BUFFER` bytes are read at a time, for each CPU.
#[derive(Debug)]
pub struct Console<'d, H: Host, const BUFFER: usize = 2048> {
    dtrace: &'d Dtrace<H>,
    consumer: Option<ConsumerId>,
    bytes: [u8; BUFFER],
}

/// What a line wants.
enum Command {
    List,
    Enable,
    Stop,
}

impl<'d, H: Host, const BUFFER: usize> Console<'d, H, BUFFER> {
    /// One that has enabled nothing.
    pub const fn new(dtrace: &'d Dtrace<H>) -> Self {
        const { assert!(BUFFER >= LONGEST, "a console reads at least one record at a time") };
        Self { dtrace, consumer: None, bytes: [0; BUFFER] }
    }

    /// Does what a line says. Called by a thread with interrupts on.
    ///
    /// # Errors
    /// See [`ConsoleError`]; a console shows it behind `dtrace: `. If the framework has
    /// [refused](ConsoleError::Refused) to enable one of several descriptions, those before it are enabled until `stop`;
    /// otherwise nothing has changed.
    pub fn command(&mut self, line: &str, out: &mut impl Write) -> Result<(), ConsoleError> {
        // All of it has to hold before the first of it is done.
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
            self.dtrace.go(consumer)?;
            out.write_str(row::HITS)?;
        }
        Ok(())
    }

    /// Prints what has been recorded, and says whether there was anything. To be called whenever there is time;
    /// by a thread with interrupts on.
    ///
    /// # Errors
    /// The console failed; what was read is lost.
    pub fn print(&mut self, out: &mut impl Write) -> Result<bool, ConsoleError> {
        let Some(consumer) = self.consumer else { return Ok(false) };
        let mut any = false;
        for cpu in 0..self.dtrace.host().cpus() {
            let length = self.dtrace.read(consumer, cpu, &mut self.bytes)?;
            let bytes = self.bytes.get(..length).unwrap_or_default();
            for firing in Records::new(bytes).filter_map(|record| record.firing()) {
                any = true;
                row::hit(self.dtrace, &firing, out)?;
            }
            let drops = self.dtrace.drops(consumer, cpu)?;
            if drops != 0 {
                let plural = if drops == 1 { "" } else { "s" };
                writeln!(out, "dtrace: {drops} drop{plural} on CPU {cpu}")?;
            }
        }
        Ok(any)
    }

    /// Stops recording, prints what is left, and disables what was enabled here.
    ///
    /// # Errors
    /// The console failed; all is disabled nevertheless.
    pub fn stop(&mut self, out: &mut impl Write) -> Result<(), ConsoleError> {
        let Some(consumer) = self.consumer else { return Ok(()) };
        self.dtrace.stop(consumer)?;
        // Nothing is recorded any more, so this ends, whatever printing fires.
        let mut printed = Ok(true);
        while let Ok(true) = printed {
            printed = self.print(out);
        }
        self.consumer = None;
        self.dtrace.close(consumer)?;
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
            if self.dtrace.for_each_probe(&spec, |_| {})? == 0 {
                return Err(ConsoleError::NoMatch { description: index + 1 });
            }
        }
        Ok(command)
    }

    fn list(&self, spec: &Spec, out: &mut impl Write) -> Result<(), ConsoleError> {
        let mut written = Ok(());
        self.dtrace.for_each_probe(spec, |probe| {
            written = written.and_then(|()| row::listed(probe, out));
        })?;
        Ok(written?)
    }

    /// Enables, for a consumer that is opened now if there is none.
    fn enable(&mut self, spec: &Spec) -> Result<u32, ConsoleError> {
        if let Some(consumer) = self.consumer {
            return Ok(self.dtrace.enable(consumer, spec)?);
        }
        let consumer = self.dtrace.open()?;
        let enabled = self.dtrace.enable(consumer, spec);
        match enabled {
            Ok(_) => self.consumer = Some(consumer),
            Err(_) => self.dtrace.close(consumer)?,
        }
        Ok(enabled?)
    }
}

/// Words as a shell makes them, as far as descriptions need it: quotes around one are not its own.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split_whitespace().map(|word| {
        let quoted = |quote| word.strip_prefix(quote)?.strip_suffix(quote);
        quoted('\'').or_else(|| quoted('"')).unwrap_or(word)
    })
}

/// The descriptions of a line, each as it was typed and what it means.
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
