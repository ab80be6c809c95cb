//! `cargo xtask kernel`: builds the stand-in kernel, prints where it is.

use std::process::ExitCode;

use crate::build;
use crate::workspace::Arch;

/// Options of `cargo xtask kernel`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Architecture of the kernel.
    #[arg(long, value_enum, default_value_t)]
    arch: Arch,
}

/// Runs the command.
///
/// # Errors
/// The kernel could not be built.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    println!("{}", build::kernel(args.arch)?.display());
    Ok(ExitCode::SUCCESS)
}
