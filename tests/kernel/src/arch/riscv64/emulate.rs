//! What FreeBSD does with the answer of a breakpoint handler: it emulates the instruction whose encoding
//! that is (`dtrace_invop_start` of `sys/cddl/dev/dtrace/riscv/dtrace_subr.c`).

use super::traps::TrapFrame;

/// An instruction that can be emulated. The offsets are unsigned, as the kernel takes them: prologues
/// store above the stack pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Instruction {
    /// `sd ra, offset(sp)`: the offset, and the instruction's length.
    StoreRa { offset: u64, length: u64 },
    /// `ret`, of either length.
    Return,
    /// `c.nop`.
    Nop,
}

/// The answer is a handler's int; encodings have 32 bits.
fn decode(code: u32) -> Option<Instruction> {
    let bits = |low: u32, count: u32| u64::from(code >> low & ((1 << count) - 1));
    match code {
        // sd rs2=ra, (rs1=sp)
        code if code & 0x01ff_f07f == 0x0011_3023 => {
            Some(Instruction::StoreRa { offset: bits(25, 7) << 5 | bits(7, 5), length: 4 })
        }
        // jalr x0, 0(ra); c.jr ra
        0x0000_8067 | 0x8082 => Some(Instruction::Return),
        // c.sdsp ra
        code if code & 0xffff_e07f == 0xe006 => {
            Some(Instruction::StoreRa { offset: bits(7, 3) << 6 | bits(10, 3) << 3, length: 2 })
        }
        0x0001 => Some(Instruction::Nop),
        _ => None,
    }
}

/// Does what the handler's answer wants; `false` when that is nothing FreeBSD knows. That includes the
/// nop of 4 bytes: only the one of 2 is known, and it leaves the program counter as the handler left it.
///
/// # Safety
/// The frame is that of the breakpoint, whose handler stands up for the answer.
pub(super) unsafe fn emulate(frame: &mut TrapFrame, answer: i32) -> bool {
    match decode(answer as u32) {
        Some(Instruction::StoreRa { offset, length }) => {
            // SAFETY: the code that was hit has set up its stack pointer for this.
            unsafe { ((frame.sp + offset) as *mut u64).write(frame.ra) };
            frame.sepc += length;
        }
        Some(Instruction::Return) => frame.sepc = frame.ra,
        Some(Instruction::Nop) => {}
        None => return false,
    }
    true
}
