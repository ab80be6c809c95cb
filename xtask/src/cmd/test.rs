//! `cargo xtask test`: does the set-up, then runs all tests.

use std::io::IsTerminal as _;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use crate::steps::{Running, Step, Steps};
use crate::watched;
use cargo_sdt::internal::arch::Arch;
use cargo_sdt::internal::process::{self, find};
use cargo_sdt::internal::progress::{note, step};
use harness::zig::{Zig, ZigError};
use harness::{qemu, setup, workspace};

/// A `cargo` that prints nothing for this time hangs.
const SILENCE: Duration = Duration::from_secs(1800);
/// The programs of tests that a plain `cargo test` leaves out.
const BY_NAME: [&str; 5] = ["conformance", "processes", "qemu", "strangers", "foreign-kernel"];
/// Those of them that boot a kernel.
const EMULATED: [&str; 3] = ["qemu", "strangers", "foreign-kernel"];
/// The packages whose documentation is built. With `recording-host`, cargo enables the same features of their dependencies as
/// for the step `clippy`, and does not check them again.
const DOCUMENTED: [&str; 6] =
    ["sdt-core", "sdt-macros", "sdt-framework", "sdt-process", "sdt-build", "recording-host"];
/// Settings of cargo that optimise only the crates with probes: compiling proptest or the D compiler again would prove
/// nothing.
const OPTIMISED: &str = "xtask/optimised.toml";
/// The tests of [`OPTIMISED`]: those whose result can depend on the optimiser, because a site fires in them, because
/// threads race, or because they compare code and frames. The other tests compute values, and `host` runs them; kernels
/// in QEMU run the optimised framework.
const OPTIMISED_TESTS: [&str; 20] = [
    "arguments",
    "attach",
    "batch",
    "captures",
    "concurrency",
    "described",
    "firing",
    "frames",
    "groups",
    "include",
    "jump",
    "link",
    "preempted",
    "protocol",
    "read_only",
    "runtime",
    "runtime_image",
    "runtime_probes",
    "same_place",
    "trap",
];
/// A setting that differs from those of all other tests. With it, the step `gate` compiles its own sdt-core and dependents, so
/// that cargo need not compile the other variant again for the next step. The value has no other purpose.
const APART: &str = "profile.dev.package.sdt-core.debug=1";
/// The time limit for rustup to add a component, or to report that it exists.
const RUSTUP: Duration = Duration::from_secs(180);

/// Options of `cargo xtask test`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Leave out the tests that boot a kernel in QEMU.
    #[arg(long)]
    no_qemu: bool,
    /// Also run long tests: every build of the module that stresses code generation, property tests with ten times as
    /// many cases, four times as many changed modules, and the tests of the command and the machine on each
    /// architecture.
    #[arg(long)]
    all: bool,
    /// Run one step only; an unknown name lists the steps.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
}

/// Runs the command: every step, even after failed steps.
///
/// # Errors
/// If the set-up failed, if there is no such step, or a list of the failed steps.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let start = Instant::now();
    // Requested at the start, because a step may replace the file.
    let program = std::env::current_exe()?;
    let mut steps = steps(args, &program);
    if let Some(name) = &args.only {
        steps = steps.only(name)?;
    }
    set_up(args)?;
    // A single step that needs the C compilers fetches them itself.
    let fetch = || if args.only.is_some() { Ok(None) } else { c_compilers() };
    let (report, fetched) = thread::scope(|scope| {
        // The steps that run first do not need them.
        let fetching = scope.spawn(fetch);
        (steps.run(), fetching.join())
    });
    let mut failed = report.failed();
    match fetched.unwrap_or_else(|panic| std::panic::resume_unwind(panic)) {
        Ok(None) => {}
        Ok(Some(error)) => note(format_args!("SKIPPED: the comparison with C: {error}")),
        Err(error) => failed.push(error.to_string()),
    }
    let (seconds, cpu) = (start.elapsed().as_secs(), report.cpu().as_secs());
    note(format_args!(
        "the longest steps ({seconds} s in total, {cpu} s of CPU time):{}",
        report.longest()
    ));
    if !failed.is_empty() {
        bail!("after {seconds} s, these steps have failed:\n  {}", failed.join("\n  "));
    }
    note(format_args!("all tests passed, in {seconds} s"));
    Ok(ExitCode::SUCCESS)
}

