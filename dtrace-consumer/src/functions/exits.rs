//! The instructions that leave a function.

use std::collections::BTreeSet;
use std::ops::Range;

use super::function::{Architecture, Obstacle, Site};
use super::instruction::{Flow, Instruction};
use super::window::Searched;
use super::{aarch64, riscv64, x86_64};

/// The entry and the returns of a function, and the functions that it calls or jumps to.
pub(super) struct Found {
    pub(super) entry: Result<Site, Obstacle>,
    pub(super) returns: Result<Vec<Site>, Obstacle>,
    pub(super) calls: BTreeSet<u64>,
}

impl Architecture {
    /// Decodes the instructions of a function. `Err` has the offset of the first bytes that are no instruction.
    fn decode(self, address: u64, text: &[u8]) -> Result<Vec<Instruction>, usize> {
        match self {
            Self::X86_64 => x86_64::decode(address, text),
            Self::Aarch64 => aarch64::decode(address, text),
            Self::Riscv64 => riscv64::decode(address, text),
        }
    }

    /// Returns an instruction as text.
    fn text(self, address: u64, code: &[u8]) -> String {
        match self {
            Self::X86_64 => x86_64::text(address, code),
            Self::Aarch64 | Self::Riscv64 => {
                // The bytes as a hexadecimal number, in the form that assemblers accept after `.inst` and `.insn`.
                let digits = code.iter().rev().map(|byte| format!("{byte:02x}"));
                ["0x".to_owned()].into_iter().chain(digits).collect()
            }
        }
    }

    /// Returns whether an instruction changes neither an argument register, nor the stack, nor memory.
    fn keeps_arguments(self, code: &[u8]) -> bool {
        match self {
            Self::X86_64 => x86_64::keeps_arguments(code),
            Self::Aarch64 => aarch64::keeps_arguments(code),
            Self::Riscv64 => riscv64::keeps_arguments(code),
        }
    }

    /// Returns whether a kernel can emulate an instruction.
    fn can_emulate(self, code: &[u8]) -> bool {
        use dtrace_abi::function;
        match self {
            Self::X86_64 => function::x86_64::decode(code).is_some(),
            Self::Aarch64 => code
                .first_chunk()
                .is_some_and(|code| function::aarch64::decode(u32::from_le_bytes(*code)).is_some()),
            Self::Riscv64 => function::riscv64::decode(code).is_some(),
        }
    }
}

/// Finds the entry and the returns of a function with this text; `behind` are the bytes between it and the next function.
pub(super) fn find(architecture: Architecture, address: u64, text: &[u8], behind: &[u8]) -> Found {
    let range = address..address + text.len() as u64;
    let instructions = match architecture.decode(address, text) {
        Ok(instructions) => instructions,
        Err(offset) => {
            let obstacle = Obstacle::NotCode { offset: offset as u64 };
            let (entry, returns) = (Err(obstacle.clone()), Err(obstacle));
            return Found { entry, returns, calls: BTreeSet::new() };
        }
    };
    let site = |at: &Instruction| {
        let offset = at.address - address;
        let code = &text[offset as usize..][..at.length];
        if architecture.can_emulate(code) {
            Ok(Site::new(at.address, code))
        } else {
            let instruction = architecture.text(at.address, code);
            Err(Obstacle::NotEmulated { offset, instruction })
        }
    };
    let mut entry = match entry(architecture, text, &instructions) {
        Ok(at) => site(at),
        Err(obstacle) => Err(obstacle),
    };
    let mut returns: Result<Vec<Site>, _> =
        exits(&range, &instructions).and_then(|exits| exits.into_iter().map(site).collect());
    if architecture == Architecture::X86_64 {
        let bytes = [text, behind].concat();
        let mut sites: Vec<_> = entry.iter_mut().chain(returns.iter_mut().flatten()).collect();
        let addresses = sites.iter().map(|site| site.address);
        if let Some(searched) = Searched::new(address, &bytes, &instructions, addresses) {
            for site in &mut sites {
                site.window = searched.window(site.address);
            }
        }
    }
    let calls = instructions.iter().filter_map(|at| match at.flow {
        Flow::Call(Some(target)) | Flow::Jump(target) | Flow::Branch(target) => Some(target),
        _ => None,
    });
    Found { entry, returns, calls: calls.filter(|target| !range.contains(target)).collect() }
}

