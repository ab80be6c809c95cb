//! Finds or installs programs that only tests need.

use std::fs::File;
use std::process::Command;
use std::time::Duration;

use cargo_sdt::internal::arch::Arch;
use cargo_sdt::internal::process;
use cargo_sdt::internal::progress::{note, step};
use cargo_sdt::internal::setup::{SetupError, install, program};
use cargo_sdt::internal::toolchain::Toolchain;

use crate::workspace;

/// Installing may take a while on a slow line.
const INSTALL: Duration = Duration::from_secs(1800);
const SHORT: Duration = Duration::from_secs(60);

/// Returns the toolchain for modules and kernels of this workspace; installs one if none exists.
///
/// # Errors
/// No toolchain exists and none could be installed.
pub fn toolchain(arch: Arch) -> Result<Toolchain, SetupError> {
    cargo_sdt::internal::setup::toolchain(&workspace::project(), arch)
}

/// Returns Python's installer as a command without arguments; installs it if it is missing.
///
/// # Errors
/// The component is missing and cannot be installed.
pub fn pip() -> Result<Command, SetupError> {
    let python = program("python3", "python3")?;
    let pip = || {
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip"]).env("PIP_ROOT_USER_ACTION", "ignore");
        pip
    };
    let works = || process::run(pip().arg("--version"), SHORT).is_ok();
    if !works() {
        install("pip is", &["python3-pip"])?;
        if !works() {
            let packages = "python3-pip".into();
            return Err(SetupError::StillMissing { packages, what: "pip is".into() });
        }
    }
    Ok(pip())
}

/// Checks that the toolchain of this workspace has the standard library for a target; lets rustup install it if it is
/// missing.
///
/// # Errors
/// The component is missing and cannot be installed.
pub fn target(target: &str) -> Result<(), SetupError> {
    let there = || {
        let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        rustc.args(["--print", "target-libdir", "--target", target]);
        process::run(rustc.current_dir(workspace::root()), SHORT)
            .is_ok_and(|written| has_core(String::from_utf8_lossy(&written.stdout).trim()))
    };
    if there() {
        return Ok(());
    }
    // If two rustups run at the same time, one of them fails. Then its caller compiles `core` itself, so a lock that cannot
    // be taken is not an error.
    let folder = workspace::build_dir();
    let _locked = std::fs::create_dir_all(&folder)
        .and_then(|()| File::create(folder.join("rustup.lock")))
        .and_then(|file| file.lock().map(|()| file));
    if there() {
        return Ok(());
    }
    let mut rustup = Command::new("rustup");
    rustup.args(["target", "add", target]).current_dir(workspace::root());
    let line = process::command_line(&rustup);
    let what = format!("the standard library for {target} is");
    step(&line, || process::run(&mut rustup, INSTALL)).map_err(|error| {
        note(error);
        SetupError::NotAllowed { what: what.clone(), command: line.clone() }
    })?;
    if there() { Ok(()) } else { Err(SetupError::StillMissing { packages: target.into(), what }) }
}

/// Returns whether a folder of libraries has `core`.
fn has_core(folder: &str) -> bool {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    files.map(|file| file.file_name()).any(|name| name.to_string_lossy().starts_with("libcore-"))
}

/// Returns cargo's `build` or `rustc` for this workspace and a target without an operating system. It uses the standard
/// library that rustup has for the target, as readers of a guide do; without rustup, it compiles these crates of the
/// standard library from their sources. The caller adds the target, the target directory and the package.
///
/// # Errors
/// Neither the standard library nor the sources of `core` exist.
pub fn cargo_for(subcommand: &str, target: &str, crates: &str) -> Result<Command, SetupError> {
    if self::target(target).is_err() {
        return Ok(toolchain(Arch::default())?.cargo(subcommand, crates));
    }
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    process::clean_cargo_env(&mut cargo).env("RUSTC_BOOTSTRAP", "1");
    // Without it, rustup would obey toolchain files in the folders of other packages.
    cargo.envs(std::env::var_os("RUSTUP_TOOLCHAIN").map(|of| ("RUSTUP_TOOLCHAIN", of)));
    cargo.current_dir(workspace::root()).arg(subcommand);
    Ok(cargo)
}

/// Installs a nightly compiler and cargo-fuzz if they are missing.
///
/// # Errors
/// The component is missing and cannot be installed.
pub fn cargo_fuzz() -> Result<(), SetupError> {
    let there = |program: &str, args: &[&str]| {
        let mut command = Command::new(program);
        process::run(process::clean_cargo_env(&mut command).args(args), SHORT).is_ok()
    };
    let steps: [(&[&str], &str, &str, &[&str]); 2] = [
        (
            &["+nightly", "--version"],
            "a nightly compiler is",
            "rustup",
            &["toolchain", "install", "nightly", "--profile", "minimal"],
        ),
        (&["fuzz", "--version"], "cargo-fuzz is", "cargo", &["install", "--locked", "cargo-fuzz"]),
    ];
    for (test, what, program, install) in steps {
        if there("cargo", test) {
            continue;
        }
        let mut command = Command::new(program);
        process::clean_cargo_env(&mut command).args(install);
        let line = process::command_line(&command);
        step(&line, || process::run(&mut command, INSTALL)).map_err(|error| {
            note(error);
            SetupError::NotAllowed { what: what.to_owned(), command: line.clone() }
        })?;
    }
    Ok(())
}
