//! x86_64: Intel SDM volume 2 (NOP, INT3, JMP).

use super::{JumpError, distance};

/// Bytes of a site.
pub const LEN: usize = 5;

/// Bytes that a breakpoint covers.
pub const HEAD: usize = 1;

/// `nopl 0(%rax,%rax,1)`: one instruction, so that no saved program counter ever points into it.
pub const NOP: [u8; LEN] = [0x0f, 0x1f, 0x44, 0x00, 0x00];

/// `int3`
pub const fn breakpoint(_: usize) -> [u8; HEAD] {
    [0xcc]
}

/// `jmp rel32`
///
/// # Errors
/// [`JumpError::OutOfReach`] beyond 2 GiB.
pub const fn jump(patchpoint: usize, target: usize) -> Result<[u8; LEN], JumpError> {
    // Counted from the end of the instruction.
    match distance(patchpoint.wrapping_add(LEN), target, 1 << 31, 1) {
        Ok(distance) => {
            let [a, b, c, d] = (distance as i32).to_le_bytes();
            Ok([0xe9, a, b, c, d])
        }
        Err(error) => Err(error),
    }
}
