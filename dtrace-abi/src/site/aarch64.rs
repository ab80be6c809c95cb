//! aarch64: Arm ARM DDI 0487, C6.2 (NOP, BRK, B). Each of the three may replace another while other CPUs execute it
//! (B2.2.5, concurrent modification and execution of instructions).

use super::{Code, Encoding, JumpError, distance};

/// The immediate of the breakpoint. FreeBSD's kernel passes breakpoints with this immediate to DTrace
/// (`sys/cddl/dev/fbt/aarch64/fbt_isa.h`, main).
pub const BRK_IMMEDIATE: u32 = 0x40d;

/// The reach of a jump in bytes, forwards or backwards.
const REACH: usize = 1 << 27;

/// The instructions of a site on aarch64.
pub const ENCODING: Encoding = Encoding {
    // `nop`
    nop: Code::new(&0xd503_201f_u32.to_le_bytes()),
    // `brk #0x40d`. It covers the whole site, so there is no tail.
    breakpoint: Code::new(&(0xd420_0000 | BRK_IMMEDIATE << 5).to_le_bytes()),
    jump,
    reach: REACH,
};

/// Returns `b imm26` from `patchpoint` to `target`.
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
