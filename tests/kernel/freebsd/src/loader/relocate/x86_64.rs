//! AMD64: the relocations of `elf_reloc_internal` in `sys/amd64/amd64/elf_machdep.c`, except R_X86_64_IRELATIVE, which does not
//! occur in ET_REL files.

use object_core::elf::{self, RelocationType};

use super::{Field, Relocation, RelocationError};

/// Returns whether a relocation of this type uses its symbol.
pub(in super::super) fn uses_symbol(kind: RelocationType) -> bool {
    !matches!(kind, elf::R_X86_64_NONE | elf::R_X86_64_RELATIVE | elf::R_X86_64_IRELATIVE)
}

/// Checks that FreeBSD's loader for amd64 supports the relocation type.
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

/// Applies one relocation of a supported type. `rest` is the memory from the start of the field to the end of its section.
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
