//! Clippy on code for kernels. It needs `core` for each target, and uses the one that was built for that target
//! already.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use cargo_metadata::Artifact;

use cargo_sdt::internal::arch::Arch;
use cargo_sdt::internal::module::{self, BuildError, Module};
use cargo_sdt::internal::platform::Os;
use cargo_sdt::internal::process;
use cargo_sdt::internal::progress::step;
use cargo_sdt::internal::toolchain::Toolchain;
use harness::{kernel, setup, workspace};

/// Checking a few crates takes seconds.
const LIMIT: Duration = Duration::from_secs(600);
/// The crates of the standard library that kernels are built with.
const STANDARD: [&str; 3] = ["core", "alloc", "compiler_builtins"];

/// Lints packages of modules, with their examples, for the target of `module`.
///
/// # Errors
/// If a dependency could not be built, or if clippy has findings.
pub fn modules(module: &Module, packages: &[&str]) -> Result<(), BuildError> {
    let Module { arch, os, .. } = *module;
    let toolchain = setup::toolchain(arch)?;
    // `core` is the same for all releases and routes.
    let built = Module { os, ..workspace::example(arch) };
    let building = module::lock(&built.project)?;
    let sysroot = sysroot(&built.target(&toolchain)?, &built.artifacts(&toolchain)?)?;
    drop(building);
    let mut command = clippy(&toolchain, &module.target(&toolchain)?, &sysroot);
    module.configure(&mut command, &[]);
    for package in packages {
        command.args(["--package", package]);
    }
    command.args(["--lib", "--examples"]);
    let (release, route) = (module.freebsd, module.route);
    let kernel = match os {
        Os::FreeBsd => format!("FreeBSD {release}"),
        Os::Illumos => os.to_string(),
    };
    run(command, format!("clippy on modules for {kernel}, {arch}, route {route}"))
}

/// Lints the stand-in kernel.
///
/// # Errors
/// If it could not be built, or if clippy has findings.
pub fn stand_in_kernel(arch: Arch) -> Result<(), BuildError> {
    let toolchain = setup::toolchain(arch)?;
    let target = kernel::target(arch, &toolchain)?;
    let sysroot = sysroot(&target, &kernel::artifacts(arch)?)?;
    let mut command = clippy(&toolchain, &target, &sysroot);
    command.args(["--package", kernel::PACKAGE, "--features", "boot", "--bin", kernel::PACKAGE]);
    run(command, format!("clippy on the stand-in kernel for {arch}"))
}

fn clippy(toolchain: &Toolchain, target: &Path, sysroot: &Path) -> Command {
    let mut command = toolchain.clippy(sysroot);
    command.arg("--release").arg("--target").arg(target);
    command.arg("--target-dir").arg(workspace::project().cargo_target());
    command
}

fn run(mut command: Command, what: String) -> Result<(), BuildError> {
    command.args(["--", "-D", "warnings"]);
    let done = step(&what, || process::run(&mut command, LIMIT));
    done.map(|_| ()).map_err(|source| BuildError::Lint { what, source })
}

/// Returns a sysroot with the standard crates that were built for a target.
fn sysroot(target: &Path, built: &[Artifact]) -> Result<PathBuf, BuildError> {
    let stem = target.file_stem().unwrap_or_default();
    let sysroot = workspace::build_dir().join("clippy").join(stem);
    let folder = sysroot.join("lib/rustlib").join(stem).join("lib");
    let error = |source| BuildError::File { file: folder.clone(), source };
    // It may belong to another compiler.
    match std::fs::remove_dir_all(&folder) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => return Err(error(source)),
        _ => module::create_dir(&folder)?,
    }
    let standard = built.iter().filter(|artifact| STANDARD.contains(&&*artifact.target.name));
    for library in standard.flat_map(|artifact| &artifact.filenames) {
        if library.extension() == Some("rlib") {
            let name = library.file_name().unwrap_or_default();
            std::os::unix::fs::symlink(library, folder.join(name)).map_err(error)?;
        }
    }
    Ok(sysroot)
}
