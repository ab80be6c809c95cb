//! Registers, breakpoint and emulator of aarch64.

use dtrace_abi::function::aarch64::{self, LEN, Machine};
use dtrace_abi::site::aarch64::ENCODING;
use sdt_core::ops::ARGS;

use super::Memory;

pub use aarch64::Registers;

pub(in crate::control::functions) const IS_SUPPORTED: bool = true;

/// An instruction that can be emulated.
#[derive(Clone, Copy, Debug)]
pub(in crate::control::functions) struct Instruction(aarch64::Instruction);

impl Instruction {
    pub(in crate::control::functions) fn decode(code: &[u8], address: u64) -> Option<Self> {
        let word = u32::from_le_bytes(*code.first_chunk()?);
        address.is_multiple_of(LEN as u64).then(|| aarch64::decode(word).map(Self))?
    }

    pub(in crate::control::functions) const fn length(&self) -> usize {
        LEN
    }

    pub(in crate::control::functions) const fn below_stack(&self) -> u64 {
        self.0.below_stack()
    }

    /// Emulates the instruction on the registers and the stack of the interrupted code.
    ///
    /// # Safety
    /// `registers` are those of code that a breakpoint in place of this instruction has interrupted, and the handler has left
    /// `below_stack` bytes free.
    pub(in crate::control::functions) unsafe fn emulate(&self, registers: &mut Registers) {
        // SAFETY: the contract of this function is that of `Memory::new`.
        let mut memory = unsafe { Memory::new() };
        self.0.emulate(registers, &mut memory);
    }
}

impl Machine for Memory {
    fn sign(&mut self, pointer: u64, modifier: u64, key_b: bool) -> u64 {
        let mut signed = pointer;
        // SAFETY: `pacia1716` and `pacib1716` are hints: they change `x17` only, and nothing on CPUs without pointer
        // authentication.
        unsafe {
            if key_b {
                core::arch::asm!("hint #10", inout("x17") signed, in("x16") modifier, options(nomem, nostack, preserves_flags));
            } else {
                core::arch::asm!("hint #8", inout("x17") signed, in("x16") modifier, options(nomem, nostack, preserves_flags));
            }
        }
        signed
    }
}

/// Returns the breakpoint: `brk #0x40d`.
pub(in crate::control::functions) fn breakpoint(_code: &[u8]) -> &'static [u8] {
    const { &ENCODING }.breakpoint.as_bytes()
}

pub(in crate::control::functions) const fn address(registers: &Registers) -> u64 {
    registers.pc
}

/// Returns the arguments of a function: `x0` to `x7` (AAPCS64, 6.8.2).
pub(in crate::control::functions) fn arguments(registers: &Registers) -> [u64; ARGS] {
    let mut all = [0; ARGS];
    for (to, from) in all.iter_mut().zip(registers.x.iter().take(8)) {
        *to = *from;
    }
    all
}

/// Returns the result of a function: `x0`.
pub(in crate::control::functions) const fn result(registers: &Registers) -> u64 {
    registers.x[0]
}
