//! `cargo sdt`: for authors of kernel modules with SDT probes.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use cargo_sdt::project::Project;
use cargo_sdt::{cmd, output};
use clap::Parser;

/// Builds and checks kernel modules with SDT probes, for FreeBSD and illumos.
#[derive(Debug, Parser)]
#[command(name = "cargo sdt", bin_name = "cargo sdt", version, disable_help_subcommand = true)]
enum Sdt {
    /// Writes a crate that is a kernel module, with a probe and something to fire it by hand.
    New(cmd::new::Args),
    /// Builds the package of this folder as a kernel module, checks it, and prints where it is.
    Kmod(cmd::kmod::Args),
    /// Checks linked modules: would the kernel's loader take them, and do their probes hold together?
    Check(cmd::check::Args),
    /// Writes a D library of the structs that a module's probes carry.
    Dlib(cmd::dlib::Args),
}

fn main() -> ExitCode {
    let mut args: Vec<OsString> = std::env::args_os().collect();
    // Cargo names the subcommand again.
    if args.get(1).is_some_and(|first| first == "sdt") {
        args.remove(1);
    }
    let result = match Sdt::parse_from(args) {
        Sdt::New(args) => cmd::new::run(&args),
        Sdt::Kmod(args) => cmd::kmod::run(&args, |package| Project::find(Path::new("."), package)),
        Sdt::Check(args) => cmd::check::run(&args),
        Sdt::Dlib(args) => cmd::dlib::run(&args),
    };
    result.unwrap_or_else(|error| output::failure("cargo-sdt", &error))
}
