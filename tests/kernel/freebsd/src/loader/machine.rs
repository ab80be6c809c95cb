//! The machines that modules are for.

use object_core::elf::RelocationType;

use super::relocate::{Relocation, RelocationError, aarch64, riscv64, x86_64};

/// A machine, by what its modules are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// FreeBSD's amd64: modules are ET_REL files.
    X86_64,
    /// FreeBSD's arm64: modules are ET_DYN files.
    Aarch64,
    /// FreeBSD's riscv: modules are ET_DYN files.
    Riscv64,
}

impl Machine {
    /// The one that this code is compiled for.
    pub const HERE: Self = if cfg!(target_arch = "aarch64") {
        Self::Aarch64
    } else if cfg!(target_arch = "riscv64") {
        Self::Riscv64
    } else {
        Self::X86_64
    };

    /// Its number in an ELF header.
    pub const fn number(self) -> u16 {
        match self {
            Self::X86_64 => 62,
            Self::Aarch64 => 183,
            Self::Riscv64 => 243,
        }
    }

    /// Returns whether its modules are shared objects.
    pub(super) const fn has_shared_objects(self) -> bool {
        !matches!(self, Self::X86_64)
    }

    /// FreeBSD's linker that reads its modules, as messages name it.
    pub const fn linker(self) -> &'static str {
        if self.has_shared_objects() { "link_elf" } else { "link_elf_obj" }
    }

    /// Returns whether a relocation looks at its symbol at all.
    pub(super) fn uses_symbol(self, kind: RelocationType) -> bool {
        match self {
            Self::X86_64 => x86_64::uses_symbol(kind),
            Self::Aarch64 => aarch64::uses_symbol(kind),
            Self::Riscv64 => riscv64::uses_symbol(kind),
        }
    }

    /// Whether the machine's loader knows the type.
    pub(super) fn check(self, kind: RelocationType) -> Result<(), RelocationError> {
        match self {
            Self::X86_64 => x86_64::check(kind),
            Self::Aarch64 => aarch64::check(kind),
            Self::Riscv64 => riscv64::check(kind),
        }
    }

    /// Does one relocation. `rest` is memory from the field on, as far as the field may reach.
    pub(super) fn apply(
        self,
        relocation: &Relocation,
        rest: &mut [u8],
    ) -> Result<(), RelocationError> {
        self.check(relocation.kind)?;
        match self {
            Self::X86_64 => x86_64::apply(relocation, rest),
            Self::Aarch64 => aarch64::apply(relocation, rest),
            Self::Riscv64 => riscv64::apply(relocation, rest),
        }
    }
}
