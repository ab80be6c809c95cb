//! aarch64: Arm ARM DDI 0487, C6.2 (NOP, BRK, B). All three may be changed into each other while other
//! CPUs execute them (B2.2.5, concurrent modification and execution of instructions).

use super::{JumpError, distance};

/// Bytes of a site.
pub const LEN: usize = 4;

/// Bytes that a breakpoint covers: the whole instruction.
pub const HEAD: usize = 4;

/// `nop`
pub const NOP: [u8; LEN] = 0xd503_201f_u32.to_le_bytes();

/// Immediate of the breakpoint: the one FreeBSD's kernel takes for DTrace's
/// (`sys/cddl/dev/fbt/aarch64/fbt_isa.h`, main).
pub const BRK_IMMEDIATE: u32 = 0x40d;

/// `brk #0x40d`
pub const fn breakpoint(_: usize) -> [u8; HEAD] {
    (0xd420_0000 | BRK_IMMEDIATE << 5).to_le_bytes()
}

/// `b imm26`
///
/// # Errors
/// [`JumpError::Misaligned`]; [`JumpError::OutOfReach`] beyond 128 MiB.
pub const fn jump(patchpoint: usize, target: usize) -> Result<[u8; LEN], JumpError> {
    match distance(patchpoint, target, 1 << 27, 4) {
        Ok(distance) => Ok((0x1400_0000 | (distance >> 2) as u32 & 0x03ff_ffff).to_le_bytes()),
        Err(error) => Err(error),
    }
}
