//! `cargo xtask embedded`: builds the embedded example and runs it on a board in QEMU.

use std::process::ExitCode;

use cargo_sdt::output;
use harness::embedded;

/// Options of `cargo xtask embedded`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs the command: prints what the board prints.
///
/// # Errors
/// The example could not be built, or failed on the board.
pub fn run(_: &Args) -> anyhow::Result<ExitCode> {
    output::print(embedded::output()?)?;
    Ok(ExitCode::SUCCESS)
}