/// Returns all steps. [`workspace::TESTED`] is in every command that tests: cargo compiles a dependency once for each
/// set of features, which depends on the selected packages.
fn steps<'a>(args: &Args, program: &'a Path) -> Steps<'a> {
    let all: &[_] = &[(harness::EVERYTHING, "1"), ("PROPTEST_CASES", "2560")];
    let variables = if args.all { all } else { &[] };
    let cargo = |name, commands: &[&[&'static str]]| {
        let commands: Vec<_> = commands.iter().map(|command| command.to_vec()).collect();
        Step::new(name, move |step| {
            commands.iter().try_for_each(|command| cargo_with(variables, command, step))
        })
    };
    let test = |args: &[&'static str]| [&["test"][..], &workspace::TESTED, args].concat();
    let by_name = BY_NAME.map(|name| ["--test", name]);
    let by_name = by_name.as_flattened();
    let first = vec![
        cargo("fmt", &[&["fmt", "--all", "--check"]]),
        cargo(
            "clippy",
            &[
                &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"],
                // Not part of --all-targets, because a plain `cargo test` does not run them.
                &[&["clippy", "--workspace"], by_name, &["--", "-D", "warnings"]].concat(),
            ],
        ),
        cargo("build", &[&test(&["--no-run"]), &test(&[&["--no-run"], by_name].concat())]),
    ];

    // Compiled for kernels, in a separate folder.
    let beside = vec![
        Step::new("modules", move |step| {
            for arch in Arch::ALL {
                xtask(program, &["kmod", "--arch", arch.name()], step)?;
                xtask(program, &["kernel", "--arch", arch.name()], step)?;
            }
            Ok(())
        }),
        Step::new("clippy-kernels", move |step| xtask(program, &["clippy-kernels"], step)),
    ];

    // The longest step first, so that no long step remains at the end.
    let emulated = EMULATED.iter().filter(|_| !args.no_qemu);
    let mut then = vec![cargo("host", &[&test(&["--no-fail-fast"])])];
    let ignored: &[_] = if args.all { &["--", "--include-ignored"] } else { &[] };
    then.extend(
        emulated.map(|name| cargo(name, &[&test(&[&["--test", name][..], ignored].concat())])),
    );
    let optimised =
        ["-p", "sdt-core", "-p", "sdt-framework", "--config", OPTIMISED, "--no-fail-fast"];
    let tests = OPTIMISED_TESTS.map(|name| ["--test", name]);
    let optimised = [&["test"][..], &optimised, tests.as_flattened()].concat();
    then.extend([
        // The results of firing sites depend on the optimiser.
        cargo("optimised", &[&optimised]),
        cargo("conformance", &[&test(&["--test", "conformance"])]),
        cargo("processes", &[&test(&["--test", "processes"])]),
        cargo("off", &[&test(&["--features", "sdt-core/off", "--test", "off"])]),
        // Sites with SystemTap notes.
        cargo(
            "stapsdt",
            &[&test(&["--features", "sdt-core/stapsdt", "--test", "stap", "--test", "trap"])],
        ),
        Step::new("gate", move |step| {
            let gate = test(&["--test", "gate", "--config", APART]);
            cargo_with(&[variables, &[("SDT_PATCH", "gate")]].concat(), &gate, step)
        }),
        Step::new("doc", |step| {
            let doc = [&["doc", "--no-deps"], &documented()[..]].concat();
            cargo_with(&[("RUSTDOCFLAGS", "-D warnings")], &doc, step)
        }),
    ]);
    Steps { first, beside, then }
}

/// Returns the arguments of `cargo doc` that select the packages whose documentation is built.
pub fn documented() -> Vec<&'static str> {
    DOCUMENTED.iter().flat_map(|package| ["-p", package]).collect()
}

/// Runs cargo with these additional environment variables.
fn cargo_with(variables: &[(&str, &str)], args: &[&str], step: &mut Running) -> anyhow::Result<()> {
    let set: String = variables.iter().map(|(name, value)| format!("{name}={value} ")).collect();
    let mut cargo = cargo();
    // Its output is a pipe, whose lines are passed on.
    let color = std::io::stderr().is_terminal().then_some("--color=always");
    cargo.envs(variables.iter().copied()).args(color).args(args);
    watch(&mut cargo, format!("{set}cargo {}", args.join(" ")), step)
}

/// Runs another command of this program.
fn xtask(program: &Path, args: &[&str], step: &mut Running) -> anyhow::Result<()> {
    watch(Command::new(program).args(args), format!("cargo xtask {}", args.join(" ")), step)
}

/// Runs a command of a step, which `line` shows.
fn watch(command: &mut Command, line: String, step: &mut Running) -> anyhow::Result<()> {
    note(&line);
    let (cpu, result) = watched::run(command, SILENCE, &mut step.out(), &mut step.err());
    step.used(cpu);
    result.context(line)
}

/// Finds or installs everything that the steps need, before the first of them runs.
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

/// Fetches the C compilers with FreeBSD's headers. If they cannot be fetched, the tests that need them are skipped; returns the
/// reason.
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

/// Returns the cargo that runs this program.
fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // The same cargo with the same settings as the one that built this program, so that it does not compile anything
    // again.
    process::clean_cargo_env(&mut command).envs(workspace::settings());
    // As in the workspace's profile, because trybuild compiles all dependencies of its tests in a separate workspace. With this
    // folder, which cargo uses for the workspace anyway, trybuild finds the macros of the registry that the workspace has compiled.
    command.env("CARGO_PROFILE_DEV_DEBUG", "false");
    command.env("CARGO_BUILD_BUILD_DIR", workspace::root().join("target"));
    command.current_dir(workspace::root());
    command
}
