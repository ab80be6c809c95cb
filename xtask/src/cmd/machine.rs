//! `cargo xtask machine`: keeps a stand-in kernel running, to which other programs connect.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use cargo_sdt::internal::output;
use cargo_sdt::internal::progress::note;
use dtrace_consumer::Interrupt;
use harness::session::{Session, SessionError};
use harness::share::{Share, Socket};
use harness::workload;
use harness::workspace::{build_dir, default_workload};

use crate::bench::Bench;

static INTERRUPT: Interrupt = Interrupt::new();

/// Options of `cargo xtask machine`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// The machine's socket [default: build/machine.sock].
    #[arg(long, global = true, value_name = "PATH")]
    socket: Option<PathBuf>,
    #[command(flatten)]
    bench: Bench,
    /// Load no module.
    #[arg(long, conflicts_with_all = ["module", "route", "patch"])]
    bare: bool,
}

/// Requests to a running machine.
#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Load kernel modules, like kldload(8) and modload(8).
    Load {
        /// Their files.
        #[arg(required = true, value_name = "FILE.ko")]
        files: Vec<PathBuf>,
    },
    /// Unload kernel modules, like kldunload(8) and modunload(8).
    Unload {
        /// Their names, as in `stat`.
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
    /// List the loaded modules.
    Stat,
    /// Replay a log of executions.
    Exec {
        /// The log, in the format of strace -f -e trace=execve -o [default: the recorded one].
        #[arg(long, value_name = "LOG")]
        workload: Option<PathBuf>,
    },
    /// Power the machine off.
    Stop,
}

/// Runs the command.
///
/// # Errors
/// If the kernel could not be booted, refused the request, or has ended.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let default = || build_dir().join("machine.sock");
    let socket = args.socket.clone().unwrap_or_else(default);
    match &args.command {
        Some(command) => ask(&socket, command)?,
        None => stay(&args.bench, args.bare, &socket)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Boots the machine and keeps it.
fn stay(bench: &Bench, bare: bool, path: &Path) -> anyhow::Result<()> {
    // First, because another machine at the socket prevents everything else.
    let socket = Socket::listen(path)?;
    ctrlc::set_handler(|| {
        INTERRUPT.raise();
    })
    .context("cannot handle signals")?;
    let (session, loaded) =
        if bare { (bench.boot_bare(false)?, Vec::new()) } else { bench.boot(false, note)? };
    let share = Share::new(session, socket)?;
    let loaded = if loaded.is_empty() { "no module".into() } else { loaded.join(", ") };
    let (arch, cpus, path) = (bench.arch, bench.cpus, path.display());
    output::print(format_args!(
        "{arch}, {cpus} CPUs, {loaded} loaded. From other shells:\n\n    \
         dtrace --connect unix:{path} -n 'proc:::'\n    \
         cargo xtask machine load FILE.ko | unload NAME | stat | exec [--workload LOG] | stop\n\n\
         Ctrl-C stops the machine.\n"
    ))?;
    Ok(share.serve(|| INTERRUPT.raised())?)
}

/// Sends a request to a running machine.
fn ask(socket: &Path, command: &Command) -> anyhow::Result<()> {
    let mut session = Session::attach(socket)?;
    match command {
        Command::Load { files } => {
            for file in files {
                let name = session.kldload_file(file).map_err(|error| match error {
                    // The error names the file.
                    SessionError::Build(error) => error.into(),
                    error => anyhow::Error::from(error)
                        .context(format!("failed to load {}", file.display())),
                })?;
                output::line(format_args!("loaded {name}"))?;
            }
        }
        Command::Unload { names } => {
            for name in names {
                // kldunload(8) also accepts the name of a file without its suffix.
                let file = format!("{name}.ko");
                let is_file = session.kldstat()?.iter().any(|module| module.file == file);
                let name = if is_file { &file } else { name };
                session.kldunload(name).with_context(|| format!("failed to unload {name}"))?;
                output::line(format_args!("unloaded {name}"))?;
            }
        }
        Command::Stat => {
            output::line(format_args!("{:>2} {:<18} {:>8} Name", "Id", "Address", "Size"))?;
            for module in session.kldstat()? {
                let (id, address, size, file) =
                    (module.id, module.address, module.size, module.file);
                output::line(format_args!("{id:>2} {address:#018x} {size:>8x} {file}"))?;
            }
        }
        Command::Exec { workload } => {
            let log = workload.clone().unwrap_or_else(default_workload);
            let execs = workload::read(&log).context("failed to read the workload")?;
            let per_cpu = session.exec(&execs)?;
            let total: u64 = per_cpu.iter().sum();
            output::line(format_args!("{total} executions, by CPU: {per_cpu:?}"))?;
        }
        Command::Stop => drop(session.power_off()?),
    }
    Ok(())
}
