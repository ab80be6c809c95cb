//! Instructions at a site, by architecture: what each state of it looks like in bytes.
//!
//! Plain functions on addresses and bytes, compiled for every target, so that all of them are tested on
//! any host. Each file has the same items: [`LEN`](x86_64::LEN), [`HEAD`](x86_64::HEAD),
//! [`NOP`](x86_64::NOP), [`breakpoint`](x86_64::breakpoint), [`jump`](x86_64::jump).

pub mod aarch64;
pub mod riscv64;
pub mod x86_64;

/// Why a site cannot jump to its cold block. It stays in trap mode then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JumpError {
    /// The distance is more than the instruction can encode.
    OutOfReach {
        /// Bytes from the site to its cold block.
        distance: isize,
        /// Most bytes the instruction can jump, either way.
        reach: usize,
    },
    /// Site or cold block is not aligned as instructions are.
    Misaligned {
        /// The address that is not.
        address: usize,
        /// What it should be a multiple of.
        alignment: usize,
    },
}

impl core::fmt::Display for JumpError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::OutOfReach { distance, reach } => {
                write!(f, "the cold block is {distance} bytes away; a jump reaches {reach}")
            }
            Self::Misaligned { address, alignment } => {
                write!(f, "{address:#x} is not a multiple of {alignment}")
            }
        }
    }
}

impl core::error::Error for JumpError {}

/// The distance from `from` to `to`, checked against a range and alignment.
const fn distance(
    from: usize,
    to: usize,
    reach: isize,
    alignment: usize,
) -> Result<isize, JumpError> {
    let distance = to.wrapping_sub(from) as isize;
    if !from.is_multiple_of(alignment) {
        return Err(JumpError::Misaligned { address: from, alignment });
    }
    if !to.is_multiple_of(alignment) {
        return Err(JumpError::Misaligned { address: to, alignment });
    }
    // The range of a signed field: one step less forwards than backwards.
    if distance < -reach || distance >= reach {
        return Err(JumpError::OutOfReach { distance, reach: reach as usize });
    }
    Ok(distance)
}
