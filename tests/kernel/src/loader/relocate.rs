//! What a relocation does, by machine.

use core::fmt;

use object_core::elf::RelocationType;

/// One relocation, its symbol found.
#[derive(Clone, Copy, Debug)]
pub struct Relocation {
    /// The machine's number for what is to be done.
    pub kind: RelocationType,
    /// Address of the field.
    pub place: u64,
    /// The symbol's address.
    pub symbol: u64,
    /// The constant to add.
    pub addend: i64,
    /// Where the module is.
    pub base: u64,
}

/// Why a relocation cannot be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RelocationError {
    /// Of a type that the loader does not know.
    Unexpected(u32),
    /// R_COPY, which only makes sense in programs.
    Copy,
    /// It wants code of the module to run before the module is in place.
    Resolver,
    /// The value does not fit the field.
    Range(u64),
    /// The field is not inside its section.
    Place,
}

impl fmt::Display for RelocationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unexpected(kind) => write!(f, "unexpected relocation type {kind}"),
            Self::Copy => f.write_str("unexpected R_COPY relocation in module"),
            Self::Resolver => f.write_str("R_X86_64_IRELATIVE, whose resolver cannot run here"),
            Self::Range(value) => write!(f, "relocation out of range: {value:#x}"),
            Self::Place => f.write_str("relocation outside its section"),
        }
    }
}

impl core::error::Error for RelocationError {}

/// AMD64: `elf_reloc_internal` of `sys/amd64/amd64/elf_machdep.c`. It takes what FreeBSD takes but for
/// R_X86_64_IRELATIVE, which no ET_REL file has; ranges, which FreeBSD does not look at, are checked.
pub mod x86_64 {
    use object_core::elf::{self, RelocationType};

    use super::{Relocation, RelocationError};

    /// EM_X86_64.
    pub const MACHINE: u16 = 62;

    enum Field {
        Nothing,
        Word(u64),
        Long(i128),
    }

    /// Whether a relocation looks at its symbol at all.
    pub fn uses_symbol(kind: RelocationType) -> bool {
        !matches!(kind, elf::R_X86_64_NONE | elf::R_X86_64_RELATIVE | elf::R_X86_64_IRELATIVE)
    }

    /// Whether this machine's loader knows the type.
    ///
    /// # Errors
    /// When it does not.
    pub fn check(kind: RelocationType) -> Result<(), RelocationError> {
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

    /// Does one relocation. `rest` is the section's memory from the field on.
    ///
    /// # Errors
    /// When the type is unknown, the field does not fit the section, or the value not the field.
    pub fn apply(relocation: &Relocation, rest: &mut [u8]) -> Result<(), RelocationError> {
        check(relocation.kind)?;
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
        match field {
            Field::Nothing => {}
            Field::Word(value) => {
                *rest.first_chunk_mut().ok_or(RelocationError::Place)? = value.to_le_bytes();
            }
            Field::Long(value) => {
                let field = rest.first_chunk_mut().ok_or(RelocationError::Place)?;
                let value =
                    i32::try_from(value).map_err(|_| RelocationError::Range(value as u64))?;
                *field = value.to_le_bytes();
            }
        }
        Ok(())
    }
}
