//! The instructions at a firing site, for each architecture: nop, breakpoint and jump.
//!
//! Modules contain them, the kernel's sdt and `sdt-core` store them, and `cargo sdt check` looks for them. The
//! functions work on addresses and bytes only and compile for every target, so every host can test all of them. Each
//! architecture is one [`Encoding`].

pub mod aarch64;
pub mod riscv64;
pub mod x86_64;

/// The length in bytes of the longest site on any architecture.
pub const MAX_LEN: usize = 5;

/// A few bytes of text: an instruction, or the part of one that changes at once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Code {
    bytes: [u8; MAX_LEN],
    len: usize,
}

impl Code {
    /// Creates code from its bytes.
    ///
    /// # Panics
    /// If there are more than [`MAX_LEN`].
    pub const fn new(code: &[u8]) -> Self {
        let mut bytes = [0; MAX_LEN];
        let mut i = 0;
        while i < code.len() {
            bytes[i] = code[i];
            i += 1;
        }
        Self { bytes, len: code.len() }
    }

    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// Returns the number of bytes.
    #[expect(clippy::len_without_is_empty, reason = "an instruction is not empty")]
    pub const fn len(&self) -> usize {
        self.len
    }
}

impl core::fmt::Debug for Code {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:02x?}", self.as_bytes())
    }
}

/// The instructions that a site can contain on one architecture.
#[derive(Clone, Copy, Debug)]
pub struct Encoding {
    /// The instruction of a disabled site. Its length is the length of the site.
    pub nop: Code,
    /// The breakpoint, which covers the first bytes of the site: the *head*, which always changes in one
    /// store. The bytes behind it are the *tail*, which changes only while the head is a breakpoint.
    pub breakpoint: Code,
    /// Returns the jump from a patchpoint to a cold block.
    pub jump: fn(patchpoint: usize, target: usize) -> Result<Code, JumpError>,
    /// The greatest distance in bytes that the jump can cover, forwards or backwards.
    pub reach: usize,
}

/// The reason why a site cannot jump to its cold block. Such a site stays in trap mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JumpError {
    /// The distance is greater than the instruction can encode.
    OutOfReach {
        /// Bytes from the site to its cold block.
        distance: isize,
        /// The greatest distance in bytes that the instruction can cover, forwards or backwards.
        reach: usize,
    },
    /// The address of the site or of the cold block is not a multiple of the instruction alignment.
    Misaligned {
        /// The misaligned address.
        address: usize,
        /// The alignment of instructions in bytes.
        alignment: usize,
    },
}

impl core::fmt::Display for JumpError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::OutOfReach { distance, reach } => {
                write!(
                    f,
                    "the cold block is {distance} bytes away, and a jump reaches {reach} \
                           bytes"
                )
            }
            Self::Misaligned { address, alignment } => {
                write!(f, "address {address:#x} is not a multiple of {alignment}")
            }
        }
    }
}

impl core::error::Error for JumpError {}

impl Encoding {
    /// The encoding of architectures whose sites are never patched.
    pub const NONE: Self = Self {
        nop: Code::new(&[]),
        breakpoint: Code::new(&[]),
        jump: |patchpoint, target| {
            let distance = target.wrapping_sub(patchpoint) as isize;
            Err(JumpError::OutOfReach { distance, reach: 0 })
        },
        reach: 0,
    };

    /// Splits the text of a site into head and tail.
    pub fn split<'a>(&self, code: &'a Code) -> (&'a [u8], &'a [u8]) {
        code.as_bytes().split_at_checked(self.breakpoint.len).unwrap_or_default()
    }
}

/// Returns the distance from `from` to `to` if it is within `reach` and both addresses are multiples of `alignment`.
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
