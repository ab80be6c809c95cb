//! `cargo xtask bench`: measures the cost of a probe, compared with other ways to instrument a function.

use std::ffi::OsString;
use std::process::{Command, ExitCode};
use std::time::Duration;

use cargo_sdt::internal::process::{clean_cargo_env, run_visibly};
use cargo_sdt::internal::targets::CODE_SHAPE;
use harness::workspace;

/// A build from scratch takes most of this time.
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// Every function starts at a cache line, so that its position does not affect the result. The other flags are those of
/// a kernel module.
const RUSTFLAGS: [&str; 3] = [CODE_SHAPE[0], CODE_SHAPE[1], "-Cllvm-args=-align-all-functions=6"];

/// Options of `cargo xtask bench`: `--beside-c`, `--process`, and those of the benchmark, which are `--rounds N` and `--quick`.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    /// Show the cost of a site in a module for FreeBSD, in C and in Rust, instead; with `--update`, write it to
    /// docs/benchmarks.md too.
    #[arg(long)]
    beside_c: bool,
    /// Show the cost of a hit in a process that sdt-process traces, instead; with `--beside FILE`, also that of another
    /// build of this benchmark.
    #[arg(long, conflicts_with = "beside_c")]
    process: bool,
    /// Options of the benchmark: `--rounds N`, `--quick`, `--help`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTIONS")]
    options: Vec<OsString>,
}

/// Runs the command.
///
/// # Errors
/// The benchmark could not be built, or one of its functions did not do what it should.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut cargo = Command::new("cargo");
    clean_cargo_env(&mut cargo).arg("run").current_dir(workspace::root());
    if args.beside_c {
        cargo.args(["--package", "conformance"]);
    } else {
        let package = if args.process { "bench-process" } else { "bench" };
        cargo.args(["--profile", "bench", "--package", package]);
        // A separate folder, because these flags differ from all others.
        cargo.args(["--target-dir", "target/bench"]);
        cargo.env("CARGO_ENCODED_RUSTFLAGS", RUSTFLAGS.join("\u{1f}"));
    }
    cargo.arg("--").args(&args.options);
    run_visibly(&mut cargo, LIMIT)?;
    Ok(ExitCode::SUCCESS)
}
