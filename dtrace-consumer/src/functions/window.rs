//! The bytes around a site that a jump may overwrite.

use std::collections::BTreeSet;

use dtrace_abi::function::Window;
use dtrace_abi::function::x86_64::{self, Decoded, movable};

use super::instruction::{Flow, Instruction};

/// The length of a jump.
const JUMP: usize = 5;
/// A breakpoint, with which linkers fill the space between functions.
const BREAKPOINT: u8 = 0xcc;

/// A function on x86_64, for whose sites windows are searched.
pub(super) struct Searched<'f> {
    pub(super) address: u64,
    /// Its bytes, and those behind it, up to the next function.
    pub(super) text: &'f [u8],
    pub(super) instructions: &'f [Instruction],
    sites: BTreeSet<u64>,
    /// The addresses to which the function jumps.
    targets: BTreeSet<u64>,
}

impl<'f> Searched<'f> {
    /// Prepares a search. Returns `None` if targets of jumps are not known.
    pub(super) fn new(
        address: u64,
        text: &'f [u8],
        instructions: &'f [Instruction],
        sites: impl Iterator<Item = u64>,
    ) -> Option<Self> {
        let mut targets = BTreeSet::new();
        let is_inside = |target: u64| {
            let is_start = instructions.binary_search_by_key(&target, |at| at.address).is_ok();
            let range = instructions.first().zip(instructions.last());
            !is_start
                && range.is_some_and(|(first, last)| {
                    (first.address..last.address + last.length as u64).contains(&target)
                })
        };
        for at in instructions {
            match at.flow {
                Flow::Table | Flow::Indirect => return None,
                // Code that jumps into an instruction executes these bytes in two ways.
                Flow::Jump(target) | Flow::Branch(target) | Flow::Call(Some(target))
                    if is_inside(target) =>
                {
                    return None;
                }
                Flow::Jump(target) | Flow::Branch(target) => _ = targets.insert(target),
                _ => {}
            }
        }
        Some(Self { address, text, instructions, sites: sites.collect(), targets })
    }

    /// Returns whether a window must end before this address, unless it begins there.
    fn is_barrier(&self, address: u64) -> bool {
        self.sites.contains(&address) || self.targets.contains(&address)
    }

    /// Returns the bytes that follow an address.
    fn bytes(&self, address: u64) -> &'f [u8] {
        let offset = address.checked_sub(self.address).and_then(|of| usize::try_from(of).ok());
        offset.and_then(|offset| self.text.get(offset..)).unwrap_or_default()
    }

    /// Returns the window of the site at an address, if there is one.
    pub(super) fn window(&self, address: u64) -> Option<Window> {
        let index = self.instructions.binary_search_by_key(&address, |at| at.address).ok()?;
        let site = self.instructions.get(index)?;
        let after = match site.flow {
            Flow::Next => self.following(index),
            Flow::Call(_) => 0,
            _ => self.padding(site.address + site.length as u64, JUMP.saturating_sub(site.length)),
        };
        let before = match site.flow {
            Flow::Next | Flow::Call(_) => 0,
            _ => self.preceding(index, JUMP.saturating_sub(site.length + after)),
        };
        let (before, after) = (u8::try_from(before).ok()?, u8::try_from(after).ok()?);
        let length = usize::from(before) + site.length + usize::from(after);
        (length >= JUMP).then_some(Window { before, after })
    }

    /// Returns the length of the instructions after a site that a jump overwrites.
    fn following(&self, site: usize) -> usize {
        let mut length = 0;
        for (index, at) in self.instructions.iter().enumerate().skip(site) {
            if index != site {
                if length >= JUMP || self.is_barrier(at.address) {
                    break;
                }
                let is_last_call =
                    matches!(at.flow, Flow::Call(Some(_))) && length + at.length >= JUMP;
                if !is_last_call && !is_movable(self.bytes(at.address), at) {
                    break;
                }
            }
            length += at.length;
        }
        length - self.instructions.get(site).map_or(0, |site| site.length)
    }

    /// Returns the length of the padding at an address, at least `needed` bytes of it if there is so much.
    fn padding(&self, address: u64, needed: usize) -> usize {
        let mut length = 0;
        while length < needed && !self.is_barrier(address + length as u64) {
            let bytes = self.bytes(address + length as u64);
            let nop = match x86_64::decode(bytes) {
                Some(Decoded { instruction: x86_64::Instruction::Nop, length }) => length.into(),
                _ if bytes.first() == Some(&BREAKPOINT) => 1,
                _ => break,
            };
            let start = address + length as u64;
            if self.targets.range(start + 1..start + nop as u64).next().is_some() {
                // The function jumps into this nop.
                break;
            }
            length += nop;
        }
        length
    }

    /// Returns the length of the instructions before a site that a jump overwrites, at least `needed` bytes if these can be moved. Nothing
    /// jumps to those behind the first one.
    fn preceding(&self, site: usize, needed: usize) -> usize {
        let mut length = 0;
        for pair in self.instructions.get(..=site).unwrap_or_default().windows(2).rev() {
            let [at, next] = pair else { break };
            if length >= needed
                || self.targets.contains(&next.address)
                || self.sites.contains(&at.address)
                || at.flow != Flow::Next
                || !is_movable(self.bytes(at.address), at)
            {
                break;
            }
            length += at.length;
        }
        length
    }
}

