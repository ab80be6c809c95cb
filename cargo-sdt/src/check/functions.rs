//! The places of functions, by their symbols, as fbt finds them.

use std::collections::{BTreeMap, BTreeSet};

use object::elf;

use super::elf::{Home, Symbol, Target};
use super::instruction::decode;
use crate::arch::Arch;

/// The functions of a module, by their places.
#[derive(Debug, Default)]
pub(super) struct Functions<'a> {
    functions: BTreeMap<Target, (&'a str, u64)>,
    /// The places of untyped symbols, with their names: labels of assembly code.
    labels: BTreeMap<Target, &'a str>,
    /// The places of symbols with a type other than function, such as variables.
    others: BTreeSet<Target>,
}

impl<'a> Functions<'a> {
    /// Finds the functions among a module's symbols.
    pub(super) fn new(symbols: impl Iterator<Item = &'a Symbol>) -> Self {
        let mut all = Self::default();
        for symbol in symbols {
            let Home::Section(section) = symbol.home else { continue };
            let place = Target { section, offset: symbol.value };
            // Symbols such as `$x` mark where code and data begin; they are not labels.
            let is_label = !symbol.name.is_empty() && !symbol.name.starts_with('$');
            if symbol.is_function() {
                let (_, size) = all.functions.entry(place).or_insert((&symbol.name, 0));
                *size = symbol.size.max(*size);
            } else if symbol.kind == elf::STT_NOTYPE && is_label {
                all.labels.insert(place, &symbol.name);
            } else if symbol.kind != elf::STT_NOTYPE && !symbol.name.is_empty() {
                all.others.insert(place);
            }
        }
        all
    }

    fn in_section(&self, section: usize) -> impl DoubleEndedIterator<Item = (u64, &'a str, u64)> {
        let [first, last] = [0, u64::MAX].map(|offset| Target { section, offset });
        self.functions.range(first..=last).map(|(at, &(name, size))| (at.offset, name, size))
    }

    /// Returns whether all functions of a section are known. A stripped file lacks some or all of them. If all are
    /// known, only padding is between them.
    pub(super) fn are_known_in(&self, section: usize) -> bool {
        let all = self.in_section(section);
        let (covered, end) = all.fold((0_u64, 0), |(covered, end), (start, _, size)| {
            (covered.saturating_add(size), start.saturating_add(size).max(end))
        });
        end != 0 && covered >= end / 4 * 3
    }

    /// Returns whether a function starts there.
    pub(super) fn starts_at(&self, place: Target) -> bool {
        self.functions.contains_key(&place) || self.labels.contains_key(&place)
    }

    /// Returns whether a symbol at a place has a type other than function.
    pub(super) fn is_other(&self, place: Target) -> bool {
        self.others.contains(&place) && !self.starts_at(place)
    }

    /// Returns the function around a place, and where it starts.
    fn around(&self, place: Target) -> Option<(&'a str, u64)> {
        let first = Target { offset: 0, ..place };
        let (start, (name, size)) = self.functions.range(first..=place).next_back()?;
        (place.offset - start.offset < *size).then_some((*name, start.offset))
    }

    /// Returns whether two places are in one function.
    pub(super) fn are_in_one(&self, first: Target, second: Target) -> bool {
        let start = |place: Target| self.around(place).map(|(_, start)| (place.section, start));
        start(first).is_some() && start(first) == start(second)
    }

    /// Returns whether a place is inside an instruction of its function; `false` if the function cannot be decoded.
    pub(super) fn is_inside_instruction(&self, arch: Arch, code: &[u8], place: Target) -> bool {
        let Some((_, mut at)) = self.around(place) else { return false };
        while at < place.offset {
            let rest = code.get(at as usize..).unwrap_or_default();
            let Some(instruction) = decode(arch, rest) else { return false };
            at += instruction.len;
        }
        at > place.offset
    }

    /// Returns the function around a place, and the distance from its start, for messages.
    pub(super) fn describe(&self, place: Target) -> (String, u64) {
        match self.around(place) {
            Some((name, start)) => (name.to_owned(), place.offset - start),
            None => ("the code".to_owned(), place.offset),
        }
    }

    /// Returns the pointers of a section that point into the middle of a function, where no call may go. Leaves out
    /// tables of labels, which compilers emit for `match` and `switch`: there, adjacent pointers point into the same
    /// function.
    pub(super) fn astray(&self, pointers: &BTreeMap<u64, Target>) -> Vec<(u64, Target)> {
        let label = |at: Option<u64>| {
            let place = *pointers.get(&at?)?;
            let inside = self.around(place).filter(|_| !self.starts_at(place))?;
            Some((place.section, inside.1))
        };
        let astray = pointers.iter().filter(|&(&at, &place)| {
            if !self.are_known_in(place.section) || self.starts_at(place) {
                return false;
            }
            let own = label(Some(at));
            let beside = [at.checked_sub(8), at.checked_add(8)];
            own.is_none() || !beside.into_iter().any(|beside| label(beside) == own)
        });
        astray.map(|(&at, &place)| (at, place)).collect()
    }
}

#[cfg(test)]
#[path = "../../tests/unit/check/functions.rs"]
mod tests;
