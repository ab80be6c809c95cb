//! Symbols: everything that is undefined has to come from the kernel, and a shared object's sets need their
//! bounds.

use std::collections::BTreeSet;

use object::elf;

use super::metadata::Metadata;
use super::native;
use crate::arch::{Arch, ModuleKind};
use crate::check::finding::{Findings, Problem};
use crate::check::image::{Home, Image, Section};
use crate::platform::FreeBsd;

/// What kernels and dtrace.ko export, as far as modules here may use it.
const LIST: &str = include_str!("symbols.txt");

/// What the names start with by which sites of an open provider's probe say its arguments' types
/// (`sdt_core::freebsd::native::open`); the probe's hash follows.
const TYPES: &str = "__sdt_types_";

/// The names of FreeBSD's folders that hold what is of one architecture only.
fn folders(arch: Arch) -> &'static [&'static str] {
    match arch {
        Arch::X86_64 => &["amd64", "x86"],
        Arch::Aarch64 => &["arm64", "aarch64"],
        Arch::Riscv64 => &["riscv"],
    }
}

/// A line of the list: `symbol file [releases]`.
#[derive(Clone, Copy, Debug)]
struct Export {
    symbol: &'static str,
    file: &'static str,
    /// The first and the last major release that has it there.
    releases: (u32, u32),
}

fn exports() -> impl Iterator<Item = Export> {
    LIST.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let mut words = line.split(' ');
        let (symbol, file) = (words.next()?, words.next()?);
        let (first, last) = words.next().unwrap_or("-").split_once('-')?;
        let number =
            |text: &str, none| if text.is_empty() { Some(none) } else { text.parse().ok() };
        Some(Export { symbol, file, releases: (number(first, 0)?, number(last, u32::MAX)?) })
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

/// What is wrong with a module's use of a symbol that it does not define.
fn misuse(arch: Arch, release: FreeBsd, dtrace: bool, symbol: &str) -> Option<Problem> {
    let mut on_arch = exports().filter(|of| of.symbol == symbol && of.is_on(arch)).peekable();
    if on_arch.peek().is_none() {
        return Some(Problem::Undefined);
    }
    let major = release.major();
    let Some(export) = on_arch.find(|of| (of.releases.0..=of.releases.1).contains(&major)) else {
        return Some(Problem::NotInRelease(release));
    };
    (export.is_dtraces() && !dtrace).then_some(Problem::NeedsDtrace)
}

pub(crate) fn check(
    image: &Image<'_>,
    release: FreeBsd,
    metadata: &Metadata,
    findings: &mut Findings,
) {
    let dtrace = metadata.depends_on("dtrace");
    for symbol in image.all_symbols().filter(|symbol| symbol.home == Home::Common) {
        findings.symbol(&symbol.name, Problem::Common);
    }
    // A shared object's other table is for debuggers: there, weak symbols that the linker has given 0 are
    // undefined. The first symbol of a table is the null symbol.
    for symbol in image.symbols.iter().skip(1) {
        // The loader, too, gives 0 to weak symbols that nobody defines.
        if symbol.home == Home::Undefined
            && symbol.binding != elf::STB_WEAK
            && !symbol.name.starts_with(TYPES)
        {
            undefined(image, release, dtrace, &symbol.name, findings);
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

fn undefined(
    image: &Image<'_>,
    release: FreeBsd,
    dtrace: bool,
    name: &str,
    findings: &mut Findings,
) {
    let set = name.strip_prefix("__start_").or_else(|| name.strip_prefix("__stop_"));
    match set.filter(|_| image.arch.module_kind() == ModuleKind::Relocatable) {
        Some(set) if image.named(set).next().is_some() => {}
        Some(set) => findings.symbol(name, Problem::NoSuchSet(set.into())),
        None => {
            if let Some(problem) = misuse(image.arch, release, dtrace, name) {
                findings.symbol(name, problem);
            }
        }
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
        findings.section(&section.name, Problem::Bound { symbol: name, found });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted_and_names_sources() {
        let lines: Vec<_> = LIST.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(lines.is_sorted(), "keep symbols.txt sorted");
        assert_eq!(exports().count(), lines.len(), "`symbol file [first-last]`");
        for export in exports() {
            assert!(export.file.starts_with("sys/"), "{export:?}");
            assert!(export.releases.0 <= export.releases.1, "{export:?}");
        }
    }

    #[test]
    fn symbols_are_known_where_they_are() {
        let newest = FreeBsd::default();
        let known = |arch, symbol| misuse(arch, newest, true, symbol).is_none();
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
            misuse(Arch::X86_64, release.parse().expect("a release"), dtrace, symbol)
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
        assert_eq!(problem, Some(Problem::NotInRelease("1404000".parse().unwrap())));
        assert_eq!(on("15", false, "dtrace_register"), Some(Problem::NeedsDtrace));
        assert_eq!(on("15", true, "dtrace_register"), None);
    }
}
