//! `cargo xtask dtrace`: dtrace(1) on the bench. Boots the stand-in kernel, loads modules, and has executions replayed
//! while it traces.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::ArgAction;
use dtrace::consume::{self, Workload, WorkloadError};
use dtrace::job::Mode;
use dtrace::render::{Output, Streams};
use dtrace::{DtraceError, Interrupt, Job, cli};
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
/// So many executions are asked for at a time: few enough that hits are seen as they happen and an
/// interrupt is heeded at once.
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
    /// Exec log to play, as strace -f -e trace=execve -o writes it [default: the recorded one].
    #[arg(long, value_name = "LOG", conflicts_with = "list")]
    workload: Option<PathBuf>,
    /// Run a command instead of playing a log, and end with it: sysctl NAME=VALUE..., kstat -p MODULE:INSTANCE:NAME or
    /// sleep SECONDS, which are all that the stand-in kernel knows.
    #[arg(short, value_name = "CMD", conflicts_with_all = ["workload", "list"])]
    command: Option<String>,
    /// Trace the machine that cargo xtask machine has booted, which listens at this socket, instead of booting one.
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

/// Why dtrace on the bench ends with status 1.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// dtrace's own reason.
    #[error(transparent)]
    Dtrace(#[from] DtraceError),
    /// The kernel could not be had, or not with the modules.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The kernel failed.
    #[error("{0}")]
    Kernel(#[from] SessionError),
    /// The log cannot be played.
    #[error("failed to read the workload: {0}")]
    Workload(#[from] workload::WorkloadError),
}

/// What the kernel is made to do while dtrace traces.
#[derive(Debug)]
pub enum Play {
    /// The executions of a log; of the recorded one, if none is named.
    Log(Option<PathBuf>),
    /// A command.
    Command(Command),
}

/// Which kernel is traced.
#[derive(Clone, Copy, Debug)]
pub enum Kernel<'a> {
    /// One that is booted, and powered off at the end.
    Boot {
        /// Which one, with which modules.
        bench: &'a Bench,
        /// Whether its console is shown.
        console: bool,
    },
    /// That of a machine which listens at this socket, with the modules that it has loaded.
    At(&'a Path),
}

/// Runs dtrace on the bench.
///
/// # Errors
/// Why it does not go on; to be said as `dtrace: ERROR`, exit status 1.
pub fn trace(
    kernel: Kernel<'_>,
    job: &Job,
    play: Play,
    interrupt: &Interrupt,
    output: &mut dyn Output,
) -> Result<u8, BenchError> {
    job.check()?;
    // What can be wrong without a kernel is found before one is built.
    let (execs, command) = match play {
        _ if job.mode != Mode::Trace => (Vec::new(), None),
        Play::Log(log) => (workload::read(&log.unwrap_or_else(default_workload))?, None),
        Play::Command(command) => (Vec::new(), Some(command)),
    };
    // Standard error that is closed is no reason to stop.
    let say = |warning: String| _ = output.message(&format!("{warning}\n"));
    let (mut session, loaded) = match kernel {
        Kernel::Boot { bench, console } => bench.boot(console, say)?,
        Kernel::At(socket) => (Session::attach(socket)?, Vec::new()),
    };
    let client = session.connect()?;
    let mut replay = Replay { session: &mut session, command, left: &execs, until: None };
    let status = match consume::run(client, job, interrupt, &mut replay, output) {
        Ok(status) => status,
        // The bench knows more of how a kernel failed.
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
    /// When who sleeps wakes up.
    until: Option<Instant>,
}

/// How often it is looked whether who sleeps has woken up.
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
/// Those of [`trace`]; to be said as `dtrace: ERROR`, exit status 1.
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
        // As the command says its own.
        Err(BenchError::Dtrace(error)) => Err(error.into()),
        Err(error) => Err(error.into()),
    }
}

/// Whether these are the arguments of a whole dtrace command: one that clap's own errors do not fit.
pub fn is_ours(args: &[OsString]) -> bool {
    args.get(1).is_some_and(|command| command == "dtrace")
}

/// Says what is wrong with a command line as dtrace does, with its usage.
pub fn usage_error(error: &clap::Error) -> ExitCode {
    cli::usage_error(error, &[USAGE, cli::USAGE].concat())
}

/// Prints the usage, as dtrace does when it is given nothing at all.
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

    /// There is no kernel yet, which would take minutes.
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
        // The header's magic number and its machine, x86_64.
        let mut header = [0; 64];
        header[..4].copy_from_slice(b"\x7fELF");
        header[18] = 62;
        std::fs::write(&file, header).unwrap();
        let why = "it is a module for x86_64, and the kernel is for riscv64: take --arch x86_64";
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
        // A module that is there already has been built for something.
        let module = bench("-l --freebsd 14 --module x.ko").unwrap();
        assert_eq!(module.check().unwrap().major(), 14);
        for option in ["--route native", "--patch trap"] {
            let error = bench(&format!("-l --module x.ko {option}")).unwrap_err();
            assert!(error.contains("cannot be used with"), "{error}");
        }
        // A machine that runs has been made already.
        let error = bench("-l --socket x --cpus 1").unwrap_err();
        assert!(error.contains("cannot be used with"), "{error}");
        // Listing plays nothing.
        let error = bench("-l --workload x.log").unwrap_err();
        assert!(error.contains("cannot be used with"), "{error}");
        let error = bench("-l --os illumos --freebsd 15").unwrap_err();
        assert!(error.starts_with("--freebsd 15 is a release of FreeBSD, "), "{error}");
        let error = bench("-l --os illumos --arch aarch64 --module x").unwrap_err();
        assert_eq!(error, "illumos does not run on aarch64: take --arch x86_64");
        let error = bench("-l --freebsd 9").unwrap_err();
        assert!(error.starts_with("invalid value '9' for '--freebsd <RELEASE>'"), "{error}");
        assert!(error.contains("is not a release of FreeBSD that modules can be built for"));
    }
}
