//! `cargo xtask dtrace`: dtrace(1) for the stand-in kernel. Boots the kernel, loads modules, and replays executions
//! while it traces.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::ArgAction;
use dtrace_consumer::consume::{self, Workload, WorkloadError};
use dtrace_consumer::job::Mode;
use dtrace_consumer::render::{Output, Streams};
use dtrace_consumer::{DtraceError, Interrupt, Job, cli};
use harness::session::{Session, SessionError};
use harness::shell::Command;
use harness::workload;
use harness::workspace::default_workload;
use sdt_protocol::Exec;

use crate::bench::{Bench, LoadError};

const USAGE: &str = "\
Usage: dtrace [--arch arch] [--os os] [--freebsd release] [--route route] [--patch mode]
\t[--cpus count] [--module file.ko] [--socket path] [--workload log] [--console] [-c cmd]
";
/// The number of executions in one request: small enough to show hits as they happen, and to react to an interrupt at
/// once.
const BATCH: usize = 16;

static INTERRUPT: Interrupt = Interrupt::new();

/// Options of `cargo xtask dtrace`.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    #[command(flatten)]
    dtrace: cli::DtraceArgs,
    #[command(flatten)]
    bench: Bench,
    /// Exec log to replay, in the format of strace -f -e trace=execve -o [default: the recorded one].
    #[arg(long, value_name = "LOG", conflicts_with = "list")]
    workload: Option<PathBuf>,
    /// Run a command instead of replaying a log, and end with it. The stand-in kernel knows sysctl NAME=VALUE..., kstat
    /// -p MODULE:INSTANCE:NAME and sleep SECONDS.
    #[arg(short, value_name = "CMD", conflicts_with_all = ["workload", "list"])]
    command: Option<String>,
    /// Trace the machine of cargo xtask machine at this socket, instead of booting one.
    #[arg(
        long,
        value_name = "PATH",
        conflicts_with_all = ["arch", "cpus", "os", "freebsd", "route", "patch", "module", "console"]
    )]
    socket: Option<PathBuf>,
    /// Show the kernel's console on standard error.
    #[arg(long)]
    console: bool,
    /// Print help.
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
}

/// The reason why dtrace ends with status 1.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// An error of dtrace.
    #[error(transparent)]
    Dtrace(#[from] DtraceError),
    /// The kernel could not be booted with the modules.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The kernel failed.
    #[error("{0}")]
    Kernel(#[from] SessionError),
    /// The log cannot be replayed.
    #[error("failed to read the workload: {0}")]
    Workload(#[from] workload::WorkloadError),
}

/// The workload of the kernel while dtrace traces.
#[derive(Debug)]
pub enum Play {
    /// The executions of a log; by default of the recorded one.
    Log(Option<PathBuf>),
    /// A command.
    Command(Command),
}

/// The traced kernel.
#[derive(Clone, Copy, Debug)]
pub enum Kernel<'a> {
    /// A kernel that is booted, and powered off at the end.
    Boot {
        /// The kernel and its modules.
        bench: &'a Bench,
        /// Whether to show its console.
        console: bool,
    },
    /// The kernel of a running machine at this socket, with its loaded modules.
    At(&'a Path),
}

/// Runs dtrace.
///
/// # Errors
/// The reason why it ends; print it as `dtrace: ERROR`, with exit status 1.
pub fn trace(
    kernel: Kernel<'_>,
    job: &Job,
    play: Play,
    interrupt: &Interrupt,
    output: &mut dyn Output,
) -> Result<u8, BenchError> {
    job.check()?;
    // Errors that do not depend on the kernel are reported before it is built.
    let (execs, command) = match play {
        _ if job.mode != Mode::Trace => (Vec::new(), None),
        Play::Log(log) => (workload::read(&log.unwrap_or_else(default_workload))?, None),
        Play::Command(command) => (Vec::new(), Some(command)),
    };
    // Tracing continues if standard error is closed.
    let say = |warning: String| _ = output.message(&format!("{warning}\n"));
    let (mut session, loaded) = match kernel {
        Kernel::Boot { bench, console } => bench.boot(console, say)?,
        Kernel::At(socket) => (Session::attach(socket)?, Vec::new()),
    };
    let client = session.connect()?;
    let mut replay = Replay { session: &mut session, command, left: &execs, until: None };
    let status = match consume::run(client, job, interrupt, &mut replay, output) {
        Ok(status) => status,
        // The session adds the machine's exit status and console to the error.
        Err(DtraceError::Client(error)) => return Err(session.client_failed(error).into()),
        Err(error) => return Err(error.into()),
    };
    if let Kernel::Boot { .. } = kernel {
        for name in loaded.iter().rev() {
            session.kldunload(name)?;
        }
        session.power_off()?;
    }
    Ok(status)
}

/// A command, and executions that are replayed, while dtrace traces.
struct Replay<'a> {
    session: &'a mut Session,
    command: Option<Command>,
    left: &'a [Exec],
    /// The end of the command `sleep`.
    until: Option<Instant>,
}

/// The interval of checks for the end of `sleep`.
const BEAT: Duration = Duration::from_millis(20);

impl Workload for Replay<'_> {
    fn step(&mut self) -> Result<bool, WorkloadError> {
        if let Some(command) = self.command.take() {
            command.run(self.session)?;
            if let Command::Sleep(time) = command {
                self.until = Some(Instant::now() + time);
            }
        }
        if let Some(until) = self.until {
            return Ok(Instant::now() < until);
        }
        let (batch, left) = self.left.split_at(self.left.len().min(BATCH));
        self.left = left;
        if batch.is_empty() {
            return Ok(false);
        }
        self.session.exec_at_once(batch)?;
        Ok(true)
    }

    fn pause(&self) -> Duration {
        if self.until.is_some() { BEAT } else { Duration::ZERO }
    }
}

