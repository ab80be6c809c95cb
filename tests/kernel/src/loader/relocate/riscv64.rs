//! RISC-V: `elf_reloc_internal` of `sys/riscv/riscv/elf_machdep.c`.
//!
//! That function knows relocations of instructions too, but none that it does can work: JAL and CALL it
//! refuses at any distance, which it compares without a sign, and the others it does not check for range,
//! and no address of a module is in theirs. Position-independent code has none of them; a file that has
//! one is refused.

use object_core::elf::{self, RelocationType};

use super::{Field, Relocation, RelocationError};

/// Whether a relocation looks at its symbol at all.
pub(in super::super) fn uses_symbol(kind: RelocationType) -> bool {
    !matches!(kind, elf::R_RISCV_NONE | elf::R_RISCV_RELATIVE)
}

/// Whether the machine's loader knows the type.
pub(in super::super) fn check(kind: RelocationType) -> Result<(), RelocationError> {
    match kind {
        elf::R_RISCV_NONE | elf::R_RISCV_64 | elf::R_RISCV_JUMP_SLOT | elf::R_RISCV_RELATIVE => {
            Ok(())
        }
        other => Err(RelocationError::Unexpected(other.0)),
    }
}

/// Does one relocation of a type that is known. `rest` is the segment's memory from the field on.
pub(in super::super) fn apply(
    relocation: &Relocation,
    rest: &mut [u8],
) -> Result<(), RelocationError> {
    let Relocation { kind, symbol, addend, base, .. } = *relocation;
    let field = match kind {
        elf::R_RISCV_64 => Field::Word(symbol.wrapping_add_signed(addend)),
        elf::R_RISCV_JUMP_SLOT => Field::Word(symbol),
        elf::R_RISCV_RELATIVE => Field::Word(base.wrapping_add_signed(addend)),
        _ => Field::Nothing,
    };
    field.store(rest)
}
