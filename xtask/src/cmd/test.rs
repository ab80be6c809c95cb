//! `cargo xtask test`: the set-up, then every test there is.

use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::Context as _;

use crate::build::{self, Module};
use crate::lint;
use crate::platform::{Os, Route};
use crate::process::{self, find, run_visibly};
use crate::progress::{note, step};
use crate::setup;
use crate::workspace::{self, Arch};
use crate::zig::{Zig, ZigError};

/// A step that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(2400);
/// Packages of modules, and of their companions, which are modules of illumos's native route.
const MODULES: [&str; 2] = [build::EXAMPLE, "kmod-test"];
const COMPANIONS: [&str; 2] = ["kmod-example-dtrace", "kmod-test-dtrace"];
/// rustup gets this long to add a component.
const RUSTUP: Duration = Duration::from_secs(180);

/// Options of `cargo xtask test`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Leave out the tests that boot a kernel in QEMU.
    #[arg(long)]
    no_qemu: bool,
}

/// Runs the command: stops at the first step that fails.
///
/// # Errors
/// Which step failed.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let start = Instant::now();
    set_up(args)?;
    let skipped = c_compilers()?;

    host(&["fmt", "--all", "--check"])?;
    // The tests in QEMU are not among --all-targets, since they are not run by a plain `cargo test`.
    host(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])?;
    host(&["clippy", "--package", "xtask", "--test", "qemu", "--", "-D", "warnings"])?;
    host(&["test", "--workspace", "--no-fail-fast"])?;
    // Firing sites depend on what the optimiser makes of them.
    host(&["test", "--release", "--package", "sdt-core", "--package", "sdt-framework"])?;

    // Gate mode is a feature of its own, and needs a folder of its own lest all else be built twice.
    host(&[
        "test",
        "--package",
        "sdt-core",
        "--features",
        "gate",
        "--test",
        "gate",
        "--target-dir",
        "target/gate",
    ])?;

    for arch in Arch::ALL {
        let module = Module::example(arch).build(None);
        let module = module.with_context(|| format!("the example module for {arch}"))?;
        note(format_args!("built and checked {}", module.display()));
        let kernel = build::kernel(arch);
        let kernel = kernel.with_context(|| format!("the stand-in kernel for {arch}"))?;
        note(format_args!("built {}", kernel.display()));
    }
    lint()?;
    host(&["test", "--package", "conformance", "--test", "conformance"])?;
    if !args.no_qemu {
        host(&["test", "--package", "xtask", "--test", "qemu"])?;
    }
    if let Some(error) = skipped {
        note(format_args!("SKIPPED: nothing was compared with C: {error}"));
    }
    note(format_args!("all tests passed, in {} s", start.elapsed().as_secs()));
    Ok(ExitCode::SUCCESS)
}

/// Everything the steps need, found or installed, before the first of them runs.
fn set_up(args: &Args) -> anyhow::Result<()> {
    setup::lld()?;
    for arch in Arch::ALL {
        note(format_args!("toolchain for {arch}: {}", setup::toolchain(arch)?));
        if !args.no_qemu {
            setup::qemu(arch)?;
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
        setup::clippy(&setup::toolchain(arch)?)?;
    }
    Ok(())
}

/// Clippy, on what the host's does not see.
fn lint() -> anyhow::Result<()> {
    let start = Instant::now();
    for arch in Arch::ALL {
        lint::kernel(arch)?;
        for route in [Route::Native, Route::Provider] {
            lint::modules(&Module { route, ..Module::example(arch) }, &MODULES)?;
        }
    }
    // The other two forms of a site of the native route, which carry five arguments.
    for release in ["14", "11"] {
        let freebsd = release.parse()?;
        let default_features = false;
        let module = Module { freebsd, default_features, ..Module::example(Arch::X86_64) };
        lint::modules(&module, &MODULES)?;
    }
    let illumos = Module { os: Os::Illumos, ..Module::example(Arch::X86_64) };
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

fn host(args: &[&str]) -> anyhow::Result<()> {
    let what = format!("cargo {}", args.join(" "));
    let start = Instant::now();
    note(&what);
    run_visibly(cargo().args(args), LIMIT).with_context(|| format!("{what} failed"))?;
    note(format_args!("{what}: done in {} s", start.elapsed().as_secs()));
    Ok(())
}