/// Runs the command.
///
/// # Errors
/// Those of [`trace`]; print them as `dtrace: ERROR`, with exit status 1.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    args.bench.check()?;
    let Some(job) = args.dtrace.job()? else { return Ok(ExitCode::SUCCESS) };
    if job.mode == Mode::Trace {
        cli::heed_interrupts(&INTERRUPT)?;
    }
    let mut output = Streams::standard("dtrace")?;
    let play = match &args.command {
        Some(command) => Play::Command(command.parse()?),
        None => Play::Log(args.workload.clone()),
    };
    let kernel = match &args.socket {
        Some(socket) => Kernel::At(socket),
        None => Kernel::Boot { bench: &args.bench, console: args.console },
    };
    match trace(kernel, &job, play, &INTERRUPT, &mut output) {
        Ok(status) => Ok(ExitCode::from(status)),
        // In the format of the command's own errors.
        Err(BenchError::Dtrace(error)) => Err(error.into()),
        Err(error) => Err(error.into()),
    }
}

/// Returns whether these are the arguments of a dtrace command, whose errors do not have clap's format.
pub fn is_ours(args: &[OsString]) -> bool {
    args.get(1).is_some_and(|command| command == "dtrace")
}

/// Prints an error of the command line like dtrace, with the usage.
pub fn usage_error(error: &clap::Error) -> ExitCode {
    cli::usage_error(error, &[USAGE, cli::USAGE].concat())
}

/// Prints the usage, like dtrace without arguments.
pub fn usage() -> ExitCode {
    cli::usage(&[USAGE, cli::USAGE].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cargo_sdt::internal::platform::{FreeBsd, Os, Patch, Route};
    use clap::Parser;

    #[derive(Debug, Parser)]
    #[command(no_binary_name = true)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn bench(line: &str) -> Result<Bench, String> {
        let cli = Cli::try_parse_from(line.split(' ')).map_err(|error| cli::complaint(&error))?;
        cli.args.bench.check().map_err(|error| error.to_string())?;
        Ok(cli.args.bench)
    }

    /// No kernel exists yet; building one would take minutes.
    #[test]
    fn files_are_looked_at_before_a_kernel_is_built() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.ko");
        let refused = |arch: &str| {
            let bench = bench(&format!("-l --arch {arch} --module {}", file.display())).unwrap();
            bench.boot(false, |_| {}).unwrap_err().to_string()
        };
        let of = |why: &str| format!("failed to load {}: {why}", file.display());
        assert_eq!(refused("aarch64"), of("No such file or directory (os error 2)"));
        // The magic number and the machine of the header, x86_64.
        let mut header = [0; 64];
        header[..4].copy_from_slice(b"\x7fELF");
        header[18] = 62;
        std::fs::write(&file, header).unwrap();
        let why = "it is a module for x86_64, and the kernel is for riscv64: use --arch x86_64";
        assert_eq!(refused("riscv64"), of(why));
    }

    #[test]
    fn the_kernel_and_its_example_module_can_be_chosen() {
        let plain = bench("-l").unwrap();
        assert_eq!((plain.os, plain.check().unwrap()), (Os::FreeBsd, FreeBsd::default()));
        assert_eq!((plain.route, plain.patch), (Route::default(), None));
        let other = bench("-l --freebsd 1304000 --route provider --patch jump").unwrap();
        assert_eq!(other.check().unwrap().to_string(), "1304000");
        assert_eq!((other.route, other.patch), (Route::Provider, Some(Patch::Jump)));
        assert_eq!(bench("-l --os illumos").unwrap().os, Os::Illumos);
        // An existing module was built for a fixed system.
        let module = bench("-l --freebsd 14 --module x.ko").unwrap();
        assert_eq!(module.check().unwrap().major(), 14);
        for option in ["--route native", "--patch trap"] {
            let error = bench(&format!("-l --module x.ko {option}")).unwrap_err();
            assert!(error.contains("cannot be used with"), "{error}");
        }
        // A running machine has a fixed configuration.
        let error = bench("-l --socket x --cpus 1").unwrap_err();
        assert!(error.contains("cannot be used with"), "{error}");
        // Listing replays nothing.
        let error = bench("-l --workload x.log").unwrap_err();
        assert!(error.contains("cannot be used with"), "{error}");
        let error = bench("-l --os illumos --freebsd 15").unwrap_err();
        assert!(error.starts_with("--freebsd 15 and --os illumos exclude each other"), "{error}");
        let error = bench("-l --os illumos --arch aarch64 --module x").unwrap_err();
        assert_eq!(error, "illumos does not run on aarch64: use --arch x86_64");
        let error = bench("-l --freebsd 9").unwrap_err();
        assert!(error.starts_with("invalid value '9' for '--freebsd <RELEASE>'"), "{error}");
        assert!(error.contains("is not a supported release of FreeBSD"), "{error}");
    }
}
