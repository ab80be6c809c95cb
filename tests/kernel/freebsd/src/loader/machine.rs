//! The machines for which the loader loads modules.

use object_core::elf::RelocationType;

use super::relocate::{Relocation, RelocationError, aarch64, riscv64, x86_64};

/// A machine, which determines the format and the relocations of modules.
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
    /// The machine for which this code is compiled.
    pub const HERE: Self = if cfg!(target_arch = "aarch64") {
        Self::Aarch64
    } else if cfg!(target_arch = "riscv64") {
        Self::Riscv64
    } else {
        Self::X86_64
    };

    /// Returns the machine's number in an ELF header (`e_machine`).
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

    /// Returns the name of FreeBSD's linker for the machine's modules, as in its messages.
    pub const fn linker(self) -> &'static str {
        if self.has_shared_objects() { "link_elf" } else { "link_elf_obj" }
    }

    /// Returns whether a relocation of this type uses its symbol.
    pub(super) fn uses_symbol(self, kind: RelocationType) -> bool {
        match self {
            Self::X86_64 => x86_64::uses_symbol(kind),
            Self::Aarch64 => aarch64::uses_symbol(kind),
            Self::Riscv64 => riscv64::uses_symbol(kind),
        }
    }

    /// Checks that the machine's loader supports the relocation type.
    pub(super) fn check(self, kind: RelocationType) -> Result<(), RelocationError> {
        match self {
            Self::X86_64 => x86_64::check(kind),
            Self::Aarch64 => aarch64::check(kind),
            Self::Riscv64 => riscv64::check(kind),
        }
    }

    /// Applies one relocation. `rest` is the memory from the start of the field to the end of its section or segment.
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
