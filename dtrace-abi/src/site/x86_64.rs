//! x86_64: Intel SDM volume 2 (NOP, INT3, JMP).

use super::{Code, Encoding, JumpError, distance};

/// The reach of a jump in bytes, forwards or backwards.
const REACH: usize = 1 << 31;

/// The instructions of a site on x86_64.
pub const ENCODING: Encoding = Encoding {
    // `nopl 0(%rax,%rax,1)`: one instruction, so that no saved program counter ever points into it.
    nop: Code::new(&[0x0f, 0x1f, 0x44, 0x00, 0x00]),
    // `int3`
    breakpoint: Code::new(&[0xcc]),
    jump,
    reach: REACH,
};

/// Returns `jmp rel32` from `patchpoint` to `target`.
///
/// # Errors
/// [`JumpError::OutOfReach`] beyond 2 GiB.
pub const fn jump(patchpoint: usize, target: usize) -> Result<Code, JumpError> {
    // The distance counts from the end of the instruction.
    match distance(patchpoint.wrapping_add(5), target, REACH as isize, 1) {
        Ok(distance) => {
            let [a, b, c, d] = (distance as i32).to_le_bytes();
            Ok(Code::new(&[0xe9, a, b, c, d]))
        }
        Err(error) => Err(error),
    }
}
