//! Symbols: the entry points exist, and the kernel or a dependency exports every undefined symbol.

use object::elf;

use super::probes::is_probe;
use crate::check::elf::{Elf, Home, Symbol};
use crate::check::kernel::Kernel;
use crate::check::rules::Rule;
use crate::check::symbols::{Imports, Listed, Use, bound, not_looked_for};

/// The exports of illumos, as far as modules here may use them: `symbol module file` lines.
const LIST: &str = include_str!("illumos-symbols.txt");

/// The prefix of the name of the table that connects a module with its companion, if the module has a provider of its
/// own (`sdt_core::illumos::companion`); the module's name follows.
pub const DRIVER: &str = "sdt_driver_";

/// The functions that the kernel calls, and the consequence if one is missing.
const ENTRY_POINTS: [(&str, &str); 3] = [
    ("_init", "the kernel reports that it is not defined properly, and unloads the module"),
    ("_info", "the kernel finds no modlinkage"),
    ("_fini", ""),
];

/// Returns the module that exports a symbol: `unix`, `genunix`, or a module that must be declared as a dependency.
fn exporter(symbol: &str) -> Option<&'static str> {
    lines().find(|[name, ..]| *name == symbol).map(|[_, module, _]| module)
}

/// The lines of [`LIST`], by words.
fn lines() -> impl Iterator<Item = [&'static str; 3]> {
    let lines = LIST.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split(' ').collect::<Vec<_>>().try_into().ok())
}

/// Returns whether a module can use the exports of another one.
fn is_in_reach(module: &str, depends: &[String]) -> bool {
    matches!(module, "unix" | "genunix") || depends.iter().any(|of| of == module)
}

pub(super) fn check(elf: &Elf<'_>, depends: &[String], kernel: &Kernel) {
    entry_points(elf);
    // `symid_t` was an unsigned short.
    if elf.symbols.len() > usize::from(u16::MAX) {
        elf.findings.file(Rule::TooManySymbols, &[&elf.symbols.len()]);
    }
    let mut imports = Imports::new(elf, kernel, depends, false, String::new());
    imports.check_files();
    for symbol in elf.all_symbols().filter(|of| !is_probe(of) && of.kind != elf::STT_TLS) {
        let name = &*symbol.name;
        let exported = exporter(name).filter(|module| is_in_reach(module, depends));
        match (symbol.home, symbol.binding) {
            // krtld leaves a reference to an undefined weak symbol unresolved: its field keeps the value 0.
            (Home::Undefined, elf::STB_WEAK) | (Home::Common, _) => {}
            (Home::Undefined, elf::STB_LOCAL) => not_looked_for(elf, symbol, "local"),
            (Home::Undefined, _) => match bound(name) {
                Some(set) => elf.findings.symbol(name, Rule::NoSuchSet, &[&set]),
                None => {
                    let used = Use { called: false, weak: false };
                    imports.check(name, used, || listed(depends, name));
                }
            },
            (_, elf::STB_GLOBAL) if exported.is_some() => {
                elf.findings.symbol(name, Rule::MultiplyDefined, &[]);
            }
            _ => {}
        }
    }
    imports.done();
}

fn entry_points(elf: &Elf<'_>) {
    for (name, otherwise) in ENTRY_POINTS {
        let defined = |symbol: &&Symbol| symbol.name == name && !symbol.is_undefined();
        match elf.all_symbols().find(defined) {
            None if name == "_fini" => elf.findings.file(Rule::NoFini, &[]),
            None => elf.findings.file(Rule::NoEntryPoint, &[&name, &otherwise]),
            Some(symbol) => {
                let code = match symbol.home {
                    Home::Section(section) => {
                        let section = &elf.sections[section];
                        section.is_loaded() && section.is_code() && symbol.value < section.size
                    }
                    _ => false,
                };
                if symbol.binding == elf::STB_LOCAL || !code {
                    elf.findings.symbol(name, Rule::EntryPoint, &[]);
                }
            }
        }
    }
}

/// Looks up a symbol in the list.
fn listed(depends: &[String], name: &str) -> Listed {
    // A companion depends on its module, which has the table.
    let module = name.strip_prefix(DRIVER);
    let companion = |module| depends.iter().any(|of| of.rsplit('/').next() == Some(module));
    match exporter(name) {
        Some(module) if is_in_reach(module, depends) => Listed::Fine,
        Some(module) => Listed::NoDependency(module),
        None if module.is_some_and(companion) => Listed::Fine,
        None => Listed::Unknown,
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/check/illumos/exports.rs"]
mod tests;
