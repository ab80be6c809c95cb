//! The folders of this workspace, and its example module.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cargo_sdt::internal::arch::Arch;
use cargo_sdt::internal::module::Module;
use cargo_sdt::internal::project::{Found, Project, ProjectError};

/// The package of the example module.
pub const EXAMPLE: &str = "kmod-example";

/// The arguments of `cargo test` that select everything except the benchmark. It has no tests, and a fifth of all dependencies
/// serve it alone; clippy compiles it. All commands that test use these arguments; with others, cargo compiles crates again
/// with other features.
pub const TESTED: [&str; 3] = ["--workspace", "--exclude", "bench"];

/// Variables that select the toolchain, and whether cargo compiles for later changes. Everything that finds compiled crates in the
/// target folder of the workspace has to use the same values.
const SETTINGS: [&str; 2] = ["RUSTUP_TOOLCHAIN", "CARGO_INCREMENTAL"];

/// Returns the variables that make another cargo compile in the same way as the cargo that compiled this process.
pub fn settings() -> impl Iterator<Item = (&'static str, OsString)> {
    SETTINGS.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?)))
}

/// The workspace's root folder.
pub fn root() -> &'static Path {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    folder.ancestors().nth(2).expect("this is a folder of the workspace's tests")
}

/// Folder for everything that is built for a kernel: modules, kernels, their target directories.
pub fn build_dir() -> PathBuf {
    root().join("build")
}

/// The workspace, as modules are built in it.
pub fn project() -> Project {
    Project::new(root().to_owned(), build_dir())
}

/// Returns a package of the workspace; without a name, the example module.
///
/// # Errors
/// There is no such package.
pub fn package(name: Option<&str>) -> Result<Found, ProjectError> {
    let found = Project::find(root(), Some(name.unwrap_or(EXAMPLE)))?;
    Ok(Found { project: project(), ..found })
}

/// The example module.
pub fn example(arch: Arch) -> Module {
    Module::new(project(), EXAMPLE, arch)
}

/// The exec log that is played when no other is given.
pub fn default_workload() -> PathBuf {
    root().join("tests/data/exec.strace")
}
