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

    /// Returns the window of the site at an address: empty if there is none.
    pub(super) fn window(&self, address: u64) -> Window {
        let found = self.instructions.binary_search_by_key(&address, |at| at.address);
        let Some((index, site)) = found.ok().and_then(|at| Some((at, self.instructions.get(at)?)))
        else {
            return Window::default();
        };
        let after = match site.flow {
            Flow::Next => self.following(index),
            Flow::Call(_) => 0,
            _ => self.padding(site.address + site.length as u64, JUMP.saturating_sub(site.length)),
        };
        let before = match site.flow {
            Flow::Next | Flow::Call(_) => 0,
            _ => self.preceding(index, JUMP.saturating_sub(site.length + after)),
        };
        match (u8::try_from(before), u8::try_from(after)) {
            (Ok(before), Ok(after)) if before + after + site.length as u8 >= JUMP as u8 => {
                Window { before, after }
            }
            _ => Window::default(),
        }
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
            length += match x86_64::decode(bytes) {
                Some(Decoded { instruction: x86_64::Instruction::Nop, length }) => length.into(),
                _ if bytes.first() == Some(&BREAKPOINT) => 1,
                _ => break,
            };
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
