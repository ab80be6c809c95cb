//! Architectures on which functions cannot be traced.

use sdt_core::ops::ARGS;

/// The registers of interrupted code. No function is traced on this architecture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// The address of the instruction.
    pub pc: u64,
}

pub(in crate::control::functions) const IS_SUPPORTED: bool = false;

/// An instruction that can be emulated: there is none on this architecture.
#[derive(Clone, Copy, Debug)]
pub(in crate::control::functions) enum Instruction {}

impl Instruction {
    pub(in crate::control::functions) const fn decode(_: &[u8], _: u64) -> Option<Self> {
        None
    }

    pub(in crate::control::functions) const fn length(&self) -> usize {
        match *self {}
    }

    pub(in crate::control::functions) const fn below_stack(&self) -> u64 {
        match *self {}
    }

    /// Emulates the instruction; never called.
    ///
    /// # Safety
    /// None: there is no instruction.
    pub(in crate::control::functions) const unsafe fn emulate(&self, _: &mut Registers) {
        match *self {}
    }
}

pub(in crate::control::functions) const fn breakpoint(_: &[u8]) -> &'static [u8] {
    &[]
}

pub(in crate::control::functions) const fn address(registers: &Registers) -> u64 {
    registers.pc
}

pub(in crate::control::functions) const fn arguments(_: &Registers) -> [u64; ARGS] {
    [0; ARGS]
}

pub(in crate::control::functions) const fn result(_: &Registers) -> u64 {
    0
}
