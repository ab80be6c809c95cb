//! The embedded example: building it, and running it on a board in QEMU.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use cargo_sdt::arch::Arch;
use cargo_sdt::module::{self, BuildError};
use cargo_sdt::process::{self, ProcessError};
use cargo_sdt::setup::{self, SetupError};

use crate::workspace;

/// Its package, and what it is built for: an ARMv7-M processor.
const PACKAGE: &str = "embedded-example";
const TARGET: &str = "thumbv7m-none-eabi";
/// The program ends by itself in well under a second.
const LIMIT: Duration = Duration::from_secs(60);

/// Why the example prints nothing.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    /// Something it needs is missing.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// It could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// It failed on the board.
    #[error(transparent)]
    Run(#[from] ProcessError),
}

/// What the example prints.
///
/// # Errors
/// It could not be built, or failed on the board.
pub fn output() -> Result<String, EmbeddedError> {
    let qemu = setup::program("qemu-system-arm", "qemu-system-arm")?;
    let program = build()?;
    let mut command = Command::new(qemu);
    command.args(["-machine", "lm3s6965evb", "-display", "none", "-monitor", "none"]);
    command.args(["-serial", "none", "-semihosting-config", "enable=on,target=native"]);
    command.arg("-kernel").arg(program);
    let written = process::run(&mut command, LIMIT)?;
    Ok(String::from_utf8_lossy(&written.stdout).into_owned())
}

/// Builds it and returns where it is.
///
/// # Errors
/// Set-up or cargo failed.
pub fn build() -> Result<PathBuf, BuildError> {
    let lld = setup::lld()?;
    let target = Path::new(TARGET);
    let mut command = crate::setup::toolchain(Arch::default())?.cargo("build", "core");
    command.env(module::linker_variable(target), lld.program());
    command.args(["--release", "--package", PACKAGE, "--features", "board"]);
    command.arg("--target").arg(target);
    command.arg("--target-dir").arg(workspace::build_dir().join("cargo-embedded"));
    let artifacts =
        module::run_cargo(&mut command, "building the embedded example", PACKAGE, target)?;
    let built = artifacts.into_iter().rev().find_map(|artifact| artifact.executable);
    let built = built
        .ok_or_else(|| BuildError::NoArtifact { what: "executable", package: PACKAGE.into() })?;
    Ok(built.into())
}
