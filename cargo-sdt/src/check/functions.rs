//! Where functions are: by their symbols, as fbt finds them.

use std::collections::BTreeMap;

use object::elf;

use super::elf::{Home, Symbol, Target};
use super::flow;
use crate::arch::Arch;

/// The functions of a module, by their places.
#[derive(Debug, Default)]
pub(super) struct Functions<'a> {
    functions: BTreeMap<Target, (&'a str, u64)>,
    /// Names that assembly gives to places without a type.
    labels: BTreeMap<Target, &'a str>,
}

impl<'a> Functions<'a> {
    /// Finds the functions among a module's symbols.
    pub(super) fn new(symbols: impl Iterator<Item = &'a Symbol>) -> Self {
        let mut all = Self::default();
        for symbol in symbols {
            let Home::Section(section) = symbol.home else { continue };
            let place = Target { section, offset: symbol.value };
            // `$x` and the like mark where code begins and where data.
            let is_label = !symbol.name.is_empty() && !symbol.name.starts_with('$');
            if symbol.is_function() {
                let (_, size) = all.functions.entry(place).or_insert((&symbol.name, 0));
                *size = symbol.size.max(*size);
            } else if symbol.kind == elf::STT_NOTYPE && is_label {
                all.labels.insert(place, &symbol.name);
            }
        }
        all
    }

    fn in_section(&self, section: usize) -> impl DoubleEndedIterator<Item = (u64, &'a str, u64)> {
        let [first, last] = [0, u64::MAX].map(|offset| Target { section, offset });
        self.functions.range(first..=last).map(|(at, &(name, size))| (at.offset, name, size))
    }

    /// Whether the functions of a section are known: files can be stripped of them, or of most of them. With all of
    /// them, what is between them is padding.
    pub(super) fn are_known_in(&self, section: usize) -> bool {
        let all = self.in_section(section);
        let (covered, end) = all.fold((0_u64, 0), |(covered, end), (start, _, size)| {
            (covered.saturating_add(size), start.saturating_add(size).max(end))
        });
        end != 0 && covered >= end / 4 * 3
    }

    /// Whether a function starts there.
    pub(super) fn starts_at(&self, place: Target) -> bool {
        self.functions.contains_key(&place) || self.labels.contains_key(&place)
    }

    /// Returns the function around a place, and where it starts.
    fn around(&self, place: Target) -> Option<(&'a str, u64)> {
        let first = Target { offset: 0, ..place };
        let (start, (name, size)) = self.functions.range(first..=place).next_back()?;
        (place.offset - start.offset < *size).then_some((*name, start.offset))
    }

    /// Whether two places are in one function.
    pub(super) fn are_in_one(&self, first: Target, second: Target) -> bool {
        let start = |place: Target| self.around(place).map(|(_, start)| (place.section, start));
        start(first).is_some() && start(first) == start(second)
    }

    /// Whether a place is inside an instruction of its function; `false` if the function cannot be decoded.
    pub(super) fn is_inside_instruction(&self, arch: Arch, code: &[u8], place: Target) -> bool {
        let Some((_, mut at)) = self.around(place) else { return false };
        while at < place.offset {
            let rest = code.get(at as usize..).unwrap_or_default();
            let Some(instruction) = flow::decode(arch, rest) else { return false };
            at += instruction.len;
        }
        at > place.offset
    }

    /// The function around a place, and how far in it that is, for messages.
    pub(super) fn describe(&self, place: Target) -> (String, u64) {
        match self.around(place) {
            Some((name, start)) => (name.to_owned(), place.offset - start),
            None => ("the code".to_owned(), place.offset),
        }
    }

    /// Of the pointers of a section, by where they are, those that point into the middle of a function, as no pointer
    /// does that is to be called. Tables of labels, which compilers make for `match` and `switch`, have several
    /// beside each other that point into one function.
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
mod tests {
    use super::*;

    fn symbols() -> [Symbol; 5] {
        let symbol = |name: &str, kind, value, size| {
            let (binding, home) = (elf::STB_LOCAL, Home::Section(1));
            Symbol { name: name.into(), binding, kind, home, value, size }
        };
        [
            symbol("first", elf::STT_FUNC, 0, 16),
            symbol("second", elf::STT_FUNC, 16, 32),
            symbol("label", elf::STT_NOTYPE, 64, 0),
            symbol("$x", elf::STT_NOTYPE, 24, 0),
            symbol("data", elf::STT_OBJECT, 20, 4),
        ]
    }

    fn astray(pointers: &[(u64, u64)]) -> Vec<u64> {
        let to = |offset| Target { section: 1, offset };
        let pointers = pointers.iter().map(|&(at, offset)| (at, to(offset))).collect();
        let symbols = symbols();
        let functions = Functions::new(symbols.iter());
        functions.astray(&pointers).into_iter().map(|(at, _)| at).collect()
    }

    #[test]
    fn pointers_to_functions_and_labels() {
        assert!(astray(&[(0, 0), (8, 16), (16, 64)]).is_empty());
        assert_eq!(astray(&[(0, 8)]), [0], "a slot of a vtable");
        assert_eq!(astray(&[(0, 0), (8, 24), (16, 16)]), [8]);
        assert!(astray(&[(0, 20), (8, 24), (16, 40)]).is_empty(), "a table of labels");
        assert_eq!(astray(&[(0, 20), (8, 4)]), [0, 8], "of two functions");
        assert_eq!(astray(&[(0, 50), (8, 52)]), [0, 8], "between functions");
        let symbols = symbols();
        let place = Target { section: 1, offset: 20 };
        assert_eq!(Functions::new(symbols.iter()).describe(place), ("second".to_owned(), 4));
    }

    #[test]
    fn nothing_is_said_of_what_has_been_stripped() {
        let pointers = [(0, Target { section: 2, offset: 3 })].into_iter().collect();
        let symbols = symbols();
        assert!(Functions::new(symbols.iter()).astray(&pointers).is_empty());
    }
}
