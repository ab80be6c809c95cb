//! Symbols that the module does not define. What the kernel's own files say is believed; without them, what is known of
//! releases.

use std::collections::{BTreeMap, BTreeSet};

use object::elf;

use super::metadata::{KERNEL, Metadata};
use super::native;
use crate::arch::{Arch, ModuleKind};
use crate::check::elf::{Elf, Symbol};
use crate::check::finding::Findings;
use crate::check::kernel::{Kernel, Kind};
use crate::check::relocations;
use crate::check::rules::Rule;
use crate::check::symbols::{Imports, Listed, Use, bound, not_looked_for};
use crate::platform::FreeBsd;

/// The exports of kernels and dtrace.ko, as far as modules here use them.
const LIST: &str = include_str!("symbols.txt");
/// Up to this release others may use local symbols of a relocatable module (`sys/kern/link_elf_obj.c`).
const LEAKY: u32 = 13;
/// The prefix of the names by which sites of an open provider's probe give its arguments' types
/// (`sdt_core::freebsd::native::open`); the probe's hash follows.
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
    /// The first and the last major release that has it there.
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
    /// Returns whether an architecture has it: its file is that architecture's, or of none in particular.
    fn is_on(&self, arch: Arch) -> bool {
        let of = |arch| self.file.split('/').any(|folder| folders(arch).contains(&folder));
        of(arch) || !Arch::ALL.into_iter().any(of)
    }

    /// Returns whether dtrace.ko has it, not the kernel itself.
    fn is_dtraces(&self) -> bool {
        self.file.starts_with("sys/cddl/")
    }
}

/// Returns what the list says of a symbol for a module that depends on dtrace, or not.
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

pub(super) fn check(
    elf: &Elf<'_>,
    release: FreeBsd,
    metadata: &Metadata,
    kernel: &Kernel,
    findings: &mut Findings,
) {
    versions(metadata, kernel, findings);
    disagreements(elf, findings);
    // The loaders look for what relocations use, and for nothing else. A shared object's other table is for debuggers.
    let mut symbols = BTreeMap::new();
    for section in elf.loaded() {
        for relocation in section.relocations.iter().filter(|of| relocations::has_symbol(elf, of)) {
            *symbols.entry(relocation.symbol).or_insert(false) |=
                relocations::calls(elf, section, relocation);
        }
    }
    let depends: Vec<_> = metadata.depends.iter().filter(|of| *of != KERNEL).cloned().collect();
    let leaky = release.major() <= LEAKY;
    let mut imports = Imports::new(kernel, &depends, leaky, release.to_string());
    imports.check_files(elf, findings);
    let relocatable = elf.arch.module_kind() == ModuleKind::Relocatable;
    for (index, called) in symbols {
        let Some(symbol) = elf.symbols.get(index).filter(|of| of.is_undefined()) else { continue };
        let name = &*symbol.name;
        if name.starts_with(TYPES) {
            continue;
        }
        if let Some(what) = refused(relocatable, symbol) {
            not_looked_for(elf, symbol, what, findings);
            continue;
        }
        let used = Use { called, weak: symbol.is_weak() };
        match bound(name).filter(|_| relocatable) {
            Some(set) if used.weak || elf.named(set).next().is_some() => {}
            Some(set) => findings.symbol(name, Rule::NoSuchSet, &[&set]),
            None => {
                let dtrace = metadata.depends_on("dtrace");
                let listed = || listed(elf.arch, release, dtrace, name, called);
                imports.check(name, used, listed, findings);
            }
        }
    }
    imports.done(findings);
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

/// Checks that a kernel whose file was given takes the module.
fn versions(metadata: &Metadata, kernel: &Kernel, findings: &mut Findings) {
    for file in kernel.files() {
        if let (Some(found), Some((minimum, maximum))) = (file.version, metadata.kernels)
            && found != minimum
            && !(minimum..=maximum).contains(&found)
        {
            findings.file(Rule::OtherVersion, &[&file.name, &found, &minimum, &maximum]);
        }
    }
}

/// Finds sites of one probe that take its arguments to be of different types: each names the types in a symbol, and the
/// module defines one of these symbols only.
fn disagreements(elf: &Elf<'_>, findings: &mut Findings) {
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
        findings.file(Rule::SitesDisagree, &[&probe, &what]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted_and_names_sources() {
        let lines: Vec<_> = LIST.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(lines.is_sorted(), "keep symbols.txt sorted");
        assert_eq!(exports().count(), lines.len(), "`symbol file [first-last] [variable]`");
        for export in exports() {
            assert!(export.file.starts_with("sys/"), "{export:?}");
            assert!(export.releases.0 <= export.releases.1, "{export:?}");
        }
        // The nodes of sysctls are lists.
        for export in exports().filter(|export| export.symbol.starts_with("sysctl__")) {
            assert_eq!(export.kind, Kind::Variable, "{export:?}");
        }
    }

    #[test]
    fn symbols_are_known_where_they_are() {
        let newest = FreeBsd::default();
        let known = |arch, symbol| listed(arch, newest, true, symbol, false) == Listed::Fine;
        for arch in Arch::ALL {
            for symbol in ["dtrace_probe", "memcpy", "strlen", "smp_rendezvous", "dtrace_invop_add"]
            {
                assert!(known(arch, symbol), "{symbol} on {arch}");
            }
            assert_eq!(known(arch, "disable_wp"), arch == Arch::X86_64);
            assert_eq!(known(arch, "arm64_get_writable_addr"), arch == Arch::Aarch64);
            assert!(!known(arch, "puts") && !known(arch, "#") && !known(arch, ""));
        }
    }

    #[test]
    fn symbols_are_known_from_their_release_on_and_with_their_module() {
        let on = |release: &str, dtrace, symbol| {
            let release = release.parse().expect("a release");
            listed(Arch::X86_64, release, dtrace, symbol, false)
        };
        for (symbol, first) in
            [("sdt_probe_func", 10), ("sdt_probes_enabled", 12), ("sdt_probe", 15)]
        {
            for release in 10..=15 {
                let known = on(&release.to_string(), false, symbol) == Listed::Fine;
                assert_eq!(known, release >= first, "{symbol} in {release}");
            }
        }
        assert_eq!(on("1404000", false, "sdt_probe6"), Listed::NotInRelease);
        assert_eq!(on("15", false, "dtrace_register"), Listed::NoDependency("dtrace.ko"));
        assert_eq!(on("15", true, "dtrace_register"), Listed::Fine);
    }

    #[test]
    fn variables_are_not_called() {
        for (release, variable) in [("12", false), ("13", true), ("1300139", true), ("15", true)] {
            let release = release.parse().expect("a release");
            let sync =
                |called| listed(Arch::Aarch64, release, true, "arm64_icache_sync_range", called);
            let expected = if variable { Listed::Variable } else { Listed::Fine };
            assert_eq!((sync(true), sync(false)), (expected, Listed::Fine), "{release}");
        }
    }
}
