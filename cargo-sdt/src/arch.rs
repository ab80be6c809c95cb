//! The architectures, with their names, ELF numbers, kinds of module files and sites.

use std::fmt;

use clap::ValueEnum;
use dtrace_abi::site::{self, Encoding};
use object::elf;

/// An architecture that modules and kernels can be built for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Arch {
    /// FreeBSD calls it amd64.
    #[default]
    #[value(name = "x86_64", alias = "amd64")]
    X86_64,
    /// FreeBSD calls it arm64.
    #[value(name = "aarch64", alias = "arm64")]
    Aarch64,
    /// FreeBSD calls it riscv.
    #[value(name = "riscv64", alias = "riscv")]
    Riscv64,
}

/// The kind of ELF file that FreeBSD's loader accepts as a module (`sys/conf/kmod.mk`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModuleKind {
    /// ET_REL, for `sys/kern/link_elf_obj.c`.
    Relocatable,
    /// ET_DYN, for `sys/kern/link_elf.c`.
    Shared,
}

impl Arch {
    /// All architectures.
    pub const ALL: [Self; 3] = [Self::X86_64, Self::Aarch64, Self::Riscv64];

    /// The name used on command lines, in folders and by the stand-in kernel.
    pub const fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
            Self::Riscv64 => "riscv64",
        }
    }

    /// FreeBSD's name (`MACHINE`).
    pub const fn freebsd_name(self) -> &'static str {
        match self {
            Self::X86_64 => "amd64",
            Self::Aarch64 => "arm64",
            Self::Riscv64 => "riscv",
        }
    }

    /// The architecture of an ELF file.
    pub fn of_machine(machine: elf::Machine) -> Option<Self> {
        Self::ALL.into_iter().find(|arch| arch.machine() == machine)
    }

    /// Returns the number in ELF files.
    pub const fn machine(self) -> elf::Machine {
        match self {
            Self::X86_64 => elf::EM_X86_64,
            Self::Aarch64 => elf::EM_AARCH64,
            Self::Riscv64 => elf::EM_RISCV,
        }
    }

    /// Returns the kind of file of modules.
    pub const fn module_kind(self) -> ModuleKind {
        match self {
            Self::X86_64 => ModuleKind::Relocatable,
            Self::Aarch64 | Self::Riscv64 => ModuleKind::Shared,
        }
    }

    /// Returns the instructions of sites.
    pub const fn encoding(self) -> Encoding {
        match self {
            Self::X86_64 => site::x86_64::ENCODING,
            Self::Aarch64 => site::aarch64::ENCODING,
            Self::Riscv64 => site::riscv64::ENCODING,
        }
    }

    /// Returns the emulation with which lld writes an object for FreeBSD.
    pub const fn lld_emulation(self) -> &'static str {
        match self {
            Self::X86_64 => "elf_x86_64_fbsd",
            Self::Aarch64 => "aarch64elf_fbsd",
            Self::Riscv64 => "elf64lriscv_fbsd",
        }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
#[path = "../tests/unit/arch.rs"]
mod tests;
