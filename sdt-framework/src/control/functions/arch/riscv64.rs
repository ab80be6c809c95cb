//! Registers, breakpoint and emulator of riscv64.

use dtrace_abi::function::riscv64::{self, Decoded};
use dtrace_abi::site::Encoding;
use dtrace_abi::site::riscv64::{ENCODING, ENCODING_WITHOUT_C};
use sdt_core::ops::ARGS;

pub use riscv64::Registers;

pub(in crate::control::functions) const IS_SUPPORTED: bool = true;

/// Whether the kernel is compiled for processors with instructions of 2 bytes, and so with a breakpoint of 2 bytes.
const HAS_SHORT: bool = cfg!(target_feature = "c");

/// An instruction that can be emulated.
#[derive(Clone, Copy, Debug)]
pub(in crate::control::functions) struct Instruction(Decoded);

impl Instruction {
    pub(in crate::control::functions) fn decode(code: &[u8], address: u64) -> Option<Self> {
        let alignment = if HAS_SHORT { 2 } else { 4 };
        address.is_multiple_of(alignment).then(|| riscv64::decode(code).map(Self))?
    }

    pub(in crate::control::functions) fn length(&self) -> usize {
        self.0.length.into()
    }

    pub(in crate::control::functions) const fn below_stack(&self) -> u64 {
        0
    }

    /// Emulates the instruction on the registers of the interrupted code.
    ///
    /// # Safety
    /// None: no instruction accesses memory.
    pub(in crate::control::functions) const unsafe fn emulate(&self, registers: &mut Registers) {
        self.0.emulate(registers);
    }
}

/// Returns the breakpoint: `c.ebreak`, or `ebreak` for processors without instructions of 2 bytes. `c.ebreak` replaces only the
/// first half of an instruction of 4 bytes. The other half is never executed, because the handler continues after the whole
/// instruction.
pub(in crate::control::functions) fn breakpoint(_code: &[u8]) -> &'static [u8] {
    const BREAKPOINT: &Encoding = if HAS_SHORT { &ENCODING } else { &ENCODING_WITHOUT_C };
    BREAKPOINT.breakpoint.as_bytes()
}

pub(in crate::control::functions) const fn address(registers: &Registers) -> u64 {
    registers.pc
}

/// Returns the arguments of a function: `a0` to `a7` (psABI, 2.1).
pub(in crate::control::functions) fn arguments(registers: &Registers) -> [u64; ARGS] {
    let mut all = [0; ARGS];
    for (to, from) in all.iter_mut().zip(registers.x.iter().skip(10).take(8)) {
        *to = *from;
    }
    all
}

/// Returns the result of a function: `a0`.
pub(in crate::control::functions) const fn result(registers: &Registers) -> u64 {
    registers.x[10]
}
