//! AMD64: `elf_reloc_internal` of `sys/amd64/amd64/elf_machdep.c`. It does the same relocations, except for
//! R_X86_64_IRELATIVE, which no ET_REL file has.

use object_core::elf::{self, RelocationType};

use super::{Field, Relocation, RelocationError};

/// Returns whether a relocation looks at its symbol at all.
pub(in super::super) fn uses_symbol(kind: RelocationType) -> bool {
    !matches!(kind, elf::R_X86_64_NONE | elf::R_X86_64_RELATIVE | elf::R_X86_64_IRELATIVE)
}

/// Whether the machine's loader knows the type.
pub(in super::super) fn check(kind: RelocationType) -> Result<(), RelocationError> {
    match kind {
        elf::R_X86_64_NONE
        | elf::R_X86_64_64
        | elf::R_X86_64_PC32
        | elf::R_X86_64_PLT32
        | elf::R_X86_64_32S
        | elf::R_X86_64_GLOB_DAT
        | elf::R_X86_64_JUMP_SLOT
        | elf::R_X86_64_RELATIVE => Ok(()),
        elf::R_X86_64_IRELATIVE => Err(RelocationError::Resolver),
        elf::R_X86_64_COPY => Err(RelocationError::Copy),
        other => Err(RelocationError::Unexpected(other.0)),
    }
}

/// Does one relocation of a type that is known. `rest` is the section's memory from the field on.
pub(in super::super) fn apply(
    relocation: &Relocation,
    rest: &mut [u8],
) -> Result<(), RelocationError> {
    let Relocation { kind, place, symbol, addend, base } = *relocation;
    let field = match kind {
        elf::R_X86_64_64 => Field::Word(symbol.wrapping_add_signed(addend)),
        elf::R_X86_64_PC32 | elf::R_X86_64_PLT32 => {
            Field::Long(i128::from(symbol) + i128::from(addend) - i128::from(place))
        }
        // The field is sign-extended, so the top 2 GiB are small negative numbers.
        elf::R_X86_64_32S => Field::Long(i128::from(symbol as i64) + i128::from(addend)),
        elf::R_X86_64_GLOB_DAT | elf::R_X86_64_JUMP_SLOT => Field::Word(symbol),
        elf::R_X86_64_RELATIVE => Field::Word(base.wrapping_add_signed(addend)),
        _ => Field::Nothing,
    };
    field.store(rest)
}
