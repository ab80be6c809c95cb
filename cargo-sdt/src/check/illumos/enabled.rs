//! Is-enabled sites: the places by which sites tell whether their probe is enabled, in a set that `_init` goes through
//! (`sdt_core::illumos::native`).

use object::elf;

use super::Problem;
use super::file::{File, Relocation, Symbol};
use super::probes::is_probe;
use super::relocations::ENABLED;
use crate::check::finding::{Findings, Place};

const START: &str = "__start_sdt_is_enabled";
const STOP: &str = "__stop_sdt_is_enabled";

pub(super) fn check(file: &File<'_>, findings: &mut Findings) {
    let mut any = false;
    let sections = file.sections.iter().enumerate();
    for (index, sites) in sections.filter(|(_, of)| of.name == ENABLED && of.is_loaded()) {
        if !sites.size.is_multiple_of(8) || sites.align < 8 {
            let place = Place::Section(sites.name.clone());
            findings.illumos(place, Problem::NotAnEnabledSite);
        }
        let words: Vec<_> = of(file, index).collect();
        for at in (0..sites.data.len() as u64).step_by(8) {
            let mut word = words.iter().filter(|of| of.offset == at);
            let is_one = match (word.next(), word.next()) {
                (Some(word), None) => is_enabled_site(file, word),
                _ => false,
            };
            if !is_one {
                findings.illumos(Place::Offset(sites.name.clone(), at), Problem::NotAnEnabledSite);
            }
        }
        any |= sites.size != 0;
    }
    // A module without sites has them, too: both are 0.
    let (pairs, stray) = bounds(file);
    if stray || pairs > 1 || any && pairs != 1 {
        findings.illumos(Place::Section(ENABLED.into()), Problem::EnabledBounds(pairs));
    }
}

/// The relocations of a section.
fn of(file: &File<'_>, index: usize) -> impl Iterator<Item = Relocation> {
    let tables = file.relocated().filter(move |(table, _)| table.info == index);
    tables.flat_map(|(table, _)| table.relocations())
}

/// Whether a word is the address of a call of a probe, whose relocation is behind its first byte.
fn is_enabled_site(file: &File<'_>, word: &Relocation) -> bool {
    let Some((section, offset)) = file.target(word) else { return false };
    let is_probe = |of: &Relocation| file.symbols.get(of.symbol).is_some_and(is_probe);
    of(file, section).any(|of| of.offset == offset + 1 && is_probe(&of))
}

/// How many pairs of words there are with the bounds of the set, and whether any word has one of them otherwise.
fn bounds(file: &File<'_>) -> (usize, bool) {
    let (mut pairs, mut stray) = (0, false);
    for index in (0..file.sections.len()).filter(|&index| !file.sections[index].is_code()) {
        let words: Vec<_> = of(file, index).collect();
        let is = |word: &Relocation, name| {
            file.symbols.get(word.symbol).is_some_and(|symbol| symbol.name == name)
        };
        let whole = |word: &Relocation| {
            word.kind == elf::R_X86_64_64 && word.addend == 0 && word.offset.is_multiple_of(8)
        };
        let partner = |word: &Relocation, offset: Option<u64>, name| {
            whole(word)
                && words.iter().any(|of| Some(of.offset) == offset && is(of, name) && whole(of))
        };
        for word in &words {
            let paired = if is(word, START) {
                partner(word, word.offset.checked_add(8), STOP)
            } else if is(word, STOP) {
                partner(word, word.offset.checked_sub(8), START)
            } else {
                continue;
            };
            pairs += usize::from(paired && is(word, START));
            stray |= !paired;
        }
    }
    let bound = |name: &str| name == START || name == STOP;
    let absolute = |of: &Symbol| of.section == elf::SHN_ABS && of.value != 0 && bound(&of.name);
    (pairs, stray || file.symbols.iter().any(absolute))
}
