//! Symbols that the module does not define: they have to come from the kernel, or from a module it depends on. What
//! its own files say is believed; without them, what is known of releases.

use std::collections::BTreeMap;

use object::elf;

use super::metadata::Metadata;
use super::relocations;
use super::symbols::TYPES;
use crate::arch::{Arch, ModuleKind};
use crate::check::finding::{self, Findings};
use crate::check::freebsd::Problem;
use crate::check::image::{Home, Image, Symbol};
use crate::check::kernel::{Kernel, Kind, Known};
use crate::platform::FreeBsd;

/// What is known of kernels and dtrace.ko, as far as modules here use it.
const LIST: &str = include_str!("symbols.txt");

/// The name by which a module depends on the kernel itself.
const KERNEL: &str = "kernel";
/// Up to this release others may use local symbols of a relocatable module (`sys/kern/link_elf_obj.c`).
const LEAKY: u32 = 13;

/// The names of FreeBSD's folders that hold what is of one architecture only.
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
    /// Whether it is there on an architecture: its file is that architecture's, or nobody's.
    fn is_on(&self, arch: Arch) -> bool {
        let of = |arch| self.file.split('/').any(|folder| folders(arch).contains(&folder));
        of(arch) || !Arch::ALL.into_iter().any(of)
    }

    /// Whether dtrace.ko has it, not the kernel itself.
    fn is_dtraces(&self) -> bool {
        self.file.starts_with("sys/cddl/")
    }
}

/// How a module uses a symbol that it does not define.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Use {
    /// Code calls it.
    called: bool,
    /// The loader makes it 0 if nothing defines it.
    weak: bool,
}

/// What is wrong with a module's use of a symbol that it does not define, if no kernel can be asked.
fn by_the_list(
    arch: Arch,
    release: FreeBsd,
    dtrace: bool,
    symbol: &str,
    used: Use,
) -> Option<finding::Problem> {
    let mut on_arch = exports().filter(|of| of.symbol == symbol && of.is_on(arch)).peekable();
    if on_arch.peek().is_none() {
        return (!used.weak).then(|| finding::Problem::Unasked(vec![symbol.to_owned()]));
    }
    let major = release.major();
    let Some(export) = on_arch.find(|of| (of.releases.0..=of.releases.1).contains(&major)) else {
        return (!used.weak).then(|| Problem::NotInRelease(release).into());
    };
    if used.called && export.kind == Kind::Variable {
        return Some(Problem::CallsVariable(format!("FreeBSD {release}")).into());
    }
    (export.is_dtraces() && !dtrace && !used.weak).then_some(Problem::NeedsDtrace.into())
}

/// The same, by the kernel's own files.
fn by_the_kernel(
    kernel: &Kernel,
    release: FreeBsd,
    metadata: &Metadata,
    symbol: &str,
    used: Use,
) -> Option<finding::Problem> {
    let depends: Vec<_> = metadata.depends.iter().filter(|of| *of != KERNEL).cloned().collect();
    let (asked, many) = kernel.names();
    match kernel.ask(symbol, &depends, release.major() <= LEAKY) {
        Known::Exported(Kind::Variable) if used.called => {
            Some(Problem::CallsVariable(asked).into())
        }
        Known::Exported(_) => None,
        _ if used.weak => None,
        Known::Elsewhere(module) => Some(finding::Problem::NoDependency(module)),
        Known::Missing => Some(finding::Problem::Undefined { asked, many }),
        Known::Unasked(modules) => {
            Some(finding::Problem::UnaskedModule { asked, depends: modules.join(", ") })
        }
    }
}

pub(crate) fn check(
    image: &Image<'_>,
    release: FreeBsd,
    metadata: &Metadata,
    kernel: &Kernel,
    findings: &mut Findings,
) {
    versions(image, metadata, kernel, findings);
    // The loaders look for what relocations use, and for nothing else. A shared object's other table is for debuggers.
    let mut symbols = BTreeMap::new();
    for section in image.loaded() {
        for (&at, relocation) in &section.relocations {
            if relocations::has_symbol(image, relocation) {
                *symbols.entry(relocation.symbol).or_insert(false) |=
                    relocations::calls(image, section, at, relocation.kind);
            }
        }
    }
    let mut unasked = Vec::new();
    for (index, called) in symbols {
        let Some(symbol) = image.symbols.get(index) else { continue };
        let used = Use { called, weak: symbol.binding == elf::STB_WEAK };
        let name = &*symbol.name;
        if symbol.home != Home::Undefined || name.starts_with(TYPES) {
            continue;
        }
        if let Some(reason) = not_looked_for(image, symbol) {
            findings.symbol(name, Problem::NotLookedFor(reason));
            continue;
        }
        let set = name.strip_prefix("__start_").or_else(|| name.strip_prefix("__stop_"));
        let problem = match set.filter(|_| image.arch.module_kind() == ModuleKind::Relocatable) {
            Some(set) if used.weak || image.named(set).next().is_some() => None,
            Some(set) => Some(Problem::NoSuchSet(set.into()).into()),
            None if kernel.is_known() => by_the_kernel(kernel, release, metadata, name, used),
            None => by_the_list(image.arch, release, metadata.depends_on("dtrace"), name, used),
        };
        match problem {
            Some(finding::Problem::Unasked(names)) => unasked.extend(names),
            Some(problem) => findings.symbol(name, problem),
            None => {}
        }
    }
    if !unasked.is_empty() {
        findings.file(finding::Problem::Unasked(unasked));
    }
}

