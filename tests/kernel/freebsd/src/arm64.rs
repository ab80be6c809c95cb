//! arm64's `struct trapframe` (`sys/arm64/include/frame.h`) and the instructions that the kernel emulates after a breakpoint
//! (`dtrace_invop_start`, `sys/cddl/dev/dtrace/aarch64/dtrace_subr.c`).

use core::mem::offset_of;

use static_assertions::const_assert_eq;
use thiserror::Error;

use crate::{Release, release};

/// `struct trapframe` of FreeBSD 15, 288 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct TrapFrame {
    /// The stack pointer before the exception.
    pub sp: u64,
    /// x30.
    pub lr: u64,
    /// The address to which the exception returns.
    pub elr: u64,
    /// The processor state it returns to.
    pub spsr: u64,
    /// The cause of the exception.
    pub esr: u64,
    /// The faulting address, if the exception has one.
    pub far: u64,
    /// x0 to x29.
    pub x: [u64; 30],
}

const_assert_eq!(offset_of!(TrapFrame, elr), 16);
const_assert_eq!(offset_of!(TrapFrame, esr), 32);
const_assert_eq!(offset_of!(TrapFrame, x), 48);
const_assert_eq!(size_of::<TrapFrame>(), 288);

impl TrapFrame {
    /// Returns the register that `number` encodes in a load or store instruction; 31 is the zero register.
    fn register(&self, number: usize) -> u64 {
        if number == 30 { self.lr } else { self.x.get(number).copied().unwrap_or(0) }
    }

    fn set_register(&mut self, number: usize, value: u64) {
        if number == 30 {
            self.lr = value;
        } else if let Some(register) = self.x.get_mut(number) {
            *register = value;
        }
    }
}

/// The size of an instruction in bytes.
const INSTRUCTION: u64 = 4;
/// The number of bytes below the interrupted stack pointer that the trap handler does not use, so that an emulated instruction
/// can store there.
pub const FREE_STACK: u64 = 128;

/// An instruction that a breakpoint handler may return, so that the kernel emulates it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emulated {
    /// `nop`
    Nop,
    /// `ret`
    Return,
    /// `b`, with the offset in words. The kernel accepts only forward branches of less than 64 MiB.
    Branch(u32),
    /// `sub sp, sp, #`
    Allocate(u32),
    /// `stp first, second, [sp, #offset]!`
    Store(Pair),
    /// `ldp first, second, [sp], #offset`
    Load(Pair),
}

/// Two registers, and the number that is added to the stack pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    first: usize,
    second: usize,
    offset: i64,
}

impl Emulated {
    /// Decodes the value that a handler returned, as the kernel of `release` does; `None` if that kernel does not emulate such an
    /// instruction.
    pub const fn decode(answer: u32, release: Release) -> Option<Self> {
        Some(match answer {
            0xd503_201f if !release::emulates_nop(release) => return None,
            0xd503_201f => Self::Nop,
            0xd65f_03c0 => Self::Return,
            _ if answer & 0xff00_0000 == 0x1400_0000 => Self::Branch(answer & 0x00ff_ffff),
            _ if answer & 0xffc0_03ff == 0xd100_03ff => Self::Allocate(answer >> 10 & 0xfff),
            _ if answer & 0xffc0_03e0 == 0xa980_03e0 => Self::Store(Pair::decode(answer)),
            _ if answer & 0xffc0_03e0 == 0xa8c0_03e0 => Self::Load(Pair::decode(answer)),
            _ => return None,
        })
    }

    /// Emulates the instruction on the registers in `frame` and on the interrupted stack.
    ///
    /// # Safety
    /// `frame` was saved by a breakpoint that replaces this instruction, and the [`FREE_STACK`] bytes below its stack pointer are
    /// unused.
    ///
    /// # Errors
    /// If the instruction would store outside of the [`FREE_STACK`] bytes.
    pub unsafe fn carry_out(self, frame: &mut TrapFrame) -> Result<(), OutOfStack> {
        match self {
            Self::Nop => {}
            Self::Return => {
                frame.elr = frame.lr;
                return Ok(());
            }
            Self::Branch(words) => {
                frame.elr += u64::from(words) * INSTRUCTION;
                return Ok(());
            }
            Self::Allocate(bytes) => frame.sp -= u64::from(bytes),
            Self::Store(Pair { first, second, offset }) => {
                if offset >= 0 || offset.unsigned_abs() > FREE_STACK {
                    return Err(OutOfStack(offset));
                }
                frame.sp = frame.sp.wrapping_add_signed(offset);
                let pair = [frame.register(first), frame.register(second)];
                // SAFETY: the offset is within the free stack below the stack pointer.
                unsafe { (frame.sp as *mut [u64; 2]).write(pair) };
            }
            Self::Load(Pair { first, second, offset }) => {
                // SAFETY: the replaced instruction would have read the same 16 bytes of the stack: the caller's contract.
                let [low, high] = unsafe { (frame.sp as *const [u64; 2]).read() };
                frame.set_register(first, low);
                frame.set_register(second, high);
                frame.sp = frame.sp.wrapping_add_signed(offset);
            }
        }
        frame.elr += INSTRUCTION;
        Ok(())
    }
}

