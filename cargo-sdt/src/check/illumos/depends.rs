//! The dependencies of a module: `do_dynamic` and `do_dependents` of `krtld/kobj.c`.

use object::elf;

use crate::check::elf::{Elf, Home, Section, number, string};
use crate::check::rules::Rule;

/// Most bytes of a dependency's name, without the NUL. krtld's buffer has room for 31 (`MODMAXNAMELEN`, 32, less the NUL), but
/// krtld rejects a name of 31 bytes.
const NAME_LEN: usize = 30;

/// The symbol of a string that names the dependencies, as in old modules.
const DEPENDS_ON: &str = "_depends_on";

/// Checks the dependencies and returns their names.
pub(super) fn check(elf: &Elf<'_>) -> Vec<String> {
    let dynamic = || elf.sections.iter().filter(|section| section.kind == elf::SHT_DYNAMIC);
    let mut names = Vec::new();
    if let Some(section) = dynamic().next() {
        let wrong = |what: &str| elf.findings.section(&section.name, Rule::Dynamic, &[&what]);
        if dynamic().count() > 1 {
            wrong("more than one dynamic section");
        }
        match needed(elf, section) {
            Ok(needed) => names = needed,
            Err(what) => wrong(what),
        }
    }
    if names.is_empty() {
        names = depends_on(elf);
    }
    for name in &names {
        if let Some(reason) = unusable(name) {
            elf.findings.file(Rule::Dependency, &[name, &reason]);
        }
    }
    names
}

fn needed(elf: &Elf<'_>, section: &Section<'_>) -> Result<Vec<String>, &'static str> {
    let strings = elf.sections.get(section.link).filter(|of| of.kind == elf::SHT_STRTAB);
    let strings = strings.ok_or("the dynamic section has no strings")?;
    let mut names = Vec::new();
    for entry in section.data.as_chunks::<16>().0 {
        let (tag, value) = entry.split_at(8);
        match elf::DynamicTag(number(tag).cast_signed()) {
            elf::DT_NULL => return Ok(names),
            elf::DT_NEEDED => {
                let name = string(strings.data, number(value));
                names.push(name.ok_or("a name is outside of the strings")?);
            }
            _ => {}
        }
    }
    Err("the dynamic section has no end (DT_NULL)")
}

fn depends_on(elf: &Elf<'_>) -> Vec<String> {
    let found = elf.all_symbols().find(|of| of.name == DEPENDS_ON && !of.is_undefined());
    let Some(symbol) = found else { return Vec::new() };
    let bytes = match symbol.home {
        Home::Section(section) if elf.sections[section].is_loaded() => {
            elf.sections[section].bytes(symbol.value, symbol.size)
        }
        _ => None,
    };
    let Some((0, names)) = bytes.and_then(<[u8]>::split_last) else {
        let what = "not a string of the module that ends with a NUL";
        elf.findings.symbol(&symbol.name, Rule::Dynamic, &[&what]);
        return Vec::new();
    };
    String::from_utf8_lossy(names).split_whitespace().map(str::to_owned).collect()
}

/// Returns why krtld would not load a module of this name.
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
    (!name.chars().all(fine)).then_some("contains characters that the name of a module cannot have")
}

#[cfg(test)]
#[path = "../../../tests/unit/check/illumos/depends.rs"]
mod tests;
