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
    /// Traces a stand-in kernel in QEMU, with the options and the output of dtrace(1).
    Dtrace(Box<cmd::dtrace::Args>),
    /// Boots a stand-in kernel that other shells can trace, or sends a request to a running one.
    Machine(cmd::machine::Args),
    /// Does the set-up and runs every test.
    Test(cmd::test::Args),
    /// Lints code for kernels: the stand-in kernel, and modules with every form of sites.
    ClippyKernels,
    /// Builds a kernel module, checks it, and prints its path.
    Kmod(cargo_sdt::internal::cmd::kmod::Args),
    /// Builds the stand-in kernel and prints its path.
    Kernel(cmd::kernel::Args),
    /// Checks whether the kernel's loader accepts linked modules, and whether their probes are consistent.
    Check(cargo_sdt::internal::cmd::check::Args),
    /// Writes a D library of the structs that a module's probes pass.
    Dlib(cargo_sdt::internal::cmd::dlib::Args),
    /// Runs the embedded example, probes in flash, on a Cortex-M board in QEMU.
    Embedded(cmd::embedded::Args),
    /// Enables, upgrades, downgrades and disables probes in random order while all CPUs fire them.
    Torture(cmd::torture::Args),
    /// Fuzzes the code that reads untrusted bytes.
    Fuzz(cmd::fuzz::Args),
    /// Runs programs of DTrace's own test suite.
    Dsuite(dsuite::Args),
    /// Builds all documentation as one book with search, and prints its path.
    Docs(cmd::docs::Args),
    /// Measures the cost of a probe, compared with other ways to instrument a function.
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
        if is_dtrace {
            dtrace_consumer::cli::failure(&error)
        } else {
            output::failure("xtask", &error)
        }
    })
}
