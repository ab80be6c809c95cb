//! `cargo xtask`: builds, links, checks and runs everything in this workspace.

use std::process::ExitCode;

use clap::Parser;
use xtask::cmd;

/// Builds, checks and runs kernel modules with SDT probes.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", disable_help_subcommand = true)]
enum Xtask {
    /// Builds a kernel module, checks it, and prints where it is.
    Kmod(cmd::kmod::Args),
    /// Builds the stand-in kernel and prints where it is.
    Kernel(cmd::kernel::Args),
    /// Checks linked modules: would FreeBSD's loader take them, and do their probes hold together?
    Check(cmd::check::Args),
}

fn main() -> ExitCode {
    let result = match Xtask::parse() {
        Xtask::Kmod(args) => cmd::kmod::run(&args),
        Xtask::Kernel(args) => cmd::kernel::run(&args),
        Xtask::Check(args) => cmd::check::run(&args),
    };
    result.unwrap_or_else(|error| {
        eprintln!("xtask: {error:#}");
        ExitCode::FAILURE
    })
}
