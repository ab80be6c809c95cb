//! Building the stand-in kernel.

use std::path::{Path, PathBuf};

use cargo_metadata::Artifact;
use cargo_sdt::internal::arch::Arch;
use cargo_sdt::internal::module::{self, BuildError};
use cargo_sdt::internal::setup;
use cargo_sdt::internal::targets;
use cargo_sdt::internal::toolchain::Toolchain;

use crate::{symbols, workspace};

/// Its package.
pub const PACKAGE: &str = "stand-in-kernel";

/// The target file of the kernel.
pub(crate) fn target_file(arch: Arch) -> PathBuf {
    workspace::root().join("targets").join(format!("{arch}-stand-in-kernel.json"))
}

/// Returns the target file in the form for the toolchain.
///
/// # Errors
/// The target file cannot be read or written.
pub fn target(arch: Arch, toolchain: &Toolchain) -> Result<PathBuf, BuildError> {
    let from = target_file(arch);
    let failed = |file: &Path| {
        let file = file.to_owned();
        |source| BuildError::File { file, source }
    };
    let text = std::fs::read_to_string(&from).map_err(failed(&from))?;
    let to = workspace::project().targets().join(from.file_name().unwrap_or_default());
    targets::write(&text, &to, toolchain.release()).map_err(failed(&to))
}

/// Builds the kernel, and returns its path.
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

/// Builds the kernel with cargo. Returns all artifacts of the build.
///
/// # Errors
/// Set-up or cargo failed.
pub fn artifacts(arch: Arch) -> Result<Vec<Artifact>, BuildError> {
    let lld = setup::lld()?;
    let toolchain = crate::setup::toolchain(arch)?;
    let target = target(arch, &toolchain)?;
    let mut command = toolchain.cargo("build", "core,alloc");
    command.env(module::linker_variable(&target), lld.program());
    command.args(["--release", "--package", PACKAGE, "--features", "boot", "--bin", PACKAGE]);
    command.arg("--target").arg(&target);
    command.arg("--target-dir").arg(workspace::project().cargo_target());
    let what = format!("building the stand-in kernel for {arch}");
    module::run_cargo(&mut command, &what, PACKAGE, &target)
}
