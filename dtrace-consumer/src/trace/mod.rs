//! A trace as a library: compiles programs, enables them in a kernel, and reads what they record.
//!
//! ```no_run
//! use dtrace_consumer::compiler::{Source, options::Options};
//! use dtrace_consumer::{Address, Client, Protection, Trace, render};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let address: Address = "unix:/run/kernel.sock".parse()?;
//! let line = address.open(&Protection::Machine, || eprintln!("no data received yet"))?;
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

mod libraries;
mod lowered;
mod running;
mod timer;
mod timer_check;
mod unrecorded;

pub use running::{Look, Running};
use unrecorded::Unrecorded;

use std::collections::BTreeMap;

use dtrace_abi::action::Action;
use dtrace_abi::option::{OptionId, UNSET};
use dtrace_abi::{Platform, System};
use dtrace_compiler::declared::processes;
use dtrace_compiler::libraries::Library;
use dtrace_compiler::options::Options;
use dtrace_compiler::program::{Ecb, Program};
use dtrace_compiler::surroundings::Description;
use dtrace_compiler::{Compiler, Error, Source, dof};

use crate::client::{Client, ClientError, Declared, Detail, Probe};
#[cfg(feature = "functions")]
use crate::functions::{Functions, Traced, TracedError};
use crate::kernel::{Kernel, OWN};
use crate::render::{Compiled, Consumer, RenderError, Settings};
use crate::transport::TransportError;

/// The clause that records faults (`dtrace_handle_err`, dt_handle.c).
const ON_ERROR: &[u8] =
    b"dtrace:::ERROR{trace(arg1);trace(arg2);trace(arg3);trace(arg4);trace(arg5);}";

