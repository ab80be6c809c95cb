//! riscv's `struct trapframe` (`sys/riscv/include/frame.h`) and the instructions that the kernel emulates after a breakpoint
//! (`dtrace_invop_start`, `sys/cddl/dev/dtrace/riscv/dtrace_subr.c`).

use core::mem::offset_of;

use static_assertions::const_assert_eq;

use crate::{Release, release};

/// `struct trapframe` of FreeBSD 15, 280 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct TrapFrame {
    /// x1: the return address.
    pub ra: u64,
    /// x2: the stack pointer before the trap.
    pub sp: u64,
    /// x3.
    pub gp: u64,
    /// x4: per-CPU data.
    pub tp: u64,
    /// t0 to t6.
    pub t: [u64; 7],
    /// s0 to s11.
    pub s: [u64; 12],
    /// a0 to a7.
    pub a: [u64; 8],
    /// The address to which the trap returns.
    pub sepc: u64,
    /// The processor state it returns to.
    pub sstatus: u64,
    /// The address or instruction that caused the exception, if it has one.
    pub stval: u64,
    /// The cause of the exception.
    pub scause: u64,
}

const_assert_eq!(offset_of!(TrapFrame, t), 32);
const_assert_eq!(offset_of!(TrapFrame, s), 88);
const_assert_eq!(offset_of!(TrapFrame, a), 184);
const_assert_eq!(offset_of!(TrapFrame, sepc), 248);
const_assert_eq!(offset_of!(TrapFrame, scause), 272);
const_assert_eq!(size_of::<TrapFrame>(), 280);

/// An instruction that a breakpoint handler may return, so that the kernel emulates it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emulated {
    /// `c.nop`. The kernel does not support the 4-byte nop. It does not change the program counter: the handler has set it.
    Nop,
    /// `ret`, of 2 or 4 bytes.
    Return,
    /// `sd ra, offset(sp)`. The kernel treats the offset as unsigned, because prologues store above the stack pointer.
    StoreRa {
        /// The offset in bytes.
        offset: u64,
        /// The size of the instruction in bytes.
        length: u64,
    },
}

impl Emulated {
    /// Decodes the value that a handler returned, as the kernel of `release` does; `None` if that kernel does not emulate such an
    /// instruction, for example the 4-byte nop.
    pub const fn decode(answer: u32, release: Release) -> Option<Self> {
        Some(match answer {
            0x0001 if !release::emulates_nop(release) => return None,
            0x0001 => Self::Nop,
            0x0000_8067 | 0x8082 => Self::Return,
            _ if answer & 0x01ff_f07f == 0x0011_3023 => {
                let offset = answer >> 25 << 5 | answer >> 7 & 0x1f;
                Self::StoreRa { offset: offset as u64, length: 4 }
            }
            _ if answer & 0xffff_e07f == 0xe006 => {
                let offset = (answer >> 7 & 7) << 6 | (answer >> 10 & 7) << 3;
                Self::StoreRa { offset: offset as u64, length: 2 }
            }
            _ => return None,
        })
    }

    /// Emulates the instruction on the registers in `frame` and on the interrupted stack.
    ///
    /// # Safety
    /// `frame` was saved by a breakpoint that replaces this instruction.
    pub unsafe fn carry_out(self, frame: &mut TrapFrame) {
        match self {
            Self::Nop => {}
            Self::Return => frame.sepc = frame.ra,
            Self::StoreRa { offset, length } => {
                // SAFETY: the replaced instruction would have stored to the same address: the caller's contract.
                unsafe { ((frame.sp + offset) as *mut u64).write(frame.ra) };
                frame.sepc += length;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(answer: u32) -> Option<Emulated> {
        Emulated::decode(answer, release::DEFAULT)
    }

    #[test]
    fn before_main_a_nop_means_nothing_and_a_store_does() {
        for version in [1_300_010, 1_300_139, 1_302_001] {
            let release = Release::new(version).unwrap();
            assert_eq!(Emulated::decode(0x0001, release), None);
            let store = Some(Emulated::StoreRa { offset: 0, length: 4 });
            assert_eq!(Emulated::decode(0x0011_3023, release), store);
        }
    }

    #[test]
    fn answers_are_instructions() {
        let store = |offset, length| Some(Emulated::StoreRa { offset, length });
        for (answer, expected) in [
            // c.nop; nop
            (0x0001, Some(Emulated::Nop)),
            (0x0000_0013, None),
            // c.jr ra; jalr x0, 0(ra); c.jr t0; jalr x0, 4(ra); jalr ra, 0(ra)
            (0x8082, Some(Emulated::Return)),
            (0x0000_8067, Some(Emulated::Return)),
            (0x8282, None),
            (0x0040_8067, None),
            (0x0000_80e7, None),
            // sd ra, 8(sp); sd ra, 1000(sp); sd s0, 8(sp); sd ra, 8(s0); sw ra, 8(sp)
            (0x0011_3423, store(8, 4)),
            (0x3e11_3423, store(1000, 4)),
            (0x0081_3423, None),
            (0x0014_3423, None),
            (0x0011_2423, None),
            // c.sdsp ra, 8(sp); c.sdsp ra, 504(sp); c.sdsp s0, 0(sp)
            (0xe406, store(8, 2)),
            (0xff86, store(504, 2)),
            (0xe022, None),
            // ebreak; c.ebreak; not an instruction
            (0x0010_0073, None),
            (0x9002, None),
            (0, None),
        ] {
            assert_eq!(decode(answer), expected, "{answer:#x}");
        }
    }

    #[test]
    fn they_are_carried_out() {
        let mut stack = [0u64; 4];
        let frame = TrapFrame {
            sepc: 0x1000,
            ra: 0x2000,
            sp: stack.as_mut_ptr() as u64,
            ..TrapFrame::default()
        };
        for (answer, sepc) in
            [(0x0001, 0x1000), (0x8082, 0x2000), (0x0011_3423, 0x1004), (0xec06, 0x1002)]
        {
            let mut after = frame;
            // SAFETY: `sp` points to `stack`, and the offsets are inside of it.
            unsafe { decode(answer).unwrap().carry_out(&mut after) };
            assert_eq!(after, TrapFrame { sepc, ..frame }, "{answer:#x}");
        }
        assert_eq!(stack, [0, 0x2000, 0, 0x2000]);
    }
}
