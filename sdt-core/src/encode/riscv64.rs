//! riscv64: the RISC-V Instruction Set Manual, volume I (ADDI, EBREAK, C.EBREAK, JAL).
//!
//! A site is a 4-byte nop that may begin at any even address. A store to it is sure to be seen whole only
//! if it is aligned, so what changes at once is the first halfword; the breakpoint there is the
//! 2-byte one. A machine without the C extension does not have that; there all instructions are aligned to 4 bytes,
//! and a site changes as a whole.

use super::{Code, Encoding, JumpError, distance};

/// Bytes that a jump reaches either way.
const REACH: usize = 1 << 20;

/// What a site holds on riscv64.
pub const ENCODING: Encoding = Encoding {
    // `addi x0, x0, 0`
    nop: Code::new(&0x13_u32.to_le_bytes()),
    // `c.ebreak`
    breakpoint: Code::new(&0x9002_u16.to_le_bytes()),
    jump,
    reach: REACH,
};

/// What a site holds where there are no 2-byte instructions.
pub const ENCODING_WITHOUT_C: Encoding = Encoding {
    // `ebreak`, all of the site: there is no tail.
    breakpoint: Code::new(&0x0010_0073_u32.to_le_bytes()),
    ..ENCODING
};

/// `jal x0, imm21`
///
/// # Errors
/// [`JumpError::Misaligned`]; [`JumpError::OutOfReach`] beyond 1 MiB.
pub const fn jump(patchpoint: usize, target: usize) -> Result<Code, JumpError> {
    match distance(patchpoint, target, REACH as isize, 2) {
        Ok(distance) => {
            let bits = distance as u32;
            // imm[20|10:1|11|19:12]
            let immediate = (bits >> 20 & 1) << 31
                | (bits >> 1 & 0x3ff) << 21
                | (bits >> 11 & 1) << 20
                | (bits >> 12 & 0xff) << 12;
            Ok(Code::new(&(0x6f | immediate).to_le_bytes()))
        }
        Err(error) => Err(error),
    }
}
