//! Where things are in the workspace.

use std::path::{Path, PathBuf};

pub use crate::arch::Arch;

/// The workspace's root folder.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the workspace")
}

/// Folder for everything that is built for a kernel: modules, kernels, their target directories.
pub fn build_dir() -> PathBuf {
    root().join("build")
}

/// The exec log that is played when no other is given.
pub fn default_workload() -> PathBuf {
    root().join("tests/data/exec.strace")
}
