//! Symbols: the kernel's entry points are there, and everything that is undefined comes from somewhere.

use object::elf;

use super::Problem;
use super::file::{File, Symbol};
use super::probes::is_probe;
use crate::check::finding::{Findings, Place};

/// What illumos exports, as far as modules here may use it: `symbol module file` lines.
const LIST: &str = include_str!("illumos-symbols.txt");

/// The functions that the kernel calls, and what becomes of a module without.
const ENTRY_POINTS: [(&str, &str); 3] = [
    ("_init", "the kernel says that it is not defined properly, and unloads the module"),
    ("_info", "the kernel finds no modlinkage"),
    ("_fini", "the module can never be unloaded (EBUSY)"),
];

/// Lines of [`LIST`], taken apart.
fn lines() -> impl Iterator<Item = [&'static str; 3]> {
    let lines = LIST.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split(' ').collect::<Vec<_>>().try_into().ok())
}

/// The module that exports a symbol: `unix`, `genunix`, or one to depend on.
fn exporter(symbol: &str) -> Option<&'static str> {
    lines().find(|[name, ..]| *name == symbol).map(|[_, module, _]| module)
}

/// Whether everybody has a module among his dependencies.
fn is_primary(module: &str) -> bool {
    matches!(module, "unix" | "genunix")
}

pub(super) fn check(file: &File<'_>, depends: &[String], findings: &mut Findings) {
    for (name, otherwise) in ENTRY_POINTS {
        let defined = |symbol: &&Symbol| symbol.name == name && !symbol.is_undefined();
        match file.symbols.iter().find(defined) {
            None => findings.illumos(Place::File, Problem::NoEntryPoint(name, otherwise)),
            Some(symbol) => entry_point(file, symbol, findings),
        }
    }
    for symbol in file.symbols.iter().skip(1) {
        let mut wrong = |problem| findings.illumos(Place::Symbol(symbol.name.clone()), problem);
        if symbol.section == elf::SHN_COMMON {
            wrong(Problem::Common);
        } else if symbol.kind == elf::STT_TLS {
            findings.symbol(&symbol.name, crate::check::Problem::ThreadLocal);
        } else if is_probe(symbol) {
            // It stays undefined.
        } else if symbol.is_undefined() {
            if let Some(problem) = undefined(symbol, depends) {
                wrong(problem);
            }
        } else if symbol.binding == elf::STB_GLOBAL
            && exporter(&symbol.name)
                .is_some_and(|by| is_primary(by) || depends.iter().any(|d| d == by))
        {
            wrong(Problem::MultiplyDefined);
        }
    }
}

fn entry_point(file: &File<'_>, symbol: &Symbol, findings: &mut Findings) {
    let section = file.sections.get(usize::from(symbol.section.0));
    let code = section.is_some_and(|of| of.is_loaded() && of.is_code() && symbol.value < of.size);
    if symbol.is_local() || !code {
        findings.illumos(Place::Symbol(symbol.name.clone()), Problem::EntryPoint);
    }
}

/// krtld leaves weak symbols that nobody defines, and 0 is what the field holds.
fn undefined(symbol: &Symbol, depends: &[String]) -> Option<Problem> {
    if symbol.binding == elf::STB_WEAK {
        return None;
    }
    if symbol.is_local() {
        return Some(Problem::LocalUndefined);
    }
    let name = &symbol.name;
    if let Some(set) = name.strip_prefix("__start_").or_else(|| name.strip_prefix("__stop_")) {
        return Some(Problem::Bound(set.into()));
    }
    match exporter(name) {
        Some(module) if is_primary(module) || depends.iter().any(|of| of == module) => None,
        Some(module) => Some(Problem::NoDependency(module)),
        // Whether another module exports it is not known here.
        None if depends.iter().any(|of| !lines().any(|[_, module, _]| module == of)) => None,
        None => Some(Problem::Undefined),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted_and_names_modules_and_sources() {
        let text: Vec<_> = LIST.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(text.is_sorted(), "keep illumos-symbols.txt sorted");
        assert_eq!(lines().count(), text.len(), "`symbol module file`");
        for [symbol, module, source] in lines() {
            assert!(is_primary(module) || module.contains('/'), "{symbol} {module}");
            assert!(source.starts_with("usr/src/"), "{symbol} {source}");
        }
    }
}
