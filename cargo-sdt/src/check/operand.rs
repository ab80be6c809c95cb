//! Checks fields of four bytes in instructions of x86-64, and in data: the target of each must exist. The bytes before
//! a field determine the instruction.

use super::elf::Target;
use super::functions::Functions;

/// The distance by which an address in an instruction may be outside of the symbol's section, because an index is added
/// to it.
const INDEXED: i128 = 4096;
/// The greatest displacement in data, which counts from the beginning of a table.
const TABLE: i128 = 1 << 16;
/// The greatest distance of an address from an undefined symbol: no object of the kernel is larger.
pub(super) const OBJECT: u64 = 1 << 20;

/// A field that a relocation fills in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operand<'a> {
    /// Number of its section.
    pub(super) section: usize,
    /// The section's bytes, if they are code.
    pub(super) code: Option<&'a [u8]>,
    pub(super) offset: u64,
    pub(super) addend: i64,
    /// Whether it becomes a distance from itself, not an address.
    pub(super) relative: bool,
}

/// The place of its symbol, which the module defines.
#[derive(Clone, Copy, Debug)]
pub(super) struct Base {
    /// The symbol's place.
    pub(super) at: Target,
    /// The size of its section.
    pub(super) size: u64,
    pub(super) is_code: bool,
}

/// The reason why the target of a field is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stray {
    /// Out of the symbol's section.
    Outside,
    /// A call or a jump has a wrong target, at this distance from the symbol.
    Call { distance: i64, reason: &'static str },
    /// The target is in the middle of another function.
    Middle { function: String, offset: u64 },
}

impl Operand<'_> {
    /// Returns why the target of the field is wrong; `None` if it is correct. Without a `base`, the symbol belongs to
    /// another module.
    pub(super) fn judge(&self, base: Option<Base>, functions: &Functions<'_>) -> Option<Stray> {
        let instruction = self.code.map_or(Instruction::Other, |code| before(code, self.offset));
        let branch = self.relative && instruction != Instruction::Other;
        // Distances are counted from the end of the field, addends from its start.
        let distance = self.addend.wrapping_add(4);
        let Some(base) = base else {
            let reason = "a function of another module must be called at its start";
            return if branch {
                (distance != 0).then_some(Stray::Call { distance, reason })
            } else {
                (self.addend.unsigned_abs() > OBJECT).then_some(Stray::Outside)
            };
        };
        let from = if self.relative && self.code.is_some() { 4 } else { 0 };
        let place = i128::from(base.at.offset) + i128::from(self.addend) + from;
        let inside = u64::try_from(place).ok().filter(|&place| place < base.size);
        let there = |offset| Target { offset, ..base.at };
        let known = functions.are_known_in(base.at.section);
        let starts = |place| !known || functions.starts_at(there(place));
        if branch {
            let reason = match inside {
                None => "the target is outside of the function's section",
                Some(_) if !base.is_code => "the target is not code",
                Some(place) if functions.is_other(there(place)) => {
                    "the symbol of the target has a type other than function"
                }
                Some(place) if instruction == Instruction::Call && !starts(place) => {
                    "no function starts at the target"
                }
                Some(_) => return None,
            };
            return Some(Stray::Call { distance, reason });
        }
        let slack = match (self.code.is_some(), base.is_code) {
            (true, true) => 0,
            (true, false) => INDEXED,
            (false, _) => TABLE,
        };
        if !(-slack..=i128::from(base.size) + slack).contains(&place) {
            return Some(Stray::Outside);
        }
        // An address in code must be the start of a function, or a label in the same function.
        let place = inside.filter(|_| self.code.is_some() && base.is_code)?;
        let here = Target { section: self.section, offset: self.offset };
        if starts(place) || functions.are_in_one(here, there(place)) {
            return None;
        }
        let (function, offset) = functions.describe(there(place));
        Some(Stray::Middle { function, offset })
    }
}

/// The kind of instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Instruction {
    /// `call rel32`.
    Call,
    /// `jmp rel32`, `jcc rel32`.
    Jump,
    /// Other instructions: the ModRM byte before a displacement from the instruction pointer is not one of these
    /// opcodes.
    Other,
}

/// Returns whether the instruction with its displacement at an offset is a call or a jump.
pub(super) fn is_branch(code: &[u8], offset: u64) -> bool {
    before(code, offset) != Instruction::Other
}

/// Returns the kind of the instruction that has its displacement at an offset.
fn before(code: &[u8], offset: u64) -> Instruction {
    let before = usize::try_from(offset).ok().and_then(|end| code.get(..end)).unwrap_or_default();
    match *before {
        [.., 0xe8] => Instruction::Call,
        [.., 0xe9] | [.., 0x0f, 0x80..=0x8f] => Instruction::Jump,
        _ => Instruction::Other,
    }
}

#[cfg(test)]
#[path = "../../tests/unit/check/operand.rs"]
mod tests;
