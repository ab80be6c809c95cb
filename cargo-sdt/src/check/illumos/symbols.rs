//! Symbols: the kernel's entry points are there, and everything that is undefined comes from somewhere.

use object::elf;

use super::Problem;
use super::file::{File, Symbol};
use super::probes::is_probe;
use crate::arch::Arch;
use crate::check::finding::{self, Findings, Place};
use crate::check::functions::is_known_kind;
use crate::check::kernel::{Kernel, Known};
use crate::check::kin::DRIVER;

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

pub(super) fn check(file: &File<'_>, depends: &[String], kernel: &Kernel, findings: &mut Findings) {
    for other in kernel.files() {
        if let Some(arch) = other.arch.filter(|&arch| arch != Arch::X86_64) {
            let (found, wanted) = (arch.name().into(), Arch::X86_64.name().into());
            let file = other.name.clone();
            findings.file(finding::Problem::OtherKernel { file, found, wanted });
        }
    }
    for (name, otherwise) in ENTRY_POINTS {
        let defined = |symbol: &&Symbol| symbol.name == name && !symbol.is_undefined();
        match file.symbols.iter().find(defined) {
            None => findings.illumos(Place::File, Problem::NoEntryPoint(name, otherwise)),
            Some(symbol) => entry_point(file, symbol, findings),
        }
    }
    let mut unasked = Vec::new();
    for symbol in file.symbols.iter().skip(1) {
        let mut wrong = |problem| findings.illumos(Place::Symbol(symbol.name.clone()), problem);
        if symbol.section == elf::SHN_COMMON {
            wrong(Problem::Common);
        } else if symbol.kind == elf::STT_TLS {
            findings.symbol(&symbol.name, crate::check::Problem::ThreadLocal);
        } else if is_probe(symbol) {
            // It stays undefined.
        } else if symbol.is_undefined() {
            match undefined(symbol) {
                Some(problem) => wrong(problem),
                None if symbol.binding == elf::STB_WEAK => {}
                None => {
                    let problem = if kernel.is_known() {
                        by_the_kernel(kernel, depends, &symbol.name)
                    } else {
                        by_the_list(depends, &symbol.name)
                    };
                    match problem {
                        Some(finding::Problem::Unasked(names)) => unasked.extend(names),
                        Some(problem) => findings.symbol(&symbol.name, problem),
                        None => {}
                    }
                }
            }
        } else if let Some(problem) = stray(file, symbol) {
            findings.symbol(&symbol.name, problem);
        } else if symbol.binding == elf::STB_GLOBAL
            && exporter(&symbol.name)
                .is_some_and(|by| is_primary(by) || depends.iter().any(|d| d == by))
        {
            wrong(Problem::MultiplyDefined);
        }
    }
    if !unasked.is_empty() {
        findings.file(finding::Problem::Unasked(unasked));
    }
}

/// A symbol that is not all in its section: fbt reads functions by theirs (`fbt_provide_module` of
/// `usr/src/uts/intel/dtrace/fbt.c`).
fn stray(file: &File<'_>, symbol: &Symbol) -> Option<finding::Problem> {
    if !is_known_kind(symbol.binding, symbol.kind) {
        let (binding, kind) = (symbol.binding.0, symbol.kind.0);
        return Some(finding::Problem::SymbolKind { binding, kind });
    }
    if symbol.kind == elf::STT_SECTION && symbol.value != 0 {
        return Some(finding::Problem::SectionSymbol(symbol.value));
    }
    let function = symbol.kind == elf::STT_FUNC;
    let section = &file.sections[file.section_of(symbol)?];
    if !section.is_loaded() {
        let name = section.name.clone();
        let problem = finding::Problem::StrayFunction(format!("in {name}, which is not loaded"));
        return function.then_some(problem);
    }
    let end = symbol.value.checked_add(symbol.size);
    if end.is_none_or(|end| end > section.size) {
        let what = format!("{:#x} bytes from +{:#x} on are not all in", symbol.size, symbol.value);
        let (section, size) = (section.name.clone(), section.size);
        return Some(finding::Problem::SymbolOutside { what, section, size });
    }
    let data = function && !section.is_code();
    data.then(|| {
        finding::Problem::StrayFunction(format!("in {}, which is not executable", section.name))
    })
}

fn entry_point(file: &File<'_>, symbol: &Symbol, findings: &mut Findings) {
    let section = file.sections.get(usize::from(symbol.section.0));
    let code = section.is_some_and(|of| of.is_loaded() && of.is_code() && symbol.value < of.size);
    if symbol.is_local() || !code {
        findings.illumos(Place::Symbol(symbol.name.clone()), Problem::EntryPoint);
    }
}

/// What is wrong with an undefined symbol whoever has it. krtld leaves weak ones that nobody defines, and 0 is what the
/// field holds.
fn undefined(symbol: &Symbol) -> Option<Problem> {
    if symbol.binding == elf::STB_WEAK {
        return None;
    }
    if symbol.is_local() {
        return Some(Problem::LocalUndefined);
    }
    let name = &symbol.name;
    let set = name.strip_prefix("__start_").or_else(|| name.strip_prefix("__stop_"))?;
    Some(Problem::Bound(set.into()))
}

/// What is wrong with a module's use of a symbol, if no kernel can be asked.
fn by_the_list(depends: &[String], name: &str) -> Option<finding::Problem> {
    match exporter(name) {
        Some(module) if is_primary(module) || depends.iter().any(|of| of == module) => None,
        Some(module) => Some(finding::Problem::NoDependency(module.to_owned())),
        None if is_depended_on(depends, name) => None,
        None => Some(finding::Problem::Unasked(vec![name.to_owned()])),
    }
}

/// Whether a symbol is the table of a module that a companion depends on, which has it if it has a companion.
fn is_depended_on(depends: &[String], name: &str) -> bool {
    let module = name.strip_prefix(DRIVER);
    module.is_some_and(|module| depends.iter().any(|of| of.rsplit('/').next() == Some(module)))
}

/// The same, by the kernel's own files.
fn by_the_kernel(kernel: &Kernel, depends: &[String], name: &str) -> Option<finding::Problem> {
    let (asked, many) = kernel.names();
    match kernel.ask(name, depends, false) {
        Known::Exported(_) => None,
        Known::Elsewhere(module) => Some(finding::Problem::NoDependency(module)),
        Known::Missing => Some(finding::Problem::Undefined { asked, many }),
        Known::Unasked(modules) => {
            Some(finding::Problem::UnaskedModule { asked, depends: modules.join(", ") })
        }
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
