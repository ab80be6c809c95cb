//! Probes: calls of undefined functions whose names start as krtld wants, each a call that krtld can make
//! nops of (`sdt_reloc_resolve`), with a name that comes out as it is meant (`sdt_provide_module` of
//! `usr/src/uts/intel/dtrace/sdt.c`).

use std::collections::BTreeSet;

use object::elf;

use super::Problem;
use super::file::{File, Relocation, Section, Symbol};
use super::relocations::{self, hex, kind_name};
use crate::check::finding::{self, Findings, Place};

use super::krtld::{OTHERS, PREFIX, PROVIDERS};

/// Most bytes of a probe's name, without the NUL (`DTRACE_NAMELEN`).
const NAME_LEN: usize = 63;

/// Section, not loaded, with the names of the providers that a module means to have probes in, each with a
/// NUL behind it. A module without it may have probes in any.
const DECLARED: &str = ".sdt_providers";

/// Whether krtld would take a symbol for a probe's.
pub(super) fn is_probe(symbol: &Symbol) -> bool {
    symbol.is_undefined() && symbol.name.starts_with(PREFIX)
}

/// Checks the probes and returns their names, and how many sites they have.
pub(super) fn check(file: &File<'_>, findings: &mut Findings) -> (BTreeSet<String>, usize) {
    let mut names = BTreeSet::new();
    let declared = declared(file);
    let mut hijacked = false;
    for symbol in &file.symbols {
        let Some(name) = symbol.name.strip_prefix(PREFIX) else { continue };
        let mut wrong = |problem| findings.illumos(Place::Symbol(symbol.name.clone()), problem);
        if !symbol.is_undefined() {
            wrong(Problem::ProbeDefined);
            continue;
        }
        if symbol.is_local() {
            wrong(Problem::ProbeLocal);
        }
        let (provider, name) = split(name);
        let listed = name.replace("__", "-");
        if let Some(reason) = unusable(&listed) {
            wrong(Problem::ProbeName { name: listed.clone(), reason });
        }
        if let Some(declared) = declared.as_ref().filter(|of| !of.iter().any(|of| of == provider)) {
            wrong(Problem::Hijacked { provider, declared: declared.join(", ") });
            hijacked = true;
        }
        names.insert(format!("{provider}:::{listed}"));
    }
    // One whose probes have gone to another provider is told so.
    if !hijacked {
        for provider in declared.iter().flatten() {
            let prefix = format!("{provider}:::");
            if !names.iter().any(|name: &String| name.starts_with(&prefix)) {
                findings.file(finding::Problem::NoSite(provider.clone()));
            }
        }
    }
    let mut sites = 0;
    for (table, target) in file.relocated() {
        for relocation in table.relocations() {
            let Some(symbol) = file.symbols.get(relocation.symbol).filter(|of| is_probe(of)) else {
                continue;
            };
            sites += 1;
            let shared =
                || table.relocations().filter(|other| overlaps(other, &relocation)).count();
            let problem = site(target, &relocation, &symbol.name)
                .or_else(|| (shared() > 1).then(|| Problem::SharedSite(symbol.name.clone())));
            if let Some(problem) = problem {
                let place = Place::Offset(target.name.clone(), relocation.offset);
                findings.illumos(place, problem);
            }
        }
    }
    (names, sites)
}

/// The provider of a symbol's name behind the prefix, and the rest of it.
fn split(name: &str) -> (&'static str, &str) {
    let reserved = PROVIDERS
        .iter()
        .find_map(|&(provider, prefix)| Some((provider, name.strip_prefix(prefix)?)));
    reserved.unwrap_or((OTHERS, name))
}

/// The providers that the module says it has probes in.
fn declared(file: &File<'_>) -> Option<Vec<String>> {
    let section = file.sections.iter().find(|section| section.name == DECLARED)?;
    let names = section.data.split(|&byte| byte == 0).filter(|name| !name.is_empty());
    Some(names.map(|name| String::from_utf8_lossy(name).into_owned()).collect())
}

