//! `cargo xtask test`: the set-up, then every test there is.

use std::io::IsTerminal as _;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use crate::{lint, watched};
use cargo_sdt::arch::Arch;
use cargo_sdt::module::Module;
use cargo_sdt::platform::{Os, Route};
use cargo_sdt::process::{self, find};
use cargo_sdt::progress::{note, step};
use harness::zig::{Zig, ZigError};
use harness::{kernel, qemu, setup, workspace};

/// A step that says nothing for so long hangs.
const SILENCE: Duration = Duration::from_secs(1800);
/// Packages of modules, and of their companions, which are modules of illumos's native route.
const MODULES: [&str; 2] = [workspace::EXAMPLE, "kmod-test"];
const COMPANIONS: [&str; 2] = ["kmod-example-dtrace", "kmod-test-dtrace"];
/// rustup gets this long to add a component, or to say that it is there.
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

/// Runs the command: every step, whatever the ones before it said.
///
/// # Errors
/// The set-up failed, or which steps did.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let start = Instant::now();
    set_up(args)?;
    let skipped = c_compilers()?;
    let variables: &[_] =
        if args.all { &[(harness::EVERYTHING, "1"), ("PROPTEST_CASES", "2560")] } else { &[] };
    let mut steps = Steps { variables, failed: Vec::new() };

    steps.cargo(&["fmt", "--all", "--check"]);
    // The tests in QEMU are not among --all-targets, since they are not run by a plain `cargo test`.
    steps.cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]);
    let tests = ["--test", "qemu", "--test", "strangers", "--test", "hosts", "--test", "processes"];
    steps.cargo(
        &[&["clippy", "--package", "xtask"], &tests[..], &["--", "-D", "warnings"]].concat(),
    );
    steps.cargo(&["test", "--workspace", "--no-fail-fast"]);
    // Firing sites depend on what the optimiser makes of them.
    steps.cargo(&["test", "--release", "--package", "sdt-core", "--package", "sdt-framework"]);

    steps.cargo(&["test", "--package", "sdt-core", "--features", "off", "--test", "off"]);
    let notes = ["--features", "stapsdt", "--test", "stap", "--test", "trap"];
    steps.cargo(&[&["test", "--package", "sdt-core"], &notes[..]].concat());

    let documented = ["sdt-core", "sdt-macros", "sdt-framework", "sdt-process", "sdt-build"];
    let doc = ["doc", "--no-deps"].into_iter();
    let doc: Vec<_> = doc.chain(documented.iter().flat_map(|package| ["-p", package])).collect();
    steps.cargo_with(&[("RUSTDOCFLAGS", "-D warnings")], &doc);

    // Gate mode needs a folder of its own lest all else be built twice.
    let gate = ["test", "--package", "sdt-core", "--test", "gate", "--target-dir", "target/gate"];
    steps.cargo_with(&[("SDT_PATCH", "gate")], &gate);

    for arch in Arch::ALL {
        steps.step(&format!("the example module for {arch}"), || {
            let module = workspace::example(arch).build(None)?;
            note(format_args!("built and checked {}", module.display()));
            Ok(())
        });
        steps.step(&format!("the stand-in kernel for {arch}"), || {
            note(format_args!("built {}", kernel::build(arch)?.display()));
            Ok(())
        });
    }
    steps.step("clippy for kernels", lint);
    steps.cargo(&["test", "--package", "conformance", "--test", "conformance"]);
    steps.cargo(&["test", "--package", "xtask", "--test", "processes"]);
    if !args.no_qemu {
        for tests in ["qemu", "strangers", "hosts"] {
            steps.cargo(&["test", "--package", "xtask", "--test", tests]);
        }
    }
    if let Some(error) = skipped {
        note(format_args!("SKIPPED: nothing was compared with C: {error}"));
    }
    let seconds = start.elapsed().as_secs();
    if !steps.failed.is_empty() {
        bail!("after {seconds} s, these steps have failed:\n  {}", steps.failed.join("\n  "));
    }
    note(format_args!("all tests passed, in {seconds} s"));
    Ok(ExitCode::SUCCESS)
}

/// The steps, each of which says what it is, and how long it took.
struct Steps<'a> {
    /// What the environment has besides, for `cargo`.
    variables: &'a [(&'a str, &'a str)],
    failed: Vec<String>,
}

impl Steps<'_> {
    fn step(&mut self, what: &str, run: impl FnOnce() -> anyhow::Result<()>) {
        let start = Instant::now();
        note(what);
        let how = match run() {
            Ok(()) => "done",
            Err(error) => {
                note(format_args!("{what} failed: {error:#}"));
                self.failed.push(format!("{what}: {error:#}"));
                "failed"
            }
        };
        note(format_args!("{what}: {how} in {} s", start.elapsed().as_secs()));
    }

    fn cargo(&mut self, args: &[&str]) {
        self.cargo_with(self.variables, args);
    }

    fn cargo_with(&mut self, variables: &[(&str, &str)], args: &[&str]) {
        let set: String =
            variables.iter().map(|(name, value)| format!("{name}={value} ")).collect();
        self.step(&format!("{set}cargo {}", args.join(" ")), || {
            let mut cargo = cargo();
            // It speaks to us, who pass it on.
            let color = std::io::stderr().is_terminal().then_some("--color=always");
            cargo.envs(variables.iter().copied()).args(color).args(args);
            Ok(watched::run(&mut cargo, SILENCE, &mut std::io::stdout())?)
        });
    }
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
        if process::run(cargo().args([subcommand, "--version"]), RUSTUP).is_ok() {
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
    Ok(lint::modules(&Module { route: Route::Provider, ..illumos }, &MODULES)?)
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
