//! The commands, one in each module.

pub mod check;
pub mod dlib;
pub mod kmod;
pub mod new;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;

use crate::output;
use crate::process;
use crate::project::Project;

/// Builds and checks kernel modules with SDT probes, for FreeBSD and illumos.
#[derive(Debug, Parser)]
#[command(name = "cargo sdt", bin_name = "cargo sdt", version, disable_help_subcommand = true)]
struct Sdt {
    /// Print the whole command line of a program that failed.
    #[arg(long, short, global = true)]
    verbose: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Writes a crate that is a kernel module, with a probe and something to fire it by hand.
    New(new::Args),
    /// Builds the package in this folder as a kernel module, checks it, and prints its path.
    Kmod(kmod::Args),
    /// Checks linked modules: would the kernel's loader take them, and do their probes hold together?
    Check(check::Args),
    /// Writes a D library of the structs that a module's probes carry.
    Dlib(dlib::Args),
}

/// Runs the command line of this process, and returns its exit status.
pub fn main() -> ExitCode {
    let mut args: Vec<OsString> = std::env::args_os().collect();
    // Cargo passes the name of the subcommand on.
    if args.get(1).is_some_and(|first| first == "sdt") {
        args.remove(1);
    }
    let Sdt { verbose, command } = Sdt::parse_from(args);
    if verbose {
        process::show_command_lines();
    }
    let result = match command {
        Command::New(args) => new::run(&args),
        Command::Kmod(args) => kmod::run(&args, |package| Project::find(Path::new("."), package)),
        Command::Check(args) => check::run(&args),
        Command::Dlib(args) => dlib::run(&args),
    };
    result.unwrap_or_else(|error| output::failure("cargo-sdt", &error))
}