/// Whether a relocation changes one of the five bytes of a site, whose field is behind the first.
fn overlaps(other: &Relocation, site: &Relocation) -> bool {
    // No field is wider; what has no width here must not be there at all.
    let width = relocations::width(other.kind).unwrap_or(8);
    let (end, start) = (other.offset.saturating_add(width), site.offset.saturating_sub(1));
    other.offset < site.offset.saturating_add(4) && end > start
}

fn site(target: &Section<'_>, relocation: &Relocation, probe: &str) -> Option<Problem> {
    let probe = || probe.to_owned();
    if !target.is_code() {
        return Some(Problem::ProbeOutsideCode { probe: probe(), section: target.name.clone() });
    }
    let call = matches!(relocation.kind, elf::R_X86_64_PLT32 | elf::R_X86_64_PC32);
    if !call || relocation.addend != -4 {
        let (kind, addend) = (kind_name(relocation.kind), relocation.addend);
        return Some(Problem::ProbeRelocation { probe: probe(), kind, addend });
    }
    let start = relocation.offset.checked_sub(1);
    let Some(bytes) = start.and_then(|start| target.bytes(start, 5)) else {
        let kind = kind_name(relocation.kind);
        return Some(Problem::RelocationOutside { kind, symbol: probe() });
    };
    if bytes[0] != 0xe8 {
        let before = relocation.offset.checked_sub(2).and_then(|at| target.bytes(at, 2));
        let (found, what) = match (before.unwrap_or(&bytes[..1]), bytes[0]) {
            (_, 0xe9) => ("e9".into(), "krtld leaves nops that fall through to whatever follows"),
            (&[0x0f, second], _) if second & 0xf0 == 0x80 => {
                (hex(&[0x0f, second]), "krtld leaves an instruction that writes anywhere")
            }
            (before, _) => (hex(before), "krtld overwrites bytes that mean something else"),
        };
        return Some(Problem::NotACall { probe: probe(), found, what });
    }
    if bytes[1..] != [0; 4] {
        return Some(Problem::FieldNotZero { symbol: probe(), found: hex(&bytes[1..]) });
    }
    None
}

/// Why DTrace would not take a name as it is.
fn unusable(name: &str) -> Option<String> {
    if name.is_empty() {
        return Some("is empty".into());
    }
    if name.len() > NAME_LEN {
        return Some(format!("is longer than {NAME_LEN} bytes"));
    }
    if name.starts_with(|first: char| first.is_ascii_digit()) {
        return Some("starts with a digit".into());
    }
    let bad = name.chars().find(|&c| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_'))?;
    Some(format!("has {bad:?} in it, which no probe description can say"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn providers_are_told_by_their_prefixes() {
        for (name, provider, rest) in [
            ("__proc_exec__success", "proc", "exec__success"),
            ("__cpu_sysinfo_pswitch", "sysinfo", "pswitch"),
            ("__smb2_op", "smb2", "op"),
            ("tcp__err", "sdt", "tcp__err"),
            ("_proc_x", "sdt", "_proc_x"),
            ("__procx", "sdt", "__procx"),
            ("__io_", "io", ""),
        ] {
            assert_eq!(split(name), (provider, rest), "{name}");
        }
    }

    #[test]
    fn no_prefix_hides_another() {
        for (at, (_, prefix)) in PROVIDERS.iter().enumerate() {
            assert!(PROVIDERS[..at].iter().all(|(_, before)| !prefix.starts_with(before)));
        }
    }

    #[test]
    fn names_are_judged() {
        for name in ["exec-success", "a", "x_1", &"n".repeat(63)] {
            assert_eq!(unusable(name), None, "{name}");
        }
        for name in ["", "9x", "a b", "a.b", "ä", "a$b", &"n".repeat(64)] {
            assert!(unusable(name).is_some(), "{name}");
        }
    }
}
