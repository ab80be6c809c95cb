//! `cargo xtask kernel`: builds the stand-in kernel, and prints its path.

use std::process::ExitCode;

use cargo_sdt::internal::arch::Arch;
use cargo_sdt::internal::output;
use harness::kernel;

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
    output::line(kernel::build(args.arch)?.display())?;
    Ok(ExitCode::SUCCESS)
}