/// The maximum number of instructions that may be executed before the site of an entry.
const BEFORE: usize = 4;

/// Returns the instruction at which the entry is traced: the first one, or if the kernel cannot emulate it, a later one that
/// is executed at each call, after instructions that change neither an argument nor the stack.
fn entry<'i>(
    architecture: Architecture,
    text: &[u8],
    instructions: &'i [Instruction],
) -> Result<&'i Instruction, Obstacle> {
    let first = instructions.first().ok_or(Obstacle::NoText)?;
    let code = |at: &Instruction| &text[(at.address - first.address) as usize..][..at.length];
    let keeps = |at: &&Instruction| at.flow == Flow::Next && architecture.keeps_arguments(code(at));
    let before = instructions.iter().take(BEFORE).take_while(keeps).count();
    let reached = instructions.iter().take(before + 1);
    let found = reached.into_iter().find(|at| architecture.can_emulate(code(at)));
    // If the kernel can emulate none of these instructions, the caller reports the first one as the obstacle.
    let at = found.unwrap_or(first);
    let is_target = |address| first.address <= address && address < at.address + at.length as u64;
    let targets = instructions.iter().any(
        |at| matches!(at.flow, Flow::Jump(target) | Flow::Branch(target) if is_target(target)),
    );
    if targets { Err(Obstacle::JumpToEntry) } else { Ok(at) }
}

/// Returns the instructions that leave a function with this range of addresses.
fn exits<'i>(
    range: &Range<u64>,
    instructions: &'i [Instruction],
) -> Result<Vec<&'i Instruction>, Obstacle> {
    let mut exits = Vec::new();
    for at in instructions {
        let offset = at.address - range.start;
        match at.flow {
            Flow::Return | Flow::TailCall => exits.push(at),
            Flow::Jump(target) if !range.contains(&target) => exits.push(at),
            Flow::Branch(target) if !range.contains(&target) => {
                return Err(Obstacle::ConditionalExit { offset });
            }
            Flow::Indirect => return Err(Obstacle::IndirectJump { offset }),
            _ => {}
        }
    }
    let targets = instructions.iter().filter_map(|at| match at.flow {
        Flow::Jump(target) | Flow::Branch(target) => Some(target),
        _ => None,
    });
    let targets: BTreeSet<u64> = targets.collect();
    let is_entered = |exit: &&&Instruction| {
        let inside = exit.address + 1..exit.address + exit.length as u64;
        targets.range(inside).next().is_some()
    };
    if let Some(exit) = exits.iter().find(is_entered) {
        return Err(Obstacle::JumpToReturn { offset: exit.address - range.start });
    }
    if exits.is_empty() { Err(Obstacle::NeverReturns) } else { Ok(exits) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Old compilers put the prefix `rep` in front of a return to which the function jumps. Code by hand may jump over it.
    #[test]
    fn returns_that_the_function_enters_behind_their_first_byte_are_not_traced() {
        // xor %eax, %eax; test %edi, %edi; jz to the return, or behind its prefix; mov %edi, %eax; repz ret
        let returns = |distance: u8| {
            let text = [0x31, 0xc0, 0x85, 0xff, 0x74, distance, 0x89, 0xf8, 0xf3, 0xc3];
            find(Architecture::X86_64, 0x1000, &text, &[]).returns.map(|all| all.len())
        };
        assert_eq!(returns(2), Ok(1));
        assert_eq!(returns(3), Err(Obstacle::JumpToReturn { offset: 8 }));
    }
}
