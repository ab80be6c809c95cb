//! What a module depends on: `do_dynamic` and `do_dependents` of `krtld/kobj.c`.

use object::elf;

use super::Problem;
use super::file::{File, Section};
use crate::check::finding::{Findings, Place};

/// Most bytes of a dependency's name, without the NUL: krtld counts one less than its buffer holds
/// (`MODMAXNAMELEN`, 32) as too many.
const NAME_LEN: usize = 30;

/// The old way: a string that names them.
const DEPENDS_ON: &str = "_depends_on";

/// The names of the modules it depends on.
pub(super) fn check(file: &File<'_>, findings: &mut Findings) -> Vec<String> {
    let dynamic = || file.sections.iter().filter(|section| section.kind == elf::SHT_DYNAMIC);
    let mut names = Vec::new();
    if let Some(section) = dynamic().next() {
        if dynamic().count() > 1 {
            let problem = Problem::Dynamic("more than one dynamic section");
            findings.illumos(Place::Section(section.name.clone()), problem);
        }
        match needed(file, section) {
            Ok(needed) => names = needed,
            Err(problem) => findings.illumos(Place::Section(section.name.clone()), problem),
        }
    }
    if names.is_empty() {
        names = depends_on(file, findings);
    }
    for name in &names {
        if let Some(reason) = unusable(name) {
            findings.illumos(Place::File, Problem::Dependency { name: name.clone(), reason });
        }
    }
    names
}

fn needed(file: &File<'_>, section: &Section<'_>) -> Result<Vec<String>, Problem> {
    let strings = file.sections.get(section.link).filter(|of| of.kind == elf::SHT_STRTAB);
    let strings = strings.ok_or(Problem::Dynamic("the dynamic section has no strings"))?;
    let mut names = Vec::new();
    for entry in section.data.as_chunks::<16>().0 {
        let (tag, value) = entry.split_at(8);
        let word =
            |bytes: &[u8]| bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
        match elf::DynamicTag(word(tag).cast_signed()) {
            elf::DT_NULL => return Ok(names),
            elf::DT_NEEDED => {
                let name = strings.string(word(value));
                names.push(name.ok_or(Problem::Dynamic("a name is outside of the strings"))?);
            }
            _ => {}
        }
    }
    Err(Problem::Dynamic("the dynamic section has no end (DT_NULL)"))
}

fn depends_on(file: &File<'_>, findings: &mut Findings) -> Vec<String> {
    let found = file.symbols.iter().find(|of| of.name == DEPENDS_ON && !of.is_undefined());
    let Some(symbol) = found else { return Vec::new() };
    let section = file.sections.get(usize::from(symbol.section.0)).filter(|of| of.is_loaded());
    let bytes = section.and_then(|section| section.bytes(symbol.value, symbol.size));
    let Some((0, names)) = bytes.and_then(<[u8]>::split_last) else {
        let problem = Problem::Dynamic("not a string of the module with its NUL");
        findings.illumos(Place::Symbol(symbol.name.clone()), problem);
        return Vec::new();
    };
    String::from_utf8_lossy(names).split_whitespace().map(str::to_owned).collect()
}

/// Why krtld would not load a module of this name.
fn unusable(name: &str) -> Option<&'static str> {
    if name.len() > NAME_LEN {
        return Some("is too long for krtld (30 bytes)");
    }
    let mut parts = name.split('/');
    let (folder, module) = (parts.next(), parts.next());
    if folder.is_none_or(str::is_empty) || module.is_none_or(str::is_empty) {
        return Some("is not a module's folder and name, like misc/mac");
    }
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '-' | '.');
    (!name.chars().all(fine)).then_some("has characters in it that no module's name has")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_judged() {
        for name in ["misc/mac", "drv/ip", "fs/sockfs", "crypto/aes", "misc/a_b-c.d"] {
            assert_eq!(unusable(name), None, "{name}");
        }
        for name in ["", "mac", "/mac", "misc/", "misc/a b", "misc/$x", &"misc/".repeat(7)] {
            assert!(unusable(name).is_some(), "{name}");
        }
    }
}
