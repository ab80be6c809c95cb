//! A trace as a library: programs compiled and handed over, then what they record, until it is over.
//!
//! ```no_run
//! use dtrace::compiler::{Source, options::Options};
//! use dtrace::{Address, Client, Protection, Trace, render};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let address: Address = "unix:/run/kernel.sock".parse()?;
//! let line = address.open(&Protection::Machine, || eprintln!("nothing has come yet"))?;
//! let mut trace = Trace::new(Client::connect(line)?, Options::default(), 0);
//! let program = trace.compile(Source::line(b"syscall:::entry { @[probefunc] = count() }"))?;
//! trace.enable(&program)?;
//! let mut running = trace.go()?;
//! let mut sink = render::Text::new(render::Streams::standard("dtrace")?);
//! while !running.work(&mut sink)? {
//!     std::thread::sleep(running.pause());
//!     for entry in running.aggregations().entries() {
//!         println!("{}: {:?}", entry.description.name, entry.number());
//!     }
//! }
//! running.finish(&mut sink)?;
//! # Ok(())
//! # }
//! ```

mod running;

pub use running::{Look, Running};

use std::collections::BTreeMap;

use dtrace_abi::Platform;
use dtrace_abi::option::{OptionId, UNSET};
use dtrace_compiler::declared::processes;
use dtrace_compiler::libraries::Library;
use dtrace_compiler::options::Options;
use dtrace_compiler::program::Program;
use dtrace_compiler::{Compiler, Error, Source, dof};

use crate::client::{Client, ClientError, Declared};
use crate::kernel::{Kernel, OWN};
use crate::render::{Compiled, Consumer, RenderError, Settings};
use crate::transport::TransportError;

/// What is recorded of faults (`dtrace_handle_err`, dt_handle.c).
const ON_ERROR: &[u8] =
    b"dtrace:::ERROR{trace(arg1);trace(arg2);trace(arg3);trace(arg4);trace(arg5);}";

