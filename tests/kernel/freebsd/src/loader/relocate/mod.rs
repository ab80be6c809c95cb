//! What a relocation does, by machine.
//!
//! Each machine's file says which types FreeBSD's linker knows there, which look at a symbol, and what
//! becomes of the field. Ranges, which FreeBSD does not look at, are checked.

pub(super) mod aarch64;
pub(super) mod riscv64;
pub(super) mod x86_64;

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
    /// The target is not aligned as instructions are.
    Misaligned(u64),
    /// The field is not inside its section or segment.
    Place,
}

impl fmt::Display for RelocationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unexpected(kind) => write!(f, "unexpected relocation type {kind}"),
            Self::Copy => f.write_str("unexpected R_COPY relocation in module"),
            Self::Resolver => f.write_str("IRELATIVE relocation, whose resolver cannot run here"),
            Self::Range(value) => write!(f, "relocation out of range: {value:#x}"),
            Self::Misaligned(value) => write!(f, "relocation to a misaligned target: {value:#x}"),
            Self::Place => f.write_str("relocation outside its section"),
        }
    }
}

impl core::error::Error for RelocationError {}

/// What becomes of a field.
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