/// Why the loader does not look for an undefined symbol (`elf_obj_lookup` of `sys/kern/link_elf_obj.c`, `elf_lookup` of
/// `sys/kern/link_elf.c`).
fn not_looked_for(image: &Image<'_>, symbol: &Symbol) -> Option<&'static str> {
    let relocatable = image.arch.module_kind() == ModuleKind::Relocatable;
    match symbol.binding {
        elf::STB_LOCAL => Some("local"),
        elf::STB_GNU_UNIQUE if relocatable => Some("unique (STB_GNU_UNIQUE)"),
        _ if symbol.name.is_empty() => Some("without a name"),
        _ => None,
    }
}

/// Whether the kernel's files are for this module at all.
fn versions(image: &Image<'_>, metadata: &Metadata, kernel: &Kernel, findings: &mut Findings) {
    for file in kernel.files() {
        if let Some(arch) = file.arch.filter(|&arch| arch != image.arch) {
            let (found, wanted) = (arch.freebsd_name().into(), image.arch.freebsd_name().into());
            let file = file.name.clone();
            findings.file(finding::Problem::OtherKernel { file, found, wanted });
        }
        if let (Some(found), Some((minimum, maximum))) = (file.version, metadata.kernels)
            && found != minimum
            && !(minimum..=maximum).contains(&found)
        {
            let file = file.name.clone();
            findings.file(Problem::OtherVersion { file, found, minimum, maximum });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A strong symbol that is called.
    const CALLED: Use = Use { called: true, weak: false };
    /// A strong symbol whose address is taken.
    const TAKEN: Use = Use { called: false, weak: false };

    #[test]
    fn the_list_is_sorted_and_names_sources() {
        let lines: Vec<_> = LIST.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(lines.is_sorted(), "keep symbols.txt sorted");
        assert_eq!(exports().count(), lines.len(), "`symbol file [first-last] [variable]`");
        for export in exports() {
            assert!(export.file.starts_with("sys/"), "{export:?}");
            assert!(export.releases.0 <= export.releases.1, "{export:?}");
        }
    }

    #[test]
    fn symbols_are_known_where_they_are() {
        let newest = FreeBsd::default();
        let known = |arch, symbol| by_the_list(arch, newest, true, symbol, TAKEN).is_none();
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
            by_the_list(Arch::X86_64, release.parse().expect("a release"), dtrace, symbol, TAKEN)
        };
        for (symbol, first) in
            [("sdt_probe_func", 10), ("sdt_probes_enabled", 12), ("sdt_probe", 15)]
        {
            for release in 10..=15 {
                let known = on(&release.to_string(), false, symbol).is_none();
                assert_eq!(known, release >= first, "{symbol} in {release}");
            }
        }
        let problem = on("1404000", false, "sdt_probe6");
        assert_eq!(problem, Some(Problem::NotInRelease("1404000".parse().unwrap()).into()));
        assert_eq!(on("15", false, "dtrace_register"), Some(Problem::NeedsDtrace.into()));
        assert_eq!(on("15", true, "dtrace_register"), None);
    }

    #[test]
    fn variables_are_not_called() {
        let sync = |release: &str, used| {
            let release = release.parse().expect("a release");
            by_the_list(Arch::Aarch64, release, true, "arm64_icache_sync_range", used)
        };
        for (release, variable) in [("12", false), ("13", true), ("1300139", true), ("15", true)] {
            let problem = Problem::CallsVariable(format!("FreeBSD {release}"));
            assert_eq!(sync(release, CALLED), variable.then_some(problem.into()), "{release}");
            assert_eq!(sync(release, TAKEN), None, "{release}");
        }
        let weak = Use { called: true, weak: true };
        assert!(matches!(sync("15", weak), Some(finding::Problem::FreeBsd(_))), "weak or not");
        // A weak symbol may be missing.
        for (release, symbol) in [("13", "arm64_get_writable_addr"), ("15", "unheard_of")] {
            let release = release.parse().expect("a release");
            assert_eq!(by_the_list(Arch::Aarch64, release, true, symbol, weak), None);
        }
        // The nodes of sysctls are lists.
        for export in exports().filter(|export| export.symbol.starts_with("sysctl__")) {
            assert_eq!(export.kind, Kind::Variable, "{export:?}");
        }
    }
}
