//! Symbols: everything that is undefined has to come from the kernel.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use object::elf;

use super::finding::{Findings, Problem};
use super::image::{Home, Image};

/// What the kernel and dtrace.ko export, as far as modules here may use it: `symbol file` lines.
const LIST: &str = include_str!("freebsd-symbols.txt");

static KNOWN: LazyLock<BTreeSet<&str>> = LazyLock::new(|| {
    LIST.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_whitespace().next())
        .collect()
});

pub(crate) fn check(image: &Image<'_>, findings: &mut Findings) {
    // The first symbol is the null symbol.
    for symbol in image.symbols.iter().skip(1) {
        let name = &*symbol.name;
        match symbol.home {
            Home::Common => findings.symbol(name, Problem::Common),
            // The loader gives 0 to weak symbols that nobody defines.
            Home::Undefined if symbol.binding == elf::STB_WEAK => {}
            Home::Undefined => undefined(image, name, findings),
            Home::Absolute | Home::Section(_) => {}
        }
    }
}

fn undefined(image: &Image<'_>, name: &str, findings: &mut Findings) {
    let set = name.strip_prefix("__start_").or_else(|| name.strip_prefix("__stop_"));
    match set {
        Some(set) if image.named(set).next().is_some() => {}
        Some(set) => findings.symbol(name, Problem::NoSuchSet(set.into())),
        None if KNOWN.contains(name) => {}
        None => findings.symbol(name, Problem::Undefined),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted_and_names_sources() {
        let lines: Vec<_> = LIST.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(lines.is_sorted(), "keep freebsd-symbols.txt sorted");
        for line in lines {
            let words: Vec<_> = line.split_whitespace().collect();
            assert_eq!(words.len(), 2, "`symbol file`: {line}");
            assert!(words[1].starts_with("sys/"), "{line}");
        }
        assert!(KNOWN.contains("dtrace_probe"));
    }
}
