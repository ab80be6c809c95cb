//! Registers, breakpoint and emulator of x86_64.

use dtrace_abi::function::x86_64::{self, Decoded, Register};
use dtrace_abi::site::x86_64::ENCODING;
use sdt_core::ops::ARGS;

use super::Memory;

pub use x86_64::Registers;

pub(in crate::control::functions) const IS_SUPPORTED: bool = true;

/// An instruction that can be emulated.
#[derive(Clone, Copy, Debug)]
pub(in crate::control::functions) struct Instruction(Decoded);

impl Instruction {
    pub(in crate::control::functions) fn decode(code: &[u8], _address: u64) -> Option<Self> {
        x86_64::decode(code).map(Self)
    }

    pub(in crate::control::functions) fn length(&self) -> usize {
        self.0.length.into()
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

/// Returns the breakpoint: `int3`.
pub(in crate::control::functions) fn breakpoint(_code: &[u8]) -> &'static [u8] {
    const { &ENCODING }.breakpoint.as_bytes()
}

pub(in crate::control::functions) const fn address(registers: &Registers) -> u64 {
    registers.rip
}

/// The numbers of the registers of arguments: `rdi`, `rsi`, `rdx`, `rcx`, `r8`, `r9` (System V ABI, 3.2.3).
const ARGUMENTS: [usize; 6] = [7, 6, 2, 1, 8, 9];

pub(in crate::control::functions) fn arguments(registers: &Registers) -> [u64; ARGS] {
    let mut all = [0; ARGS];
    for (to, from) in all.iter_mut().zip(ARGUMENTS) {
        *to = registers.general[from];
    }
    all
}

/// Returns the result of a function: `rax`.
pub(in crate::control::functions) fn result(registers: &Registers) -> u64 {
    Register::new(0).map_or(0, |rax| registers.get(rax))
}
