//! Where functions are: by their symbols, as fbt finds them.

use std::collections::BTreeMap;

use object::elf;

use super::flow;
use crate::arch::Arch;

/// A place in a section, by the section's number.
pub(super) type Place = (usize, u64);

/// A symbol that is defined in a section.
#[derive(Clone, Copy, Debug)]
pub(super) struct Defined<'a> {
    pub(super) name: &'a str,
    pub(super) kind: elf::SymbolType,
    pub(super) section: usize,
    pub(super) value: u64,
    pub(super) size: u64,
}

/// Whether a symbol's binding and type are among those that compilers and linkers give.
pub(super) fn is_known_kind(binding: elf::SymbolBind, kind: elf::SymbolType) -> bool {
    let bindings = [elf::STB_LOCAL, elf::STB_GLOBAL, elf::STB_WEAK, elf::STB_GNU_UNIQUE];
    bindings.contains(&binding) && (kind.0 <= elf::STT_TLS.0 || kind == elf::STT_GNU_IFUNC)
}

/// The functions of a module, by their places.
#[derive(Debug, Default)]
pub(super) struct Functions<'a> {
    functions: BTreeMap<Place, (&'a str, u64)>,
    /// Names that assembly gives to places without saying what they are of.
    labels: BTreeMap<Place, &'a str>,
}

impl<'a> Functions<'a> {
    /// Those among a module's symbols.
    pub(super) fn new(symbols: impl Iterator<Item = Defined<'a>>) -> Self {
        let mut all = Self::default();
        for symbol in symbols {
            let place = (symbol.section, symbol.value);
            match symbol.kind {
                elf::STT_FUNC | elf::STT_GNU_IFUNC => {
                    let (_, size) = all.functions.entry(place).or_insert((symbol.name, 0));
                    *size = symbol.size.max(*size);
                }
                // `$x` and the like say where code is and where data.
                elf::STT_NOTYPE if !symbol.name.is_empty() && !symbol.name.starts_with('$') => {
                    all.labels.insert(place, symbol.name);
                }
                _ => {}
            }
        }
        all
    }

    /// Whether the functions of a section are known: files can be stripped of them, or of most of them. With all of
    /// them, what is between them is padding.
    pub(super) fn are_known_in(&self, section: usize) -> bool {
        let all = self.in_section(section);
        let (covered, end) = all.fold((0_u64, 0), |(covered, end), (start, size)| {
            (covered.saturating_add(size), start.saturating_add(size).max(end))
        });
        end != 0 && covered >= end / 4 * 3
    }

    /// The offsets and sizes of the functions of a section.
    pub(super) fn in_section(&self, section: usize) -> impl Iterator<Item = (u64, u64)> {
        let all = self.functions.range((section, 0)..=(section, u64::MAX));
        all.map(|(&(_, start), &(_, size))| (start, size))
    }

    /// Finds functions that begin inside another one. Returns the other one, the function, and whether it also ends there.
    pub(super) fn overlaps(&self) -> impl Iterator<Item = (&'a str, &'a str, bool)> {
        let next = self.functions.iter().skip(1);
        self.functions.iter().zip(next).filter_map(|((first, (name, size)), (second, other))| {
            let end = first.1.saturating_add(*size);
            let inside = first.0 == second.0 && second.1 < end && other.1 > 0;
            inside.then(|| (*name, other.0, second.1.saturating_add(other.1) <= end))
        })
    }

    /// Whether a function starts there.
    pub(super) fn starts_at(&self, place: Place) -> bool {
        self.functions.contains_key(&place) || self.labels.contains_key(&place)
    }

    /// The function around a place, with where it starts.
    fn around(&self, (section, offset): Place) -> Option<(&'a str, u64)> {
        let ((_, start), (name, size)) =
            self.functions.range((section, 0)..=(section, offset)).next_back()?;
        (offset - start < *size).then_some((*name, *start))
    }

    /// Whether two places are in one function.
    pub(super) fn are_in_one(&self, first: Place, second: Place) -> bool {
        let start = |place: Place| self.around(place).map(|(_, start)| (place.0, start));
        start(first).is_some() && start(first) == start(second)
    }

    /// Whether a place is inside an instruction of its function; `false` if the function cannot be decoded.
    pub(super) fn is_inside_instruction(&self, arch: Arch, code: &[u8], place: Place) -> bool {
        let Some((_, mut at)) = self.around(place) else { return false };
        while at < place.1 {
            let rest = code.get(at as usize..).unwrap_or_default();
            let Some(instruction) = flow::decode(arch, rest) else { return false };
            at += instruction.len;
        }
        at > place.1
    }

    /// The function around a place, and how far in it that is, for messages.
    pub(super) fn describe(&self, place: Place) -> (String, u64) {
        match self.around(place) {
            Some((name, start)) => (name.to_owned(), place.1 - start),
            None => ("the code".to_owned(), place.1),
        }
    }

    /// Of the pointers of a section, by where they are, those that point into the middle of a function, as no pointer
    /// does that is to be called. Tables of labels, which compilers make for `match` and `switch`, have several
    /// beside each other that point into one function.
    pub(super) fn astray(&self, pointers: &BTreeMap<u64, Place>) -> Vec<(u64, Place)> {
        let label = |at: Option<u64>| {
            let place = *pointers.get(&at?)?;
            let inside = self.around(place).filter(|_| !self.starts_at(place))?;
            Some((place.0, inside.1))
        };
        let astray = pointers.iter().filter(|&(&at, &place)| {
            if !self.are_known_in(place.0) || self.starts_at(place) {
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

    fn functions() -> Functions<'static> {
        let symbol = |name, kind, value, size| Defined { name, kind, section: 1, value, size };
        Functions::new(
            [
                symbol("first", elf::STT_FUNC, 0, 16),
                symbol("second", elf::STT_FUNC, 16, 32),
                symbol("label", elf::STT_NOTYPE, 64, 0),
                symbol("$x", elf::STT_NOTYPE, 24, 0),
                symbol("data", elf::STT_OBJECT, 20, 4),
            ]
            .into_iter(),
        )
    }

    fn astray(pointers: &[(u64, u64)]) -> Vec<u64> {
        let pointers = pointers.iter().map(|&(at, to)| (at, (1, to))).collect();
        functions().astray(&pointers).into_iter().map(|(at, _)| at).collect()
    }

    #[test]
    fn pointers_to_functions_and_labels() {
        assert!(astray(&[(0, 0), (8, 16), (16, 64)]).is_empty());
        assert_eq!(astray(&[(0, 8)]), [0], "a slot of a vtable");
        assert_eq!(astray(&[(0, 0), (8, 24), (16, 16)]), [8]);
        assert!(astray(&[(0, 20), (8, 24), (16, 40)]).is_empty(), "a table of labels");
        assert_eq!(astray(&[(0, 20), (8, 4)]), [0, 8], "of two functions");
        assert_eq!(astray(&[(0, 50), (8, 52)]), [0, 8], "between functions");
        assert_eq!(functions().describe((1, 20)), ("second".to_owned(), 4));
    }

    #[test]
    fn nothing_is_said_of_what_has_been_stripped() {
        let pointers = [(0, (2, 3))].into_iter().collect();
        assert!(functions().astray(&pointers).is_empty());
    }
}