impl Pair {
    const fn decode(instruction: u32) -> Self {
        // A signed number of 7 bits, in units of 8 bytes.
        let offset = (instruction << 10) as i32 >> 25;
        Self {
            first: (instruction & 31) as usize,
            second: (instruction >> 10 & 31) as usize,
            offset: offset as i64 * 8,
        }
    }
}

/// An emulated instruction would store outside of the stack that the trap handler leaves free, at this offset.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("{0} bytes from the stack pointer, {FREE_STACK} are free below it")]
pub struct OutOfStack(pub i64);

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(answer: u32) -> Option<Emulated> {
        Emulated::decode(answer, release::DEFAULT)
    }

    #[test]
    fn answers_are_instructions() {
        let pair = |first, second, offset| Pair { first, second, offset };
        for (answer, expected) in [
            (0xd503_201f, Some(Emulated::Nop)),
            (0xd65f_03c0, Some(Emulated::Return)),
            // b .+4; b .-4, which the kernel does not decode as a branch
            (0x1400_0001, Some(Emulated::Branch(1))),
            (0x17ff_ffff, None),
            // sub sp, sp, #32; sub sp, sp, #1, lsl #12; sub x0, sp, #32
            (0xd100_83ff, Some(Emulated::Allocate(32))),
            (0xd140_07ff, None),
            (0xd100_83e0, None),
            // stp x29, x30, [sp, #-16]!; stp x28, x27, [sp, #-96]!; stp x29, x30, [sp, #16]
            (0xa9bf_7bfd, Some(Emulated::Store(pair(29, 30, -16)))),
            (0xa9ba_6ffc, Some(Emulated::Store(pair(28, 27, -96)))),
            (0xa901_7bfd, None),
            // ldp x29, x30, [sp], #16; ldp x29, x30, [sp], #32; ldp x29, x30, [x0], #16
            (0xa8c1_7bfd, Some(Emulated::Load(pair(29, 30, 16)))),
            (0xa8c2_7bfd, Some(Emulated::Load(pair(29, 30, 32)))),
            (0xa8c1_7c1d, None),
            (0, None),
        ] {
            assert_eq!(decode(answer), expected, "{answer:#x}");
        }
    }

    #[test]
    fn before_main_a_nop_means_nothing_and_a_branch_does() {
        for version in [1_300_010, 1_300_139] {
            let release = Release::new(version).unwrap();
            assert_eq!(Emulated::decode(0xd503_201f, release), None);
            assert_eq!(Emulated::decode(0x1400_0000, release), Some(Emulated::Branch(0)));
        }
    }

    fn carry_out(answer: u32, frame: TrapFrame) -> TrapFrame {
        let mut after = frame;
        // SAFETY: `sp` of a frame points to a buffer if the instruction loads or stores.
        unsafe { decode(answer).unwrap().carry_out(&mut after) }.unwrap();
        after
    }

    #[test]
    fn what_needs_no_memory_is_carried_out() {
        let frame = TrapFrame { elr: 0x1000, lr: 0x2000, sp: 0x3000, ..TrapFrame::default() };
        assert_eq!(carry_out(0xd503_201f, frame), TrapFrame { elr: 0x1004, ..frame });
        assert_eq!(carry_out(0xd65f_03c0, frame), TrapFrame { elr: 0x2000, ..frame });
        assert_eq!(carry_out(0x1400_0010, frame), TrapFrame { elr: 0x1040, ..frame });
        assert_eq!(carry_out(0xd100_83ff, frame), TrapFrame { elr: 0x1004, sp: 0x2fe0, ..frame });
    }

    #[test]
    fn a_stored_pair_is_loaded_again() {
        let mut stack = [0u64; 16];
        let top = stack.as_mut_ptr_range().end as u64;
        let mut frame = TrapFrame { elr: 0x1000, lr: 30, sp: top, ..TrapFrame::default() };
        frame.x[29] = 29;
        let stored = carry_out(0xa9bf_7bfd, frame);
        assert_eq!(stored, TrapFrame { elr: 0x1004, sp: top - 16, ..frame });
        let mut changed = stored;
        changed.lr = 0;
        changed.x[29] = 0;
        assert_eq!(carry_out(0xa8c1_7bfd, changed), TrapFrame { elr: 0x1008, ..frame });
        assert_eq!(stack[14..], [29, 30]);
    }

    #[test]
    fn a_store_beyond_the_free_stack_is_refused() {
        let mut frame = TrapFrame { sp: 0x3000, ..TrapFrame::default() };
        // stp x29, x30, [sp, #-144]!; stp x29, x30, [sp, #16]!
        for (answer, offset) in [(0xa9b7_7bfd, -144), (0xa981_7bfd, 16)] {
            let emulated = decode(answer).unwrap();
            // SAFETY: `carry_out` returns the error before it stores anything.
            assert_eq!(unsafe { emulated.carry_out(&mut frame) }, Err(OutOfStack(offset)));
        }
        assert_eq!(frame.sp, 0x3000);
    }
}
