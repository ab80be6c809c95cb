//! Symbols: what is defined is where it says, as fbt goes by it, and a shared object's sets need their bounds.

use std::collections::BTreeSet;

use object::elf;

use super::native;
use crate::arch::ModuleKind;
use crate::check::finding::{self, Findings, Signed};
use crate::check::freebsd::Problem;
use crate::check::functions::{Functions, is_known_kind};
use crate::check::image::{Home, Image, Section, Symbol};

/// What the names start with by which sites of an open provider's probe say its arguments' types
/// (`sdt_core::freebsd::native::open`); the probe's hash follows.
pub(super) const TYPES: &str = "__sdt_types_";

pub(crate) fn check(image: &Image<'_>, functions: &Functions<'_>, findings: &mut Findings) {
    findings.overlaps(functions);
    for symbol in image.all_symbols() {
        if let Some(problem) = problem(image, symbol) {
            findings.symbol(&symbol.name, problem);
        }
    }
    types(image, findings);
    if image.arch.module_kind() == ModuleKind::Shared {
        for (index, section) in image.sections.iter().enumerate() {
            if section.is_loaded() && section.size > 0 && section.name.starts_with("set_") {
                bounds(image, index, section, findings);
            }
        }
    }
}

/// fbt looks at all functions, the undefined ones among them, where their symbols say (`link_elf_each_function_nameval`
/// of both loaders, `fbt_provide_module_function`).
fn problem(image: &Image<'_>, symbol: &Symbol) -> Option<finding::Problem> {
    if !is_known_kind(symbol.binding, symbol.kind) {
        let (binding, kind) = (symbol.binding.0, symbol.kind.0);
        return Some(finding::Problem::SymbolKind { binding, kind });
    }
    if symbol.kind == elf::STT_SECTION && symbol.value != 0 {
        return Some(finding::Problem::SectionSymbol(symbol.value));
    }
    let function = matches!(symbol.kind, elf::STT_FUNC | elf::STT_GNU_IFUNC);
    let section = match symbol.home {
        Home::Common => return Some(finding::Problem::Common),
        Home::Undefined | Home::Absolute => {
            let stray = function && symbol.value != 0;
            return stray
                .then(|| finding::Problem::StrayFunction("in no section, with an address".into()));
        }
        Home::Section(section) => &image.sections[section],
    };
    if !section.is_loaded() {
        let (name, stray) = (section.name.clone(), function && symbol.value != 0);
        return stray
            .then(|| finding::Problem::StrayFunction(format!("in {name}, which is not loaded")));
    }
    let outside = |what: String| {
        let (section, size) = (section.name.clone(), section.size);
        Some(finding::Problem::SymbolOutside { what, section, size })
    };
    if symbol.value > section.size {
        // One in front of its section is far behind it.
        let offset = Signed(symbol.value.cast_signed());
        return outside(format!("{offset} is outside of"));
    }
    let fits = symbol.value.checked_add(symbol.size).is_some_and(|end| end <= section.size);
    if !fits {
        return outside(format!(
            "{:#x} bytes from +{:#x} on are not all in",
            symbol.size, symbol.value
        ));
    }
    if function && !section.is_code() {
        return Some(finding::Problem::StrayFunction(format!(
            "in {}, which is not executable",
            section.name
        )));
    }
    None
}

/// Sites of one probe that take its arguments to be of different types: each names what it takes them to be,
/// and of one of them alone that name is defined.
fn types(image: &Image<'_>, findings: &mut Findings) {
    let undefined = image.all_symbols().filter(|symbol| symbol.home == Home::Undefined);
    let types: BTreeSet<_> =
        undefined.filter_map(|symbol| symbol.name.strip_prefix(TYPES)).collect();
    for name in types {
        let mut words = name.split('_');
        let probe = words.next().and_then(|hash| native::open_probe(image, hash));
        let probe = probe.map_or_else(String::new, |name| format!(" {name}"));
        let what = match words.next() {
            None | Some("n") => "the number of arguments".to_owned(),
            Some(index) => format!("the type of argument {index}"),
        };
        findings.file(Problem::SitesDisagree { probe, what });
    }
}

/// The symbols by which `link_elf_lookup_set` finds a set.
fn bounds(image: &Image<'_>, index: usize, section: &Section<'_>, findings: &mut Findings) {
    for (prefix, offset) in [("__start_", 0), ("__stop_", section.size)] {
        let name = format!("{prefix}{}", section.name);
        let symbol = image
            .all_symbols()
            .find(|symbol| symbol.name == name && symbol.home != Home::Undefined);
        let found = match symbol {
            None => "not defined",
            Some(symbol) if (symbol.home, symbol.value) == (Home::Section(index), offset) => {
                continue;
            }
            Some(_) => "somewhere else",
        };
        findings.section(&section.name, finding::Problem::Bound { symbol: name, found });
    }
}
