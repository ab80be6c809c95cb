//! riscv64: the RISC-V Instruction Set Manual, volume I (ADDI, EBREAK, C.EBREAK, JAL).
//!
//! A site is a 4-byte nop that may begin at any even address. Other CPUs see a store as a whole only if it is aligned,
//! so the head is the first halfword, and the breakpoint is the 2-byte one. A machine without the C extension has no
//! 2-byte breakpoint. It aligns all instructions to 4 bytes, so the head is the whole site.

use super::{Code, Encoding, JumpError, distance};

/// The reach of a jump in bytes, forwards or backwards.
const REACH: usize = 1 << 20;

/// The instructions of a site on riscv64.
pub const ENCODING: Encoding = Encoding {
    // `addi x0, x0, 0`
    nop: Code::new(&0x13_u32.to_le_bytes()),
    // `c.ebreak`
    breakpoint: Code::new(&0x9002_u16.to_le_bytes()),
    jump,
    reach: REACH,
};

/// The instructions of a site on a riscv64 without 2-byte instructions.
pub const ENCODING_WITHOUT_C: Encoding = Encoding {
    // `ebreak`. It covers the whole site, so there is no tail.
    breakpoint: Code::new(&0x0010_0073_u32.to_le_bytes()),
    ..ENCODING
};

/// Returns `jal x0, imm21` from `patchpoint` to `target`.
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
