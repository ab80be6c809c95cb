//! Relocations, by machine.
//!
//! Each machine's file defines the types that FreeBSD's linker supports there, which of them use a symbol, and the new
//! value of the field. In addition to FreeBSD's checks, ranges are checked.

pub(super) mod aarch64;
pub(super) mod riscv64;
pub(super) mod x86_64;

use object_core::elf::RelocationType;
use thiserror::Error;

/// A relocation whose symbol has been resolved.
#[derive(Clone, Copy, Debug)]
pub struct Relocation {
    /// The type, a number whose meaning depends on the machine.
    pub kind: RelocationType,
    /// The address of the field.
    pub place: u64,
    /// The address of the symbol; 0 if the type does not use it.
    pub symbol: u64,
    /// The constant to add.
    pub addend: i64,
    /// Base of the module.
    pub base: u64,
}

/// Why a relocation cannot be applied.
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
    /// The field keeps its value.
    Nothing,
    /// A new value of 64 bits.
    Word(u64),
    /// A new signed value, which must fit into 32 bits.
    Long(i128),
    /// New values for the bits in `mask` of an instruction.
    Bits { mask: u32, bits: u32 },
}

impl Field {
    /// Stores the change at the start of `rest`.
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

/// Returns the distance from the field to `symbol + addend`. Fails if the distance does not fit into `bits` bits with a sign, or
/// is not a multiple of `alignment`.
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
