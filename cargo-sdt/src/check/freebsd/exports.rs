//! Symbols that the module does not define, looked up in the kernel's own files, or without them in a list of releases.

use std::collections::{BTreeMap, BTreeSet};

use object::elf;

use super::metadata::{KERNEL, Metadata};
use super::native;
use crate::arch::{Arch, ModuleKind};
use crate::check::elf::{Elf, Symbol};
use crate::check::kernel::{Kernel, Kind};
use crate::check::relocations;
use crate::check::rules::Rule;
use crate::check::symbols::{Imports, Listed, Use, bound, not_looked_for};
use crate::platform::FreeBsd;

/// The exports of kernels and dtrace.ko, as far as modules here use them.
const LIST: &str = include_str!("symbols.txt");
/// The last major release in which other modules can use local symbols of a relocatable module (`sys/kern/link_elf_obj.c`).
const LEAKY: u32 = 13;
/// The prefix of the symbols in which sites of an open provider's probe name the types of its arguments
/// (`sdt_core::freebsd::native::open`); the hash of the probe follows.
const TYPES: &str = "__sdt_types_";

/// The names of FreeBSD's folders that hold files of one architecture only.
fn folders(arch: Arch) -> &'static [&'static str] {
    match arch {
        Arch::X86_64 => &["amd64", "x86"],
        Arch::Aarch64 => &["arm64", "aarch64"],
        Arch::Riscv64 => &["riscv"],
    }
}

/// A line of the list: `symbol file [releases] [variable]`.
#[derive(Clone, Copy, Debug)]
struct Export {
    symbol: &'static str,
    file: &'static str,
    /// The first and the last major release in which the file exports the symbol.
    releases: (u32, u32),
    kind: Kind,
}

fn exports() -> impl Iterator<Item = Export> {
    LIST.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let (line, kind) = match line.strip_suffix(" variable") {
            Some(line) => (line, Kind::Variable),
            None => (line, Kind::Function),
        };
        let mut words = line.split(' ');
        let (symbol, file) = (words.next()?, words.next()?);
        let (first, last) = words.next().unwrap_or("-").split_once('-')?;
        let number =
            |text: &str, none| if text.is_empty() { Some(none) } else { text.parse().ok() };
        Some(Export { symbol, file, releases: (number(first, 0)?, number(last, u32::MAX)?), kind })
    })
}

impl Export {
    /// Returns whether an architecture has the symbol: the file is for that architecture, or for all.
    fn is_on(&self, arch: Arch) -> bool {
        let of = |arch| self.file.split('/').any(|folder| folders(arch).contains(&folder));
        of(arch) || !Arch::ALL.into_iter().any(of)
    }

    /// Returns whether dtrace.ko has it, not the kernel itself.
    fn is_dtraces(&self) -> bool {
        self.file.starts_with("sys/cddl/")
    }
}

/// Looks up a symbol in the list. `dtrace` is whether the module depends on dtrace, `called` whether code calls the
/// symbol.
fn listed(arch: Arch, release: FreeBsd, dtrace: bool, symbol: &str, called: bool) -> Listed {
    let mut on_arch = exports().filter(|of| of.symbol == symbol && of.is_on(arch)).peekable();
    if on_arch.peek().is_none() {
        return Listed::Unknown;
    }
    let major = release.major();
    match on_arch.find(|of| (of.releases.0..=of.releases.1).contains(&major)) {
        None => Listed::NotInRelease,
        Some(export) if called && export.kind == Kind::Variable => Listed::Variable,
        Some(export) if export.is_dtraces() && !dtrace => Listed::NoDependency("dtrace.ko"),
        Some(_) => Listed::Fine,
    }
}

pub(super) fn check(elf: &Elf<'_>, release: FreeBsd, metadata: &Metadata, kernel: &Kernel) {
    versions(elf, metadata, kernel);
    disagreements(elf);
    // The loaders look up only symbols to which relocations refer. A shared object's other table is for debuggers.
    let mut symbols = BTreeMap::new();
    for section in elf.loaded() {
        for relocation in section.relocations.iter().filter(|of| relocations::has_symbol(elf, of)) {
            *symbols.entry(relocation.symbol).or_insert(false) |=
                relocations::calls(elf, section, relocation);
        }
    }
    let depends: Vec<_> = metadata.depends.iter().filter(|of| *of != KERNEL).cloned().collect();
    let leaky = release.major() <= LEAKY;
    let mut imports = Imports::new(elf, kernel, &depends, leaky, release.to_string());
    imports.check_files();
    let relocatable = elf.arch.module_kind() == ModuleKind::Relocatable;
    for (index, called) in symbols {
        let Some(symbol) = elf.symbols.get(index).filter(|of| of.is_undefined()) else { continue };
        let name = &*symbol.name;
        if name.starts_with(TYPES) {
            continue;
        }
        if let Some(what) = refused(relocatable, symbol) {
            not_looked_for(elf, symbol, what);
            continue;
        }
        let used = Use { called, weak: symbol.is_weak() };
        match bound(name).filter(|_| relocatable) {
            Some(set) if used.weak || elf.named(set).next().is_some() => {}
            Some(set) => elf.findings.symbol(name, Rule::NoSuchSet, &[&set]),
            None => {
                let dtrace = metadata.depends_on("dtrace");
                let listed = || listed(elf.arch, release, dtrace, name, called);
                imports.check(name, used, listed);
            }
        }
    }
    imports.done();
}

/// Returns why the loader does not look for an undefined symbol (`elf_obj_lookup` of `sys/kern/link_elf_obj.c`, `elf_lookup`
/// of `sys/kern/link_elf.c`).
fn refused(relocatable: bool, symbol: &Symbol) -> Option<&'static str> {
    match symbol.binding {
        elf::STB_LOCAL => Some("local"),
        elf::STB_GLOBAL | elf::STB_WEAK if symbol.name.is_empty() => Some("without a name"),
        elf::STB_GLOBAL | elf::STB_WEAK => None,
        elf::STB_GNU_UNIQUE if relocatable => Some("unique (STB_GNU_UNIQUE)"),
        elf::STB_GNU_UNIQUE => None,
        _ => Some("of unknown binding"),
    }
}

/// Checks that the kernel accepts the module, for each kernel whose file was given.
fn versions(elf: &Elf<'_>, metadata: &Metadata, kernel: &Kernel) {
    for file in kernel.files() {
        if let (Some(found), Some((minimum, maximum))) = (file.version, metadata.kernels)
            && found != minimum
            && !(minimum..=maximum).contains(&found)
        {
            elf.findings.file(Rule::OtherVersion, &[&file.name, &found, &minimum, &maximum]);
        }
    }
}

/// Finds sites of one probe that disagree about the types of its arguments. Each site names the types in a symbol, and
/// the module defines only one of these symbols.
fn disagreements(elf: &Elf<'_>) {
    let undefined = elf.all_symbols().filter(|symbol| symbol.is_undefined());
    let types: BTreeSet<_> =
        undefined.filter_map(|symbol| symbol.name.strip_prefix(TYPES)).collect();
    for name in types {
        let mut words = name.split('_');
        let probe = words.next().and_then(|hash| native::open_probe(elf, hash));
        let probe = probe.map_or_else(String::new, |name| format!(" {name}"));
        let what = match words.next() {
            None | Some("n") => "the number of arguments".to_owned(),
            Some(index) => format!("the type of argument {index}"),
        };
        elf.findings.file(Rule::SitesDisagree, &[&probe, &what]);
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/check/freebsd/exports.rs"]
mod tests;
