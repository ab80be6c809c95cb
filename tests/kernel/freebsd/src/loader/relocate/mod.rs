//! Relocations, by machine.
//!
//! Each machine's file defines the types that FreeBSD's linker supports there, which of them use a symbol, and the new
//! value of the field. In addition to FreeBSD's checks, ranges are checked.

pub(super) mod aarch64;
pub(super) mod riscv64;
pub(super) mod x86_64;

use object_core::elf::RelocationType;
use thiserror::Error;

/// One relocation, its symbol found.
#[derive(Clone, Copy, Debug)]
pub struct Relocation {
    /// Its type, by the machine's number.
    pub kind: RelocationType,
    /// Address of the field.
    pub place: u64,
    /// The symbol's address.
    pub symbol: u64,
    /// The constant to add.
    pub addend: i64,
    /// Base of the module.
    pub base: u64,
}

/// Why a relocation cannot be done.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say it")]
pub enum RelocationError {
    #[error("unexpected relocation type {0}")]
    Unexpected(u32),
    #[error("unexpected R_COPY relocation in module")]
    Copy,
    #[error("IRELATIVE relocation, whose resolver cannot run here")]
    Resolver,
    #[error("relocation out of range: {0:#x}")]
    Range(u64),
    #[error("relocation to a misaligned target: {0:#x}")]
    Misaligned(u64),
    #[error("relocation outside its section")]
    Place,
}

/// The change to a field.
#[derive(Clone, Copy, Debug)]
enum Field {
    /// It stays.
    Nothing,
    /// 64 bits.
    Word(u64),
    /// 32 bits that are to be sign-extended.
    Long(i128),
    /// Some bits of an instruction: those of `mask`.
    Bits { mask: u32, bits: u32 },
}

impl Field {
    /// Stores it at the start of `rest`.
    fn store(self, rest: &mut [u8]) -> Result<(), RelocationError> {
        match self {
            Self::Nothing => Ok(()),
            Self::Word(value) => {
                *rest.first_chunk_mut().ok_or(RelocationError::Place)? = value.to_le_bytes();
                Ok(())
            }
            Self::Long(value) => {
                let field = rest.first_chunk_mut().ok_or(RelocationError::Place)?;
                let value =
                    i32::try_from(value).map_err(|_| RelocationError::Range(value as u64))?;
                *field = value.to_le_bytes();
                Ok(())
            }
            Self::Bits { mask, bits } => {
                let field = rest.first_chunk_mut().ok_or(RelocationError::Place)?;
                *field = (u32::from_le_bytes(*field) & !mask | bits & mask).to_le_bytes();
                Ok(())
            }
        }
    }
}

/// The distance from the field to `symbol + addend`, if it fits `bits` bits with a sign and is a
/// multiple of `alignment`.
fn distance(relocation: &Relocation, bits: u32, alignment: i128) -> Result<i64, RelocationError> {
    let Relocation { symbol, addend, place, .. } = *relocation;
    let distance = i128::from(symbol) + i128::from(addend) - i128::from(place);
    let reach = 1i128 << (bits - 1);
    if !(-reach..reach).contains(&distance) {
        return Err(RelocationError::Range(distance as u64));
    }
    if distance % alignment != 0 {
        return Err(RelocationError::Misaligned(distance as u64));
    }
    Ok(distance as i64)
}
