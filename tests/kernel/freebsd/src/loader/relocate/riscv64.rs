//! RISC-V: `elf_reloc_internal` of `sys/riscv/riscv/elf_machdep.c`.
//!
//! That function also has code for relocations of instructions, but this code does not work. It always refuses JAL and CALL,
//! because it compares the distance as an unsigned number. It does not check the range of the other types, and addresses of
//! modules are never in that range. Position-independent code contains no such relocations; this loader refuses a file with one.

use object_core::elf::{self, RelocationType};

use super::{Field, Relocation, RelocationError};

/// Returns whether a relocation of this type uses its symbol.
pub(in super::super) fn uses_symbol(kind: RelocationType) -> bool {
    !matches!(kind, elf::R_RISCV_NONE | elf::R_RISCV_RELATIVE)
}

/// Checks that this loader supports the relocation type on RISC-V.
pub(in super::super) fn check(kind: RelocationType) -> Result<(), RelocationError> {
    match kind {
        elf::R_RISCV_NONE | elf::R_RISCV_64 | elf::R_RISCV_JUMP_SLOT | elf::R_RISCV_RELATIVE => {
            Ok(())
        }
        other => Err(RelocationError::Unexpected(other.0)),
    }
}

/// Applies one relocation of a supported type. `rest` is the memory from the start of the field to the end of its segment.
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

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 0xffff_ffc1_0000_0000;
    const SYMBOL: u64 = 0xffff_ffc0_8020_0000;

    fn apply_to_zeroes(kind: RelocationType) -> Result<u64, RelocationError> {
        let mut field = [0; 8];
        let relocation =
            Relocation { kind, place: BASE + 0x100, symbol: SYMBOL, addend: -16, base: BASE };
        check(kind)?;
        apply(&relocation, &mut field)?;
        Ok(u64::from_le_bytes(field))
    }

    #[test]
    fn what_is_known_is_done() {
        for (kind, value) in [
            (elf::R_RISCV_NONE, 0),
            (elf::R_RISCV_64, SYMBOL - 16),
            (elf::R_RISCV_JUMP_SLOT, SYMBOL),
            (elf::R_RISCV_RELATIVE, BASE - 16),
        ] {
            assert_eq!(apply_to_zeroes(kind), Ok(value), "{kind:?}");
        }
        assert!(uses_symbol(elf::R_RISCV_64) && uses_symbol(elf::R_RISCV_JUMP_SLOT));
        assert!(!uses_symbol(elf::R_RISCV_NONE) && !uses_symbol(elf::R_RISCV_RELATIVE));
    }

    #[test]
    fn what_cannot_work_on_freebsd_is_refused() {
        for kind in [
            elf::R_RISCV_32,
            elf::R_RISCV_COPY,
            elf::R_RISCV_JAL,
            elf::R_RISCV_CALL,
            elf::R_RISCV_GOT_HI20,
            elf::R_RISCV_PCREL_HI20,
            elf::R_RISCV_PCREL_LO12_I,
            elf::R_RISCV_PCREL_LO12_S,
            elf::R_RISCV_HI20,
            elf::R_RISCV_LO12_I,
            elf::R_RISCV_LO12_S,
            elf::R_RISCV_IRELATIVE,
        ] {
            assert_eq!(apply_to_zeroes(kind), Err(RelocationError::Unexpected(kind.0)));
        }
    }

    #[test]
    fn the_field_has_to_be_there() {
        let relocation = Relocation {
            kind: elf::R_RISCV_64,
            place: BASE,
            symbol: SYMBOL,
            addend: 0,
            base: BASE,
        };
        assert_eq!(apply(&relocation, &mut [0; 7]), Err(RelocationError::Place));
    }
}
