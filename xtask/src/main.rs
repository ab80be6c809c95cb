//! `cargo xtask`: builds, links, checks and runs everything in this workspace.

use std::ffi::OsString;
use std::process::ExitCode;

use cargo_sdt::internal::{output, process, progress};
use clap::Parser;
use harness::workspace;
use xtask::cmd;

/// Builds, checks and runs kernel modules with SDT probes.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", disable_help_subcommand = true)]
enum Xtask {
    /// Traces a stand-in kernel in QEMU: takes dtrace(1)'s options, prints what it prints.
    Dtrace(Box<cmd::dtrace::Args>),
    /// Boots a stand-in kernel that stays, to be traced from other shells; or asks one that runs.
    Machine(cmd::machine::Args),
    /// Does the set-up and runs every test.
    Test(cmd::test::Args),
    /// Lints what is compiled for kernels: the stand-in kernel, and modules in every form that a site has.
    ClippyKernels,
    /// Builds a kernel module, checks it, and prints where it is.
    Kmod(cargo_sdt::internal::cmd::kmod::Args),
    /// Builds the stand-in kernel and prints where it is.
    Kernel(cmd::kernel::Args),
    /// Checks linked modules: would the kernel's loader take them, and do their probes hold together?
    Check(cargo_sdt::internal::cmd::check::Args),
    /// Writes a D library of the structs that a module's probes carry.
    Dlib(cargo_sdt::internal::cmd::dlib::Args),
    /// Runs the embedded example, probes in flash, on a Cortex-M board in QEMU.
    Embedded(cmd::embedded::Args),
    /// Enables, upgrades, downgrades and disables probes in random order while all CPUs fire them.
    Torture(cmd::torture::Args),
    /// Runs inputs made at random, and by what they reach, through what reads bytes of others.
    Fuzz(cmd::fuzz::Args),
    /// Runs programs of DTrace's own test suite.
    Dsuite(dsuite::Args),
    /// Builds all documentation as one book with search, and prints its path.
    Docs(cmd::docs::Args),
    /// Shows what a probe costs, beside other ways to instrument a function.
    Bench(cmd::bench::Args),
}

fn main() -> ExitCode {
    progress::call_us("xtask");
    process::show_command_lines();
    let args: Vec<OsString> = std::env::args_os().collect();
    let is_dtrace = cmd::dtrace::is_ours(&args);
    if is_dtrace && args.len() == 2 {
        return cmd::dtrace::usage();
    }
    let command = match Xtask::try_parse_from(args) {
        Ok(command) => command,
        Err(error) if is_dtrace => return cmd::dtrace::usage_error(&error),
        Err(error) => error.exit(),
    };
    let result = match command {
        Xtask::Dtrace(args) => cmd::dtrace::run(&args),
        Xtask::Machine(args) => cmd::machine::run(&args),
        Xtask::Test(args) => cmd::test::run(&args),
        Xtask::ClippyKernels => cmd::clippy_kernels::run(),
        Xtask::Kmod(args) => cargo_sdt::internal::cmd::kmod::run(&args, workspace::package),
        Xtask::Kernel(args) => cmd::kernel::run(&args),
        Xtask::Check(args) => cargo_sdt::internal::cmd::check::run(&args),
        Xtask::Dlib(args) => cargo_sdt::internal::cmd::dlib::run(&args),
        Xtask::Embedded(args) => cmd::embedded::run(&args),
        Xtask::Torture(args) => cmd::torture::run(&args),
        Xtask::Fuzz(args) => cmd::fuzz::run(&args),
        Xtask::Dsuite(args) => dsuite::run(&args),
        Xtask::Docs(args) => cmd::docs::run(&args),
        Xtask::Bench(args) => cmd::bench::run(&args),
    };
    result.unwrap_or_else(|error| {
        if is_dtrace { dtrace::cli::failure(&error) } else { output::failure("xtask", &error) }
    })
}
