//! `cargo xtask test`: the set-up, then every test there is.

use std::io::IsTerminal as _;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use crate::steps::{Labelled, Step, Steps};
use crate::{lint, watched};
use cargo_sdt::internal::arch::Arch;
use cargo_sdt::internal::module::Module;
use cargo_sdt::internal::platform::{Os, Route};
use cargo_sdt::internal::process::{self, find};
use cargo_sdt::internal::progress::{note, step};
use harness::zig::{Zig, ZigError};
use harness::{kernel, qemu, setup, workspace};

/// A `cargo` that prints nothing for so long hangs.
const SILENCE: Duration = Duration::from_secs(1800);
/// Packages of modules, and of their companions, which are modules of illumos's native route.
const MODULES: [&str; 2] = [workspace::EXAMPLE, "kmod-test"];
const COMPANIONS: [&str; 2] = ["kmod-example-dtrace", "kmod-test-dtrace"];
/// The programs of tests that a plain `cargo test` leaves out.
const BY_NAME: [&str; 5] = ["conformance", "processes", "qemu", "strangers", "hosts"];
/// Those of them that boot a kernel.
const EMULATED: [&str; 3] = ["qemu", "strangers", "hosts"];
/// The packages whose documentation is built.
const DOCUMENTED: [&str; 5] =
    ["sdt-core", "sdt-macros", "sdt-framework", "sdt-process", "sdt-build"];
/// Settings of cargo's with which the crates that have and fire probes are optimised, and nothing else: compiling
/// proptest or the compiler of D once more would prove nothing.
const OPTIMISED: &str = "xtask/optimised.toml";
/// Compiles sdt-core, and what depends on it, beside the ones that all other tests use, which the next step would have to
/// compile again otherwise. The setting itself does not matter.
const APART: &str = "profile.dev.package.sdt-core.debug=1";
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
    /// Run one step only; a name that no step has lists them.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
}

/// Runs the command: every step, even if steps before it fail.
///
/// # Errors
/// The set-up failed, there is no such step, or steps failed: which ones.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let start = Instant::now();
    let mut steps = steps(args);
    if let Some(name) = &args.only {
        steps = steps.only(name)?;
    }
    set_up(args)?;
    // A single step that wants them fetches them itself.
    let skipped = if args.only.is_some() { None } else { c_compilers()? };
    let report = steps.run();
    if let Some(error) = skipped {
        note(format_args!("SKIPPED: nothing was compared with C: {error}"));
    }
    let seconds = start.elapsed().as_secs();
    note(format_args!("the longest steps of {seconds} s:{}", report.longest()));
    let failed = report.failed();
    if !failed.is_empty() {
        bail!("after {seconds} s, these steps have failed:\n  {}", failed.join("\n  "));
    }
    note(format_args!("all tests passed, in {seconds} s"));
    Ok(ExitCode::SUCCESS)
}

