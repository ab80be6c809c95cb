//! The stores at the beginning of a function: which argument register it saves in which slot of its frame.
//!
//! Unoptimised code stores each parameter in a slot, and the debug information describes only the slot. This module follows the
//! instructions from the entry up to the first one that changes the flow of control, or whose effect it does not know. Addresses are
//! relative to the canonical frame address (CFA): the stack pointer before the call.

mod aarch64;
mod x86_64;

use std::ops::Range;

use super::function::Architecture;
use crate::signature::Frame;

/// The maximum number of instructions that are followed.
const MOST: usize = 256;

/// A value that came from an argument register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Value {
    /// The number of the argument.
    argument: u8,
    /// The number of low bytes that are those of the argument.
    bytes: u64,
    /// Whether only the lowest bit is that of the argument, and the others are 0.
    is_bit: bool,
}

/// A part of the frame, and the value that it contains.
#[derive(Clone, Debug)]
struct Slot {
    addresses: Range<i64>,
    value: Option<Value>,
}

/// The state after the followed instructions.
#[derive(Clone, Debug)]
pub(super) struct Prologue {
    architecture: Architecture,
    /// The stack pointer.
    stack: Option<i64>,
    /// The frame pointer, once the function has set it.
    frame: Option<i64>,
    /// The values of registers, by their numbers.
    registers: [Option<Value>; 32],
    /// The slots with their current values.
    slots: Vec<Slot>,
    /// The first store to each slot.
    first: Vec<Slot>,
    /// Whether the stack pointer has changed since the first store of an argument.
    has_moved: bool,
}

impl Prologue {
    /// Follows the first instructions of a function with this text.
    pub fn follow(architecture: Architecture, text: &[u8]) -> Self {
        let (stack, registers): (i64, &[u8]) = match architecture {
            Architecture::X86_64 => (-8, &x86_64::ARGUMENTS),
            Architecture::Aarch64 => (0, &aarch64::ARGUMENTS),
            Architecture::Riscv64 => (0, &[]),
        };
        let mut state = Self {
            architecture,
            stack: Some(stack),
            frame: None,
            registers: [None; 32],
            slots: Vec::new(),
            first: Vec::new(),
            has_moved: false,
        };
        for (argument, register) in (0..).zip(registers) {
            let value = Value { argument, bytes: 8, is_bit: false };
            state.registers[usize::from(*register)] = Some(value);
        }
        match architecture {
            Architecture::X86_64 => x86_64::follow(&mut state, text),
            Architecture::Aarch64 => aarch64::follow(&mut state, text),
            Architecture::Riscv64 => {}
        }
        state
    }

    /// Returns the address to which the slots of variables are relative.
    pub fn address(&self, frame: Frame) -> Option<i64> {
        let (stack, pointer) = match self.architecture {
            Architecture::X86_64 => (7, 6),
            Architecture::Aarch64 => (31, 29),
            Architecture::Riscv64 => (2, 8),
        };
        match frame {
            Frame::Call => Some(0),
            Frame::Register(register, offset) if register == stack => {
                self.stack.filter(|_| !self.has_moved)?.checked_add(offset)
            }
            Frame::Register(register, offset) if register == pointer => {
                self.frame?.checked_add(offset)
            }
            Frame::Register(..) => None,
        }
    }

    /// Returns the number of the argument whose register the function stores first in a slot of `size` bytes. For a value of 0
    /// or 1, the lowest bit suffices.
    pub fn stored(&self, slot: i64, size: u64, is_flag: bool) -> Option<u8> {
        let addresses = slot..slot.checked_add_unsigned(size)?;
        let overlaps =
            |of: &&Slot| of.addresses.start < addresses.end && addresses.start < of.addresses.end;
        let mut all = self.first.iter().filter(overlaps);
        let first = all.next().filter(|of| of.addresses == addresses)?;
        let value = first.value.filter(|of| of.bytes >= size && (!of.is_bit || is_flag))?;
        all.next().is_none().then_some(value.argument)
    }

    fn set(&mut self, register: usize, value: Option<Value>) {
        if let Some(of) = self.registers.get_mut(register) {
            *of = value;
        }
    }

    /// Changes the stack pointer.
    fn move_stack(&mut self, to: Option<i64>) {
        self.has_moved |= self.first.iter().any(|slot| slot.value.is_some());
        self.stack = to;
    }

    /// Stores a value in the frame.
    fn store(&mut self, address: i64, size: u64, value: Option<Value>) {
        let Some(end) = address.checked_add_unsigned(size) else { return };
        let addresses = address..end;
        let overlaps =
            |of: &Slot| of.addresses.start < addresses.end && addresses.start < of.addresses.end;
        if !self.first.iter().any(overlaps) {
            self.first.push(Slot { addresses: addresses.clone(), value });
        }
        self.slots.retain(|of| !overlaps(of));
        let value = value.map(|value| Value { bytes: value.bytes.min(size), ..value });
        self.slots.push(Slot { addresses, value });
    }

    /// Returns the value in the frame.
    fn load(&self, address: i64, size: u64) -> Option<Value> {
        let slot = self.slots.iter().find(|of| of.addresses.start == address)?;
        let value = slot.value.filter(|_| slot.addresses.end - address >= size.cast_signed())?;
        Some(Value { bytes: value.bytes.min(size), ..value })
    }
}