/// Why a trace does not go on.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The kernel failed, or refuses.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A program is wrong.
    #[error(transparent)]
    Program(#[from] Box<Error>),
    /// A program is too large for any kernel.
    #[error(transparent)]
    Write(#[from] dof::WriteError),
    /// What was recorded cannot be shown.
    #[error(transparent)]
    Render(#[from] RenderError),
}

impl TraceError {
    /// Whether the other side of the line has gone.
    pub const fn is_end_of_line(&self) -> bool {
        matches!(self, Self::Client(ClientError::Transport(TransportError::Closed(_))))
    }
}

/// A trace that has not begun.
#[derive(Debug)]
pub struct Trace {
    kernel: Kernel,
    compiler: Compiler,
    /// The options that the kernel was told, once it was.
    opened: Option<Options>,
    /// What the kernel's modules declare is known.
    declared: bool,
    /// What the kernel is called among several.
    host: Option<String>,
    /// It is one of several.
    among_others: bool,
    /// A program has `hostname` in it.
    names_host: bool,
    /// What is traced was enabled before.
    claimed: bool,
    /// What was enabled by this run.
    compiled: Compiled,
}

impl Trace {
    /// A trace of a kernel, with these options; `$target` is that number.
    pub fn new(client: Client, options: Options, target: i64) -> Self {
        let kernel = Kernel::new(client, target);
        Self {
            kernel,
            compiler: Compiler::new(Platform::Freebsd, options),
            opened: None,
            declared: false,
            host: None,
            among_others: false,
            names_host: false,
            claimed: false,
            compiled: Compiled::default(),
        }
    }

    /// Says what the kernel is called: D's variable `hostname`. Before anything is compiled.
    pub fn set_host(&mut self, name: &str) {
        self.host = Some(name.to_owned());
    }

    /// The kernel is one of several that are traced [at once](crate::hosts), and called so: what its records show, too. Before
    /// anything is compiled.
    pub fn set_host_of_many(&mut self, name: &str) {
        self.set_host(name);
        self.among_others = true;
    }

    /// What the kernel is called.
    pub fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    /// The kernel.
    pub const fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// The options, with those that programs have set so far.
    pub const fn options(&self) -> &Options {
        self.compiler.options()
    }

    /// Has the compiler know what the kernel's modules declare, once.
    fn declare(&mut self) -> Result<(), ClientError> {
        if std::mem::replace(&mut self.declared, true) {
            return Ok(());
        }
        self.compiler.built_in("kernel", &processes(), &self.kernel);
        if let Some(host) = &self.host {
            self.compiler.built_in("host", &named_host(host), &self.kernel);
        }
        for Declared { module, text } in self.kernel.ask(Client::declared)? {
            self.compiler.module(&module, &text, &self.kernel);
        }
        self.kernel.check()
    }

    /// Reads D libraries. Those that the kernel has nothing for are left out; returns why.
    ///
    /// # Errors
    /// One of them is wrong, or the kernel failed.
    pub fn libraries(&mut self, libraries: &[Library<'_>]) -> Result<Vec<Box<Error>>, TraceError> {
        self.declare()?;
        let read = self.compiler.libraries(libraries, &self.kernel);
        self.kernel.check()?;
        Ok(read?)
    }

    /// Compiles a program; nothing is enabled yet.
    ///
    /// # Errors
    /// It is wrong, or the kernel failed.
    pub fn compile(&mut self, source: Source<'_>) -> Result<Program, TraceError> {
        self.declare()?;
        self.names_host |= names_host(source.text);
        self.kernel.forget_probes();
        let compiled = self.compiler.compile(source, &self.kernel);
        self.kernel.check()?;
        Ok(compiled?)
    }

    /// Opens the framework and tells it the options, once.
    fn open(&mut self) -> Result<(), ClientError> {
        if self.opened.is_some() {
            return Ok(());
        }
        let options = &*self.opened.insert(self.compiler.options().clone());
        self.kernel.ask(|client| {
            client.open()?;
            options.values().try_for_each(|(id, value)| client.option(id.number(), value))
        })
    }

    /// Enables a program; says how many probes its clauses have matched. Options are fixed by then.
    ///
    /// # Errors
    /// The kernel refuses it, or failed.
    pub fn enable(&mut self, program: &Program) -> Result<u32, TraceError> {
        let dof = dof::numbered(program, self.options(), self.compiled.last())?;
        self.open()?;
        let matched = self.kernel.ask(|client| client.program(&dof))?;
        let names = self.aggregations();
        let name = |variable| names.get(&variable).map(String::as_str);
        let options = self.opened.as_ref().unwrap_or(self.compiler.options());
        self.compiled.add(program, options, &name);
        Ok(matched)
    }

    /// The names of aggregations, by their variables.
    fn aggregations(&self) -> BTreeMap<u32, String> {
        let all = self.compiler.aggregations().into_iter();
        all.map(|(id, aggregation)| (id, aggregation.name)).collect()
    }

    /// Takes over what was enabled in the kernel before there was any consumer, and its options.
    ///
    /// # Errors
    /// There is no such thing, or the kernel failed.
    pub fn claim(&mut self) -> Result<(), TraceError> {
        self.open()?;
        self.kernel.ask(Client::claim)?;
        self.claimed = true;
        // As libdtrace does when it goes (`dt_options_load`).
        for (option, value) in self.kernel.ask(Client::options)? {
            // Whether this run may change something is not for the kernel to say.
            match OptionId::from_number(option) {
                Some(OptionId::Destructive) | None => {}
                Some(id) => self.compiler.options_mut().put(id, value),
            }
        }
        Ok(())
    }

    /// The DOF of programs for a kernel that enables them by itself, with the options as they are.
    ///
    /// # Errors
    /// They are too large, or the kernel failed.
    pub fn anonymous<'p>(
        &mut self,
        programs: impl Iterator<Item = &'p Program>,
    ) -> Result<Vec<u8>, TraceError> {
        let errors = self.errors()?;
        let last = errors.as_ref().map(|program| (program, OWN));
        Ok(dof::anonymous(programs, last, self.options())?)
    }

    /// Begins. `dtrace:::BEGIN` has fired when this returns.
    ///
    /// # Errors
    /// The kernel refuses, or failed.
    pub fn go(mut self) -> Result<Running, TraceError> {
        self.open()?;
        match self.claimed {
            true => self.declare()?,
            false => self.watch_errors()?,
        }
        let cpus = self.kernel.ask(Client::status)?.cpus;
        let names = self.aggregations();
        // What was enabled before has begun.
        let began = (!self.claimed).then(|| self.kernel.ask(Client::go)).transpose()?;
        let options = self.compiler.options().clone();
        let mut settings = Settings::new(options.clone());
        settings.host = self.host.filter(|_| self.among_others);
        settings.names_host = self.names_host;
        settings.budget = self.kernel.budget();
        let cpus = match options.get(OptionId::Cpu) {
            UNSET => (0..cpus).collect(),
            cpu => u32::try_from(cpu).into_iter().collect(),
        };
        // What was enabled before was not compiled in this run, even if something else was.
        let consumer = match self.claimed {
            true => Consumer::new(settings),
            false => Consumer::of(self.compiled, settings),
        };
        Ok(Running::new(self.kernel, names, self.compiler.types().clone(), consumer, cpus, began))
    }

    /// Enables the library's own clause for faults, last of all.
    fn watch_errors(&mut self) -> Result<(), TraceError> {
        if let Some(program) = self.errors()? {
            let dof = dof::numbered(&program, self.options(), OWN)?;
            self.kernel.ask(|client| client.program(&dof))?;
            let options = self.opened.as_ref().unwrap_or(self.compiler.options());
            self.compiled.add_faults(&program, options, OWN);
        }
        Ok(())
    }

    /// The library's own clause for faults. A kernel without that probe has no faults to tell of.
    fn errors(&mut self) -> Result<Option<Program>, TraceError> {
        match self.compile(Source::line(ON_ERROR)) {
            Err(TraceError::Program(_)) => Ok(None),
            program => program.map(Some),
        }
    }
}

/// Declares `hostname`.
fn named_host(name: &str) -> Vec<u8> {
    let text = name.chars().filter(|c| !c.is_control() && !['"', '\\'].contains(c));
    format!("text\tinline string hostname = \"{}\";\n", text.collect::<String>()).into_bytes()
}

/// Whether a program has `hostname` in it, wherever.
fn names_host(text: &[u8]) -> bool {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    text.split(|byte| !is_word(byte)).any(|word| word == b"hostname")
}
