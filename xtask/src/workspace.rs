//! Where things are in the workspace.

use std::fmt;
use std::path::{Path, PathBuf};

use clap::ValueEnum;

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

/// An architecture that modules and kernels can be built for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Arch {
    /// FreeBSD calls it amd64.
    #[default]
    #[value(name = "x86_64", alias = "amd64")]
    X86_64,
}

impl Arch {
    /// The name used on command lines, in folders and by the stand-in kernel.
    pub const fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
        }
    }

    /// Target of kernel modules.
    pub fn module_target(self) -> PathBuf {
        root().join("targets").join(format!("{}-freebsd-kmod.json", self.name()))
    }

    /// Target of the stand-in kernel.
    pub fn kernel_target(self) -> PathBuf {
        root().join("targets").join(format!("{}-stand-in-kernel.json", self.name()))
    }

    /// The emulation that makes lld write a FreeBSD object.
    pub const fn lld_emulation(self) -> &'static str {
        match self {
            Self::X86_64 => "elf_x86_64_fbsd",
        }
    }

    /// QEMU's program for the machine.
    pub const fn qemu(self) -> &'static str {
        match self {
            Self::X86_64 => "qemu-system-x86_64",
        }
    }

    /// Debian's package of [`qemu`](Self::qemu).
    pub const fn qemu_package(self) -> &'static str {
        match self {
            Self::X86_64 => "qemu-system-x86",
        }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
