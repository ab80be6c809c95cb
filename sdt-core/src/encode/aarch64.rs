//! aarch64: Arm ARM DDI 0487, C6.2 (NOP, BRK, B). All three may be changed into each other while other
//! CPUs execute them (B2.2.5, concurrent modification and execution of instructions).

use super::{Code, Encoding, JumpError, distance};

/// Immediate of the breakpoint: the one FreeBSD's kernel takes for DTrace's
/// (`sys/cddl/dev/fbt/aarch64/fbt_isa.h`, main).
pub const BRK_IMMEDIATE: u32 = 0x40d;

/// Bytes that a jump reaches either way.
const REACH: usize = 1 << 27;

/// What a site holds on aarch64.
pub const ENCODING: Encoding = Encoding {
    // `nop`
    nop: Code::new(&0xd503_201f_u32.to_le_bytes()),
    // `brk #0x40d`, all of the site: there is no tail.
    breakpoint: Code::new(&(0xd420_0000 | BRK_IMMEDIATE << 5).to_le_bytes()),
    jump,
    reach: REACH,
};

/// `b imm26`
///
/// # Errors
/// [`JumpError::Misaligned`]; [`JumpError::OutOfReach`] beyond 128 MiB.
pub const fn jump(patchpoint: usize, target: usize) -> Result<Code, JumpError> {
    match distance(patchpoint, target, REACH as isize, 4) {
        Ok(distance) => {
            let word = 0x1400_0000 | (distance >> 2) as u32 & 0x03ff_ffff;
            Ok(Code::new(&word.to_le_bytes()))
        }
        Err(error) => Err(error),
    }
}
