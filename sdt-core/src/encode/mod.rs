//! Instructions at a site, by architecture: what each state of it looks like in bytes.
//!
//! Plain functions on addresses and bytes, compiled for every target, so that all of them are tested on
//! any host. Each file is one [`Encoding`].

pub mod aarch64;
pub mod riscv64;
pub mod x86_64;

/// Most bytes of a site on any architecture.
pub const MAX_LEN: usize = 5;

/// A few bytes of text: an instruction, or the part of one that changes at once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Code {
    bytes: [u8; MAX_LEN],
    len: usize,
}

impl Code {
    /// These bytes.
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

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

impl core::fmt::Debug for Code {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:02x?}", self.as_bytes())
    }
}

/// What a site can hold on one architecture.
#[derive(Clone, Copy, Debug)]
pub struct Encoding {
    /// The instruction of a site that is not enabled. Its length is the site's.
    pub nop: Code,
    /// The breakpoint, which covers the first bytes of the site: its *head*, which always changes in one
    /// store. What is behind it is the *tail*, which changes only while the head is a breakpoint.
    pub breakpoint: Code,
    /// The jump from a patchpoint to a cold block.
    pub jump: fn(patchpoint: usize, target: usize) -> Result<Code, JumpError>,
    /// Most bytes that the jump can go, either way.
    pub reach: usize,
}

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

impl Encoding {
    /// For hosts that patch nothing and so have no sites.
    pub const NONE: Self = Self {
        nop: Code::new(&[]),
        breakpoint: Code::new(&[]),
        jump: |patchpoint, target| {
            let distance = target.wrapping_sub(patchpoint) as isize;
            Err(JumpError::OutOfReach { distance, reach: 0 })
        },
        reach: 0,
    };

    /// Head and tail of a site's text.
    pub fn split<'a>(&self, code: &'a Code) -> (&'a [u8], &'a [u8]) {
        code.as_bytes().split_at_checked(self.breakpoint.len).unwrap_or_default()
    }
}

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
