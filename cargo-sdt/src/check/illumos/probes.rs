//! Probes: calls of undefined functions with krtld's prefix. Each must be a call that krtld can replace by nops
//! (`sdt_reloc_resolve`), with a name that becomes the intended one (`sdt_provide_module` of
//! `usr/src/uts/intel/dtrace/sdt.c`).

use std::collections::BTreeSet;
use std::fmt::Display;

use object::elf;

use super::krtld::{OTHERS, PREFIX, PROVIDERS};
use crate::check::elf::{Elf, Relocation, Section, Symbol};
use crate::check::finding::hex;
use crate::check::names::{translated, unusable};
use crate::check::relocations::{kind_name, width};
use crate::check::rules::Rule;
use crate::platform::Os;

/// Most bytes of a probe's name, with the NUL (`DTRACE_NAMELEN`).
const NAME_LEN: usize = 64;

/// A section that is not loaded. It contains the names of the providers in which the module declares probes, each
/// followed by a NUL. If the section is missing, all providers are allowed.
const DECLARED: &str = ".sdt_providers";

/// Returns whether krtld treats a symbol as a probe.
pub(in crate::check) fn is_probe(symbol: &Symbol) -> bool {
    symbol.is_undefined() && symbol.name.starts_with(PREFIX)
}

/// Checks the probes and returns their names, and how many sites they have.
pub(super) fn check(elf: &Elf<'_>) -> (BTreeSet<String>, usize) {
    let mut names = BTreeSet::new();
    let declared = declared(elf);
    let mut hijacked = false;
    for symbol in elf.all_symbols() {
        let Some(name) = symbol.name.strip_prefix(PREFIX) else { continue };
        let wrong = |rule, details: &[&dyn Display]| {
            elf.findings.symbol(&symbol.name, rule, details);
        };
        if !symbol.is_undefined() {
            wrong(Rule::ProbeDefined, &[]);
            continue;
        }
        if symbol.binding == elf::STB_LOCAL {
            wrong(Rule::ProbeLocal, &[]);
        }
        let (provider, name) = split(name);
        let listed = translated(name);
        if let Some(reason) = unusable(Os::Illumos, &listed, NAME_LEN) {
            wrong(Rule::Name, &[&"probe", &listed, &reason]);
        }
        if let Some(declared) = declared.as_ref().filter(|of| !of.iter().any(|of| of == provider)) {
            wrong(Rule::Hijacked, &[&provider, &declared.join(", ")]);
            hijacked = true;
        }
        names.insert(format!("{provider}:::{listed}"));
    }
    // If a probe belongs to another provider than intended, that finding is enough.
    for provider in declared.iter().flatten().filter(|_| !hijacked) {
        let prefix = format!("{provider}:::");
        if !names.iter().any(|name: &String| name.starts_with(&prefix)) {
            elf.findings.file(Rule::NoSite, &[provider]);
        }
    }
    let mut sites = 0;
    for section in elf.loaded() {
        for relocation in &section.relocations {
            let symbol = elf.symbols.get(relocation.symbol).filter(|of| is_probe(of));
            if let Some(symbol) = symbol {
                sites += 1;
                site(elf, section, relocation, &symbol.name);
            }
        }
    }
    (names, sites)
}

/// Splits a symbol's name after the prefix into the provider, and the name of the probe.
fn split(name: &str) -> (&'static str, &str) {
    let reserved = PROVIDERS
        .iter()
        .find_map(|&(provider, prefix)| Some((provider, name.strip_prefix(prefix)?)));
    reserved.unwrap_or((OTHERS, name))
}

/// Returns the providers that the module declares.
fn declared(elf: &Elf<'_>) -> Option<Vec<String>> {
    let section = elf.sections.iter().find(|section| section.name == DECLARED)?;
    let names = section.data.split(|&byte| byte == 0).filter(|name| !name.is_empty());
    Some(names.map(|name| String::from_utf8_lossy(name).into_owned()).collect())
}

fn site(elf: &Elf<'_>, section: &Section<'_>, relocation: &Relocation, probe: &str) {
    let Relocation { offset, kind, addend, .. } = *relocation;
    let wrong = |rule, details: &[&dyn Display]| {
        elf.findings.offset(&section.name, offset, rule, details);
    };
    if !section.is_code() {
        return wrong(Rule::ProbeOutsideCode, &[&probe, &section.name]);
    }
    let kind_name = kind_name(elf.arch, kind);
    if !matches!(kind, elf::R_X86_64_PLT32 | elf::R_X86_64_PC32) || addend != -4 {
        let addend = format!("{addend:+}");
        return wrong(Rule::ProbeRelocation, &[&probe, &kind_name, &addend]);
    }
    let Some(bytes) = offset.checked_sub(1).and_then(|start| section.bytes(start, 5)) else {
        return wrong(Rule::RelocationOutside, &[&kind_name, &probe]);
    };
    if bytes[0] != 0xe8 {
        let before = offset.checked_sub(2).and_then(|at| section.bytes(at, 2));
        let (found, what) = match (before.unwrap_or(&bytes[..1]), bytes[0]) {
            (_, 0xe9) => (
                "e9".into(),
                "krtld writes nops, and execution falls through to the \
                 following code",
            ),
            (&[0x0f, second], _) if second & 0xf0 == 0x80 => (
                hex(&[0x0f, second]),
                "krtld's nops complete an instruction that writes to an \
                 arbitrary address",
            ),
            (before, _) => (hex(before), "krtld overwrites bytes of another instruction"),
        };
        return wrong(Rule::NotACall, &[&probe, &found, &what]);
    }
    if bytes[1..] != [0; 4] {
        return wrong(Rule::FieldNotZero, &[&probe, &hex(&bytes[1..])]);
    }
    // No other relocation may change one of the five bytes of a site. The field of the probe's relocation begins at the
    // second byte. No field is wider than eight bytes; types of unknown width count as eight.
    let overlaps = |other: &&Relocation| {
        let end = other.offset.saturating_add(width(elf, other.kind).unwrap_or(8));
        other.offset < offset.saturating_add(4) && end > offset.saturating_sub(1)
    };
    if section.relocations.iter().filter(overlaps).count() > 1 {
        wrong(Rule::SharedSite, &[&probe]);
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/check/illumos/probes.rs"]
mod tests;
