//! Building the stand-in kernel.

use std::path::PathBuf;

use cargo_metadata::Artifact;
use cargo_sdt::internal::arch::Arch;
use cargo_sdt::internal::module::{self, BuildError};
use cargo_sdt::internal::setup;

use crate::{symbols, workspace};

/// Its package.
pub const PACKAGE: &str = "stand-in-kernel";

/// What it is built for.
pub fn target(arch: Arch) -> PathBuf {
    workspace::root().join("targets").join(format!("{arch}-stand-in-kernel.json"))
}

/// Builds it and returns where it is.
///
/// # Errors
/// Set-up or cargo failed.
pub fn build(arch: Arch) -> Result<PathBuf, BuildError> {
    let artifacts = artifacts(arch)?;
    let built = artifacts.into_iter().rev().find_map(|artifact| artifact.executable);
    let built = built
        .ok_or_else(|| BuildError::NoArtifact { what: "executable", package: PACKAGE.into() })?;
    let built = PathBuf::from(built);
    symbols::write(&built)?;
    Ok(built)
}

/// Has cargo build it. Returns all that it consists of.
///
/// # Errors
/// Set-up or cargo failed.
pub fn artifacts(arch: Arch) -> Result<Vec<Artifact>, BuildError> {
    let lld = setup::lld()?;
    let target = target(arch);
    let mut command = crate::setup::toolchain(arch)?.cargo("build", "core,alloc");
    command.env(module::linker_variable(&target), lld.program());
    command.args(["--release", "--package", PACKAGE, "--features", "boot", "--bin", PACKAGE]);
    command.arg("--target").arg(&target);
    command.arg("--target-dir").arg(workspace::project().cargo_target());
    let what = format!("building the stand-in kernel for {arch}");
    module::run_cargo(&mut command, &what, PACKAGE, &target)
}
