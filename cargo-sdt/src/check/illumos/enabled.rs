//! Is-enabled sites: the places where code tests whether a probe is enabled, in a set that `_init` processes
//! (`sdt_core::illumos::native`).

use object::elf;

use super::probes::is_probe;
use crate::check::elf::{Elf, Home, Relocation, Symbol, Target};
use crate::check::names::ENABLED;
use crate::check::rules::Rule;

/// The symbol by which `_init` finds the bounds of the set. It is at two words: the start and the end of the set.
const TABLE: &str = "__sdt_is_enabled";
const START: &str = "__start_sdt_is_enabled";
const STOP: &str = "__stop_sdt_is_enabled";

pub(super) fn check(elf: &Elf<'_>) {
    let mut any = false;
    for sites in elf.named(ENABLED) {
        if !sites.size.is_multiple_of(8) || sites.align < 8 {
            elf.findings.section(&sites.name, Rule::NotAnEnabledSite, &[]);
        }
        for at in sites.elements(8) {
            let one = match sites.relocations_in(at..at + 1) {
                [word] => is_enabled_site(elf, word),
                _ => false,
            };
            if !one {
                elf.findings.offset(&sites.name, at, Rule::NotAnEnabledSite, &[]);
            }
        }
        any |= sites.size != 0;
    }
    // A module without sites has them, too: both are 0.
    let (pairs, stray) = bounds(elf);
    if stray || pairs.len() > 1 || any && pairs.len() != 1 {
        elf.findings.section(ENABLED, Rule::EnabledBounds, &[&pairs.len()]);
    }
    for symbol in elf.all_symbols().filter(|of| of.name == TABLE && !of.is_undefined()) {
        let at_bounds = |&Target { section, offset }: &Target| {
            (symbol.home, symbol.value) == (Home::Section(section), offset)
        };
        if !pairs.iter().any(at_bounds) {
            elf.findings.symbol(TABLE, Rule::EnabledSymbol, &[]);
        }
    }
}

/// Returns whether a word is the address of a call of a probe. The relocation of such a call begins at its second byte.
fn is_enabled_site(elf: &Elf<'_>, word: &Relocation) -> bool {
    let Some(target) = elf.target(word) else { return false };
    let calls = elf.section_of(target).relocations_in(target.offset + 1..target.offset + 2);
    calls.iter().any(|of| elf.symbols.get(of.symbol).is_some_and(is_probe))
}

/// Returns the places of pairs of words with the bounds of the set, and whether a word outside of a pair has a bound.
fn bounds(elf: &Elf<'_>) -> (Vec<Target>, bool) {
    let (mut pairs, mut stray) = (Vec::new(), false);
    let sections = elf.sections.iter().enumerate();
    for (index, section) in sections.filter(|(_, of)| of.is_loaded() && !of.is_code()) {
        let is = |word: &Relocation, name| {
            elf.symbols.get(word.symbol).is_some_and(|symbol| symbol.name == name)
        };
        let whole = |word: &Relocation| {
            word.kind == elf::R_X86_64_64 && word.addend == 0 && word.offset.is_multiple_of(8)
        };
        let partner = |word: &Relocation, offset: Option<u64>, name| {
            let there = offset.and_then(|offset| section.relocation(offset));
            whole(word) && there.is_some_and(|of| is(of, name) && whole(of))
        };
        for word in &section.relocations {
            let paired = if is(word, START) {
                partner(word, word.offset.checked_add(8), STOP)
            } else if is(word, STOP) {
                partner(word, word.offset.checked_sub(8), START)
            } else {
                continue;
            };
            if paired && is(word, START) {
                pairs.push(Target { section: index, offset: word.offset });
            }
            stray |= !paired;
        }
    }
    let is_bound = |name: &str| name == START || name == STOP;
    let number = |of: &Symbol| of.home == Home::Absolute && of.value != 0 && is_bound(&of.name);
    (pairs, stray || elf.symbols.iter().any(number))
}