/// All steps. `--workspace` is in every command that tests: cargo switches on the features that the packages it is to build
/// want of their dependencies, and compiles a dependency once for each set of features.
fn steps(args: &Args) -> Steps<'static> {
    let all: &[_] = &[(harness::EVERYTHING, "1"), ("PROPTEST_CASES", "2560")];
    let variables = if args.all { all } else { &[] };
    let cargo = |name, commands: &[&[&'static str]]| {
        let commands: Vec<_> = commands.iter().map(|command| command.to_vec()).collect();
        Step::new(name, move |to| {
            commands.iter().try_for_each(|command| cargo_with(variables, command, to))
        })
    };
    let by_name = BY_NAME.map(|name| ["--test", name]);
    let by_name = by_name.as_flattened();
    let first = vec![
        cargo("fmt", &[&["fmt", "--all", "--check"]]),
        cargo(
            "clippy",
            &[
                &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"],
                // Not among --all-targets, since a plain `cargo test` does not run them.
                &[&["clippy", "--workspace"], by_name, &["--", "-D", "warnings"]].concat(),
            ],
        ),
        cargo(
            "build",
            &[
                &["test", "--workspace", "--no-run"],
                &[&["test", "--workspace", "--no-run"], by_name].concat(),
            ],
        ),
    ];

    // Compiled for kernels, in a folder of their own.
    let beside = vec![Step::new("modules", |_| modules()), Step::new("clippy-kernels", |_| lint())];

    // The longest first: nothing long is left to wait for at the end.
    let emulated = EMULATED.iter().filter(|_| !args.no_qemu);
    let mut then = vec![cargo("host", &[&["test", "--workspace", "--no-fail-fast"]])];
    then.extend(emulated.map(|name| cargo(name, &[&["test", "--workspace", "--test", name]])));
    let optimised = ["-p", "sdt-core", "-p", "sdt-framework", "--config", OPTIMISED];
    let optimised = [&optimised[..], &["--features", "sdt-framework/noise"]].concat();
    then.extend([
        // Firing sites depend on what the optimiser makes of them.
        cargo("optimised", &[&[&["test", "--no-fail-fast"], &optimised[..]].concat()]),
        cargo("conformance", &[&["test", "--workspace", "--test", "conformance"]]),
        cargo("processes", &[&["test", "--workspace", "--test", "processes"]]),
        cargo("off", &[&["test", "--workspace", "--features", "sdt-core/off", "--test", "off"]]),
        cargo("stapsdt", &[&STAPSDT]),
        Step::new("gate", move |to| {
            let gate = ["test", "--workspace", "--test", "gate", "--config", APART];
            cargo_with(&[variables, &[("SDT_PATCH", "gate")]].concat(), &gate, to)
        }),
        Step::new("doc", |to| {
            let packages = DOCUMENTED.iter().flat_map(|package| ["-p", package]);
            let doc: Vec<_> = ["doc", "--no-deps"].into_iter().chain(packages).collect();
            cargo_with(&[("RUSTDOCFLAGS", "-D warnings")], &doc, to)
        }),
    ]);
    Steps { first, beside, then }
}

/// Sites with SystemTap notes.
const STAPSDT: [&str; 8] =
    ["test", "--workspace", "--features", "sdt-core/stapsdt", "--test", "stap", "--test", "trap"];

/// Runs cargo, with these variables in its environment besides.
fn cargo_with(variables: &[(&str, &str)], args: &[&str], to: Labelled) -> anyhow::Result<()> {
    let set: String = variables.iter().map(|(name, value)| format!("{name}={value} ")).collect();
    let line = format!("{set}cargo {}", args.join(" "));
    note(&line);
    let mut cargo = cargo();
    // Its output is a pipe, whose lines we pass on.
    let color = std::io::stderr().is_terminal().then_some("--color=always");
    cargo.envs(variables.iter().copied()).args(color).args(args);
    watched::run(&mut cargo, SILENCE, &mut to.out(), &mut to.err()).context(line)
}

/// The example module and the stand-in kernel, which most of the tests in QEMU take.
fn modules() -> anyhow::Result<()> {
    for arch in Arch::ALL {
        let module = workspace::example(arch).build(None);
        let module = module.with_context(|| format!("the example module for {arch}"))?;
        note(format_args!("built and checked {}", module.display()));
        let kernel = kernel::build(arch);
        let kernel = kernel.with_context(|| format!("the stand-in kernel for {arch}"))?;
        note(format_args!("built {}", kernel.display()));
    }
    Ok(())
}

/// Everything the steps need, found or installed, before the first of them runs.
fn set_up(args: &Args) -> anyhow::Result<()> {
    cargo_sdt::internal::setup::lld()?;
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
        cargo_sdt::internal::setup::clippy(&setup::toolchain(arch)?)?;
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
    // Which cargo runs, and how it builds, is the same as of the cargo that built us: what is built already is not built again.
    let kept = ["RUSTUP_TOOLCHAIN", "CARGO_INCREMENTAL"];
    let kept = kept.map(|name| (name, std::env::var_os(name)));
    process::clean_cargo_env(&mut command);
    for (name, value) in kept {
        command.envs(value.map(|value| (name, value)));
    }
    // As in the workspace's profile; trybuild compiles all dependencies of its tests in a workspace of its own.
    command.env("CARGO_PROFILE_DEV_DEBUG", "false");
    command.current_dir(workspace::root());
    command
}
