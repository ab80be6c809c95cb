//! `cargo xtask embedded`: builds the embedded example and runs it on a board in QEMU. Trace it from other shells.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use cargo_sdt::internal::output;
use harness::embedded;
use harness::workspace::build_dir;

/// Options of `cargo xtask embedded`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The socket of the board's serial line [default: build/board.sock].
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

/// Runs the command, and prints the output of the board until it ends.
///
/// # Errors
/// If the example could not be built, or QEMU could not be started.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let socket = args.socket.clone().unwrap_or_else(|| build_dir().join("board.sock"));
    let mut board = embedded::command(embedded::Target::default(), &socket)?;
    output::print(format_args!(
        "From other shells:\n\n    dtrace --connect unix:{} -n 'sensor:::reading {{ @ = quantize(arg0); }}'\n\n\
         Ctrl-C stops the board.\n",
        socket.display()
    ))?;
    let status = board.status().context("cannot run QEMU")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
