//! `cargo xtask test`: the set-up, then every test there is.

use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::Context as _;

use crate::lint;
use cargo_sdt::arch::Arch;
use cargo_sdt::module::Module;
use cargo_sdt::platform::{Os, Route};
use cargo_sdt::process::{self, find, run_visibly};
use cargo_sdt::progress::{note, step};
use harness::zig::{Zig, ZigError};
use harness::{kernel, qemu, setup, workspace};

/// A step that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(2400);
/// Packages of modules, and of their companions, which are modules of illumos's native route.
const MODULES: [&str; 2] = [workspace::EXAMPLE, "kmod-test"];
const COMPANIONS: [&str; 2] = ["kmod-example-dtrace", "kmod-test-dtrace"];
/// rustup gets this long to add a component.
const RUSTUP: Duration = Duration::from_secs(180);

/// Options of `cargo xtask test`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Leave out the tests that boot a kernel in QEMU.
    #[arg(long)]
    no_qemu: bool,
    /// Run what takes long, too: every build of the module that stresses code generation, and property tests with
    /// ten times as many cases.
    #[arg(long)]
    all: bool,
}

/// Runs the command: stops at the first step that fails.
///
/// # Errors
/// Which step failed.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let start = Instant::now();
    set_up(args)?;
    let skipped = c_compilers()?;
    let all: &[_] =
        if args.all { &[(harness::EVERYTHING, "1"), ("PROPTEST_CASES", "2560")] } else { &[] };

    host(all, &["fmt", "--all", "--check"])?;
    // The tests in QEMU are not among --all-targets, since they are not run by a plain `cargo test`.
    host(all, &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])?;
    let tests = ["--test", "qemu", "--test", "strangers", "--test", "hosts", "--test", "processes"];
    host(
        all,
        &[&["clippy", "--package", "xtask"], &tests[..], &["--", "-D", "warnings"]].concat(),
    )?;
    host(all, &["test", "--workspace", "--no-fail-fast"])?;
    // Firing sites depend on what the optimiser makes of them.
    host(all, &["test", "--release", "--package", "sdt-core", "--package", "sdt-framework"])?;

    host(all, &["test", "--package", "sdt-core", "--features", "off", "--test", "off"])?;
    let notes = ["--features", "stapsdt", "--test", "stap", "--test", "trap"];
    host(all, &[&["test", "--package", "sdt-core"], &notes[..]].concat())?;

    let documented = ["sdt-core", "sdt-macros", "sdt-framework", "sdt-process", "sdt-build"];
    let doc = ["doc", "--no-deps"].into_iter();
    let doc: Vec<_> = doc.chain(documented.iter().flat_map(|package| ["-p", package])).collect();
    host(&[("RUSTDOCFLAGS", "-D warnings")], &doc)?;

    // Gate mode needs a folder of its own lest all else be built twice.
    let gate = ["test", "--package", "sdt-core", "--test", "gate", "--target-dir", "target/gate"];
    host(&[("SDT_PATCH", "gate")], &gate)?;

    for arch in Arch::ALL {
        let module = workspace::example(arch).build(None);
        let module = module.with_context(|| format!("the example module for {arch}"))?;
        note(format_args!("built and checked {}", module.display()));
        let kernel = kernel::build(arch);
        let kernel = kernel.with_context(|| format!("the stand-in kernel for {arch}"))?;
        note(format_args!("built {}", kernel.display()));
    }
    lint()?;
    host(all, &["test", "--package", "conformance", "--test", "conformance"])?;
    host(all, &["test", "--package", "xtask", "--test", "processes"])?;
    if !args.no_qemu {
        host(all, &["test", "--package", "xtask", "--test", "qemu"])?;
        host(all, &["test", "--package", "xtask", "--test", "strangers"])?;
        host(all, &["test", "--package", "xtask", "--test", "hosts"])?;
    }
    if let Some(error) = skipped {
        note(format_args!("SKIPPED: nothing was compared with C: {error}"));
    }
    note(format_args!("all tests passed, in {} s", start.elapsed().as_secs()));
    Ok(ExitCode::SUCCESS)
}

/// Everything the steps need, found or installed, before the first of them runs.
fn set_up(args: &Args) -> anyhow::Result<()> {
    cargo_sdt::setup::lld()?;
    for arch in Arch::ALL {
        note(format_args!("toolchain for {arch}: {}", setup::toolchain(arch)?));
        if !args.no_qemu {
            qemu::find(arch)?;
        }
    }
    for (component, subcommand) in [("rustfmt", "fmt"), ("clippy", "clippy")] {
        if process::run(cargo().args([subcommand, "--version"]), LIMIT).is_ok() {
            continue;
        }
        let rustup = find("rustup").with_context(|| {
            format!("cargo {subcommand} is missing; install {component} and try again")
        })?;
        let mut add = Command::new(rustup);
        add.args(["component", "add", component]).current_dir(workspace::root());
        step(&format!("rustup component add {component}"), || process::run(&mut add, RUSTUP))
            .with_context(|| format!("cargo {subcommand} is missing"))?;
    }
    for arch in Arch::ALL {
        cargo_sdt::setup::clippy(&setup::toolchain(arch)?)?;
    }
    Ok(())
}

/// Clippy, on what the host's does not see.
fn lint() -> anyhow::Result<()> {
    let start = Instant::now();
    for arch in Arch::ALL {
        lint::stand_in_kernel(arch)?;
        for route in [Route::Native, Route::Provider] {
            lint::modules(&Module { route, ..workspace::example(arch) }, &MODULES)?;
        }
    }
    // The other two forms of a site of the native route, which carry five arguments.
    for release in ["14", "11"] {
        let module = Module { freebsd: release.parse()?, ..workspace::example(Arch::X86_64) };
        lint::modules(&module, &MODULES)?;
    }
    let illumos = Module { os: Os::Illumos, ..workspace::example(Arch::X86_64) };
    lint::modules(&illumos, &[MODULES, COMPANIONS].concat())?;
    lint::modules(&Module { route: Route::Provider, ..illumos }, &MODULES)?;
    note(format_args!("clippy for kernels: done in {} s", start.elapsed().as_secs()));
    Ok(())
}

/// The C compilers with FreeBSD's headers, fetched before the tests want them. Where they cannot be, the tests that
/// do are skipped, and why is returned.
fn c_compilers() -> Result<Option<ZigError>, ZigError> {
    for freebsd in Zig::HEADERS {
        match Zig::with_headers_of(freebsd) {
            Ok(_) => {}
            Err(error @ ZigError::Unavailable { .. }) => return Ok(Some(error)),
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// The cargo that runs us.
fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let toolchain = std::env::var_os("RUSTUP_TOOLCHAIN");
    process::clean_cargo_env(&mut command);
    if let Some(toolchain) = toolchain {
        command.env("RUSTUP_TOOLCHAIN", toolchain);
    }
    command.current_dir(workspace::root());
    command
}

fn host(variables: &[(&str, &str)], args: &[&str]) -> anyhow::Result<()> {
    let set: String = variables.iter().map(|(name, value)| format!("{name}={value} ")).collect();
    let what = format!("{set}cargo {}", args.join(" "));
    let start = Instant::now();
    note(&what);
    run_visibly(cargo().envs(variables.iter().copied()).args(args), LIMIT)
        .with_context(|| format!("{what} failed"))?;
    note(format_args!("{what}: done in {} s", start.elapsed().as_secs()));
    Ok(())
}