/// Returns whether an instruction has the same effect at another address.
fn is_movable(bytes: &[u8], at: &Instruction) -> bool {
    movable(bytes).is_some_and(|of| usize::from(of.length) == at.length)
}

#[cfg(test)]
mod tests {
    use super::super::exits::find;
    use super::super::function::Architecture;
    use super::*;

    /// Returns the windows of the entry and of the first return of a function, and of the nops behind it.
    fn windows(text: &[u8], behind: &[u8]) -> [Option<Window>; 2] {
        let found = find(Architecture::X86_64, 0x1000, text, behind);
        [found.entry.unwrap().window, found.returns.unwrap()[0].window]
    }

    /// Code that jumps into an instruction executes its bytes in two ways, so no site of the function has a window, also if its own
    /// instruction is as long as a jump.
    #[test]
    fn functions_that_jump_into_an_instruction_have_no_window() {
        // mov $1, %eax; test %edi, %edi; jz to the next instruction, or into it; mov $0xc3, %ecx; jmp far away
        let text = |distance: u8| {
            let start = [0xb8, 1, 0, 0, 0, 0x85, 0xff, 0x74, distance];
            [&start[..], &[0xb9, 0xc3, 0, 0, 0, 0xe9, 0, 0, 1, 0]].concat()
        };
        let whole = Some(Window { before: 0, after: 0 });
        assert_eq!(windows(&text(0), &[]), [whole, whole]);
        assert_eq!(windows(&text(1), &[]), [None, None]);
    }

    /// The targets of a jump by a table are unknown.
    #[test]
    fn functions_with_tables_have_no_window() {
        // mov $1, %eax; jmp *0(,%rax,8), or a nop; jmp far away
        let text = |jump: &[u8]| [&[0xb8, 1, 0, 0, 0], jump, &[0xe9, 0, 0, 1, 0]].concat();
        let whole = Some(Window { before: 0, after: 0 });
        assert_eq!(windows(&text(&[0x90]), &[]), [whole, whole]);
        assert_eq!(windows(&text(&[0xff, 0x24, 0xc5, 0, 0, 0, 0]), &[]), [None, None]);
    }

    /// A function may jump into the padding behind it.
    #[test]
    fn nops_into_which_the_function_jumps_are_in_no_window() {
        // jmp to this distance; ret; nopl 0(%rax)
        let window = |distance: u8| {
            let text = [0xeb, distance, 0xc3];
            let found = find(Architecture::X86_64, 0x1000, &text, &[0x0f, 0x1f, 0x40, 0, 0x90]);
            found.returns.unwrap()[1].window
        };
        assert_eq!(window(5), Some(Window { before: 0, after: 4 }), "behind the nop");
        for inside in 1..5 {
            assert_eq!(window(inside), None, "{inside}");
        }
    }
}
