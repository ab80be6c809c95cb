//! ARM64: the relocations of `elf_reloc_internal` in `sys/arm64/arm64/elf_machdep.c`, except R_AARCH64_IRELATIVE, whose resolver
//! would run before the module is mapped.

use object_core::elf::{self, RelocationType};

use super::{Field, Relocation, RelocationError, distance};

/// The masks of the branch distance (in words) in the instructions.
const BRANCH_26: u32 = 0x03ff_ffff;
const BRANCH_19: u32 = 0x00ff_ffe0;
const BRANCH_14: u32 = 0x0007_ffe0;

/// Returns whether a relocation of this type uses its symbol.
pub(in super::super) fn uses_symbol(kind: RelocationType) -> bool {
    !matches!(kind, elf::R_AARCH64_NONE | elf::R_AARCH64_RELATIVE | elf::R_AARCH64_IRELATIVE)
}

/// Checks that FreeBSD's loader for arm64 supports the relocation type.
pub(in super::super) fn check(kind: RelocationType) -> Result<(), RelocationError> {
    match kind {
        elf::R_AARCH64_NONE
        | elf::R_AARCH64_ABS64
        | elf::R_AARCH64_GLOB_DAT
        | elf::R_AARCH64_JUMP_SLOT
        | elf::R_AARCH64_RELATIVE
        | elf::R_AARCH64_TSTBR14
        | elf::R_AARCH64_CONDBR19
        | elf::R_AARCH64_JUMP26
        | elf::R_AARCH64_CALL26 => Ok(()),
        elf::R_AARCH64_IRELATIVE => Err(RelocationError::Resolver),
        other => Err(RelocationError::Unexpected(other.0)),
    }
}

/// Applies one relocation of a supported type. `rest` is the memory from the start of the field to the end of its segment.
pub(in super::super) fn apply(
    relocation: &Relocation,
    rest: &mut [u8],
) -> Result<(), RelocationError> {
    let Relocation { kind, symbol, addend, base, .. } = *relocation;
    let words = |bits| Ok((distance(relocation, bits, 4)? >> 2) as u32);
    let field = match kind {
        elf::R_AARCH64_ABS64 | elf::R_AARCH64_GLOB_DAT => {
            Field::Word(symbol.wrapping_add_signed(addend))
        }
        elf::R_AARCH64_JUMP_SLOT => Field::Word(symbol),
        elf::R_AARCH64_RELATIVE => Field::Word(base.wrapping_add_signed(addend)),
        elf::R_AARCH64_JUMP26 | elf::R_AARCH64_CALL26 => {
            Field::Bits { mask: BRANCH_26, bits: words(28)? }
        }
        elf::R_AARCH64_CONDBR19 => Field::Bits { mask: BRANCH_19, bits: words(21)? << 5 },
        elf::R_AARCH64_TSTBR14 => Field::Bits { mask: BRANCH_14, bits: words(16)? << 5 },
        _ => Field::Nothing,
    };
    field.store(rest)
}
