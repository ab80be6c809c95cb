//! Symbols: everything that is undefined has to come from the kernel, and a shared object's sets need their
//! bounds.

use object::elf;

use crate::arch::{Arch, ModuleKind};
use crate::check::finding::{Findings, Problem};
use crate::check::image::{Home, Image, Section};

/// What kernels and dtrace.ko export, as far as modules here may use it: `symbol file` lines.
const LIST: &str = include_str!("symbols.txt");

/// The names of FreeBSD's folders that hold what is of one architecture only.
fn folders(arch: Arch) -> &'static [&'static str] {
    match arch {
        Arch::X86_64 => &["amd64", "x86"],
        Arch::Aarch64 => &["arm64", "aarch64"],
        Arch::Riscv64 => &["riscv"],
    }
}

/// Whether the kernel of an architecture exports a symbol: the list has a file for it that is this
/// architecture's, or nobody's.
fn is_known(arch: Arch, symbol: &str) -> bool {
    let mut lines = LIST.lines().filter(|line| !line.starts_with('#'));
    lines.any(|line| {
        let of = |arch| line.split('/').any(|folder| folders(arch).contains(&folder));
        line.split(' ').next() == Some(symbol) && (of(arch) || !Arch::ALL.into_iter().any(of))
    })
}

pub(crate) fn check(image: &Image<'_>, findings: &mut Findings) {
    for symbol in image.all_symbols().filter(|symbol| symbol.home == Home::Common) {
        findings.symbol(&symbol.name, Problem::Common);
    }
    // A shared object's other table is for debuggers: there, weak symbols that the linker has given 0 are
    // undefined. The first symbol of a table is the null symbol.
    for symbol in image.symbols.iter().skip(1) {
        // The loader, too, gives 0 to weak symbols that nobody defines.
        if symbol.home == Home::Undefined && symbol.binding != elf::STB_WEAK {
            undefined(image, &symbol.name, findings);
        }
    }
    if image.arch.module_kind() == ModuleKind::Shared {
        for (index, section) in image.sections.iter().enumerate() {
            if section.is_loaded() && section.size > 0 && section.name.starts_with("set_") {
                bounds(image, index, section, findings);
            }
        }
    }
}

fn undefined(image: &Image<'_>, name: &str, findings: &mut Findings) {
    let set = name.strip_prefix("__start_").or_else(|| name.strip_prefix("__stop_"));
    match set.filter(|_| image.arch.module_kind() == ModuleKind::Relocatable) {
        Some(set) if image.named(set).next().is_some() => {}
        Some(set) => findings.symbol(name, Problem::NoSuchSet(set.into())),
        None if is_known(image.arch, name) => {}
        None => findings.symbol(name, Problem::Undefined),
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
        for line in &lines {
            let words: Vec<_> = line.split_whitespace().collect();
            assert_eq!(words.len(), 2, "`symbol file`: {line}");
            assert!(words[1].starts_with("sys/"), "{line}");
        }
    }

    #[test]
    fn symbols_are_known_where_they_are() {
        for arch in Arch::ALL {
            for symbol in ["dtrace_probe", "memcpy", "strlen", "smp_rendezvous", "dtrace_invop_add"]
            {
                assert!(is_known(arch, symbol), "{symbol} on {arch}");
            }
            assert_eq!(is_known(arch, "disable_wp"), arch == Arch::X86_64);
            assert_eq!(is_known(arch, "arm64_get_writable_addr"), arch == Arch::Aarch64);
            assert!(!is_known(arch, "puts") && !is_known(arch, "#") && !is_known(arch, ""));
        }
    }
}