/// Why a trace fails.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The kernel or the connection failed, or the kernel refuses the request.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The compiler refuses a program.
    #[error(transparent)]
    Program(#[from] Box<Error>),
    /// A program is too large for any kernel.
    #[error(transparent)]
    Write(#[from] dof::WriteError),
    /// The functions of a file cannot be traced.
    #[cfg(feature = "functions")]
    #[error(transparent)]
    Functions(#[from] TracedError),
    /// A record cannot be shown.
    #[error(transparent)]
    Render(#[from] RenderError),
}

impl TraceError {
    /// Returns whether the peer has closed the connection.
    pub const fn is_end_of_line(&self) -> bool {
        matches!(self, Self::Client(ClientError::Transport(TransportError::Closed(_))))
    }
}

/// A trace before it runs.
#[derive(Debug)]
pub struct Trace {
    kernel: Kernel,
    compiler: Compiler,
    /// The options that the kernel received when it was opened.
    opened: Option<Options>,
    /// Whether the compiler has the declarations of the kernel's modules.
    declared: bool,
    /// The kernel's name.
    host: Option<String>,
    /// Whether there are several kernels.
    among_others: bool,
    /// Whether a program uses `hostname`.
    names_host: bool,
    /// Whether the anonymous enabling is claimed.
    claimed: bool,
    /// Whether a program enables a timer.
    times: bool,
    /// Whether a program prints or changes its aggregations.
    shows_aggregations: bool,
    /// The programs that this run has enabled.
    compiled: Compiled,
}

impl Trace {
    /// Creates a trace of a kernel. `target` is the value of `$target`.
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
            times: false,
            shows_aggregations: false,
            compiled: Compiled::default(),
        }
    }

    /// Sets the process ID of a kernel that is a process of this machine, so that stacks have the names of its libraries and of
    /// inlined functions.
    pub fn set_process(&mut self, id: u32) {
        self.kernel.set_process(id);
    }

    /// Sets the kernel's name, which is the value of D's variable `hostname`. Call this before compiling programs.
    pub fn set_host(&mut self, name: &str) {
        self.host = Some(name.to_owned());
    }

    /// Names the kernel as one of several that are traced [together](crate::hosts): its records show the name. Call this before
    /// compiling programs.
    pub fn set_host_of_many(&mut self, name: &str) {
        self.set_host(name);
        self.among_others = true;
    }

    /// Returns the kernel's name.
    pub fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    /// Returns the kernel.
    pub const fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Returns the options, with those that the compiled programs have set.
    pub const fn options(&self) -> &Options {
        self.compiler.options()
    }

    /// Lets programs trace the functions of the kernel: probes of the provider `fbt`. `functions` are those of the kernel's file.
    /// Call this before compiling programs.
    ///
    /// # Errors
    /// The kernel does not let this connection trace functions, the file is not that of the kernel, or the kernel or the
    /// connection failed.
    #[cfg(feature = "functions")]
    pub fn trace_functions(&mut self, functions: Functions) -> Result<(), TraceError> {
        let text = self.kernel.ask(Client::function_text)?;
        self.kernel.trace_functions(Traced::new(functions, &text)?);
        Ok(())
    }

    /// Lets descriptions match the functions of a module that the kernel has loaded, after
    /// [`trace_functions`](Self::trace_functions).
    ///
    /// # Errors
    /// The kernel has not loaded the file, or the kernel or the connection failed.
    #[cfg(feature = "functions")]
    pub fn trace_module(&mut self, functions: Functions) -> Result<(), TraceError> {
        Ok(self.kernel.trace_module(functions)?)
    }

    /// Passes the declarations of the kernel's modules to the compiler, once.
    fn declare(&mut self) -> Result<(), ClientError> {
        if std::mem::replace(&mut self.declared, true) {
            return Ok(());
        }
        self.compiler.built_in("kernel", &processes(), &self.kernel);
        if let Some(host) = &self.host {
            self.compiler.built_in("host", &named_host(host), &self.kernel);
        }
        for Declared { module, text } in self.kernel.declared()? {
            self.compiler.module(&module, &text, &self.kernel);
        }
        let system = System::from_number(self.kernel.ask(Client::status)?.system);
        self.compiler.constants("system", system);
        self.kernel.check()
    }

    /// Returns the stability and the arguments of a probe, with the names of the arguments; `None` if it has disappeared.
    ///
    /// # Errors
    /// The kernel refuses, or the kernel or the connection failed.
    pub fn detail(&mut self, probe: &Probe) -> Result<Option<Detail>, ClientError> {
        self.declare()?;
        self.kernel.detail(probe)
    }

    /// Compiles D libraries. Skips libraries that depend on missing providers, modules or libraries, and returns the reasons.
    ///
    /// # Errors
    /// The compiler refuses a library, or the kernel or the connection failed.
    pub fn libraries(&mut self, libraries: &[Library<'_>]) -> Result<Vec<Box<Error>>, TraceError> {
        self.declare()?;
        let read = self.compiler.libraries(libraries, &self.kernel);
        self.kernel.check()?;
        Ok(read?)
    }

    /// Compiles a program without enabling it.
    ///
    /// # Errors
    /// The compiler refuses the program, or the kernel or the connection failed.
    pub fn compile(&mut self, source: Source<'_>) -> Result<Program, TraceError> {
        self.declare()?;
        self.names_host |= names_host(source.text);
        self.kernel.forget_probes();
        let compiled = self.compiler.compile(source, &self.kernel);
        self.kernel.check()?;
        Ok(compiled?)
    }

    /// Opens a session of the framework and sets the options, once.
    fn open(&mut self) -> Result<(), ClientError> {
        if self.opened.is_some() {
            return Ok(());
        }
        let options = &*self.opened.insert(self.compiler.options().clone());
        self.kernel.open()?;
        self.kernel
            .ask(|client| options.values().try_for_each(|(id, value)| client.option(id, value)))
    }

    /// Enables a program. Returns the number of probes that its clauses match. Later changes of options have no effect on the
    /// kernel.
    ///
    /// # Errors
    /// The kernel refuses the program, or the kernel or the connection failed.
    pub fn enable(&mut self, program: &Program) -> Result<u32, TraceError> {
        let dof = dof::numbered(program, self.options(), self.compiled.last())?;
        self.open()?;
        let matched = self.kernel.ask(|client| client.program(&dof))?;
        self.times |= program.ecbs.iter().any(|ecb| is_timer(&ecb.probe));
        self.shows_aggregations |= program.ecbs.iter().any(shows_aggregations);
        let names = self.aggregations();
        let name = |variable| names.get(&variable).map(String::as_str);
        let options = self.opened.as_ref().unwrap_or(self.compiler.options());
        self.compiled.add(program, options, &name);
        Ok(matched)
    }

    /// Returns the names of aggregations by their variables.
    fn aggregations(&self) -> BTreeMap<u32, String> {
        let all = self.compiler.aggregations().into_iter();
        all.map(|(id, aggregation)| (id, aggregation.name)).collect()
    }

    /// Claims the anonymous enabling of the kernel, with its options.
    ///
    /// # Errors
    /// The kernel has none, or the kernel or the connection failed.
    pub fn claim(&mut self) -> Result<(), TraceError> {
        self.open()?;
        self.kernel.ask(Client::claim)?;
        self.claimed = true;
        // Like `dt_options_load` of libdtrace.
        for (option, value) in self.kernel.ask(Client::options)? {
            // Only the user permits destructive actions.
            match OptionId::from_number(option) {
                Some(OptionId::Destructive) | None => {}
                Some(id) => self.compiler.options_mut().put(id, value),
            }
        }
        Ok(())
    }

    /// Returns the DOF of programs and options for a kernel that enables them without a consumer.
    ///
    /// # Errors
    /// The programs are too large, or the kernel or the connection failed.
    pub fn anonymous<'p>(
        &mut self,
        programs: impl Iterator<Item = &'p Program>,
    ) -> Result<Vec<u8>, TraceError> {
        let errors = self.errors()?;
        let last = errors.as_ref().map(|program| (program, OWN));
        Ok(dof::anonymous(programs, last, self.options())?)
    }

    /// Starts tracing. `dtrace:::BEGIN` has fired when this returns.
    ///
    /// # Errors
    /// The kernel refuses, or the kernel or the connection failed.
    pub fn go(mut self) -> Result<Running, TraceError> {
        self.open()?;
        match self.claimed {
            true => self.declare()?,
            false => self.watch_errors()?,
        }
        let status = self.kernel.ask(Client::status)?;
        let cpus = status.cpus;
        let names = self.aggregations();
        // A claimed enabling runs already.
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
        // The records of a claimed enabling are not those of the programs that this run compiled.
        let consumer = match self.claimed {
            true => Consumer::new(settings),
            false => Consumer::of(self.compiled, settings),
        };
        let types = self.compiler.types().clone();
        let mut running = Running::new(self.kernel, names, types, consumer, cpus, began);
        // The kernel has counted the hits of a claimed enabling since it started.
        running.count_unrecorded_from(if self.claimed {
            Unrecorded::default()
        } else {
            Unrecorded::of(&status)
        });
        if self.shows_aggregations || self.claimed {
            running.read_aggregations_with_records();
        }
        if self.times {
            running.check_timers();
        }
        Ok(running)
    }

    /// Enables the library's own clause for faults after all programs.
    fn watch_errors(&mut self) -> Result<(), TraceError> {
        if let Some(program) = self.errors()? {
            let dof = dof::numbered(&program, self.options(), OWN)?;
            self.kernel.ask(|client| client.program(&dof))?;
            let options = self.opened.as_ref().unwrap_or(self.compiler.options());
            self.compiled.add_faults(&program, options, OWN);
        }
        Ok(())
    }

    /// Compiles the library's own clause for faults; `None` if the kernel has no probe for them.
    fn errors(&mut self) -> Result<Option<Program>, TraceError> {
        match self.compile(Source::line(ON_ERROR)) {
            Err(TraceError::Program(_)) => Ok(None),
            program => program.map(Some),
        }
    }
}

/// Returns the declaration of `hostname`.
fn named_host(name: &str) -> Vec<u8> {
    let text = name.chars().filter(|c| !c.is_control() && !['"', '\\'].contains(c));
    format!("text\tinline string hostname = \"{}\";\n", text.collect::<String>()).into_bytes()
}

/// Returns whether a description is of a timer.
fn is_timer(probe: &Description) -> bool {
    ["", "profile"].contains(&&*probe.provider)
        && ["tick-", "profile-"].iter().any(|prefix| probe.name.starts_with(prefix))
}

/// Returns whether an action of a clause prints or changes an aggregation.
fn shows_aggregations(clause: &Ecb) -> bool {
    clause.actions.iter().any(|act| matches!(act.kind, Action::Printa | Action::LibAct))
}

/// Returns whether a program contains the word `hostname`.
fn names_host(text: &[u8]) -> bool {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    text.split(|byte| !is_word(byte)).any(|word| word == b"hostname")
}
