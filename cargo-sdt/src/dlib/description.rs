//! Reads the descriptions of structs, enums and arguments in a module's file.

use std::collections::BTreeSet;

use dtrace_compiler::declared::{Declarations, Named};
use object::{Object as _, ObjectSection as _};

use super::{DlibError, SECTIONS};
use crate::platform::Os;

/// The set of providers that a module registers itself.
const OWN_PROVIDERS: &str = "linkme_SDT_PROVIDERS";

/// Reads the descriptions of a module.
///
/// # Errors
/// If the file is not a module of a 64-bit kernel, describes nothing, or contradicts itself.
pub fn read(file: &[u8]) -> Result<Declarations, DlibError> {
    let unreadable = |error: object::Error| DlibError::Unreadable(error.to_string());
    let os = Os::of_file(file);
    let file = object::File::parse(file).map_err(unreadable)?;
    if !file.is_64() {
        return Err(DlibError::NotLp64);
    }
    let mut text = Vec::new();
    // There are several if the linker does not join them.
    for section in
        file.sections().filter(|section| section.name().is_ok_and(|name| SECTIONS.contains(&name)))
    {
        text.extend(section.data().map_err(unreadable)?);
    }
    let mut description = Declarations::parse(&text)?;
    if os == Os::Illumos && file.section_by_name(OWN_PROVIDERS).is_none() {
        // Its probes belong to the kernel's own providers, which always exist.
        description.providers.clear();
    }
    let is_empty = description.structs.is_empty()
        && description.enums.is_empty()
        && description.text.is_empty()
        && !description.probes.iter().flat_map(|probe| &probe.arguments).any(Named::is_typed);
    if is_empty { Err(DlibError::Nothing) } else { Ok(description) }
}

/// Joins the descriptions of several modules, each of which may be absent.
///
/// # Errors
/// If they have different structs, enums or constants of one name.
pub fn of_all(modules: Vec<Declarations>) -> Result<Declarations, DlibError> {
    let mut all = match <[Declarations; 1]>::try_from(modules) {
        Ok([only]) => return Ok(only),
        Err(modules) => {
            let mut all = Declarations::default();
            let mut known = BTreeSet::new();
            for module in modules {
                all.structs.extend(module.structs);
                all.enums.extend(module.enums);
                all.probes.extend(module.probes);
                // Modules may have taken it from a crate that they share.
                let blocks = blocks(&module.text)
                    .into_iter()
                    .filter(|block| known.insert(block.trim().to_owned()));
                all.text.extend(blocks);
            }
            all
        }
    };
    all.settle()?;
    Ok(all)
}

/// Splits a text in D into independent blocks: declarations with the comments before them, each up to the end of its
/// last line, and lines for the preprocessor.
fn blocks(text: &str) -> Vec<String> {
    let (mut all, mut block) = (Vec::new(), String::new());
    let (mut depth, mut comment) = (0_i32, false);
    for line in text.split_inclusive('\n') {
        let is_directive = !comment && depth == 0 && line.starts_with('#');
        let (mut last, mut quote) = (None, None);
        let mut chars = line.chars().peekable();
        while let Some(c) = chars.next() {
            match (c, quote) {
                ('*', _) if comment && chars.next_if_eq(&'/').is_some() => comment = false,
                _ if comment => {}
                ('\\', Some(_)) => drop(chars.next()),
                (c, Some(end)) if c == end => quote = None,
                (_, Some(_)) => {}
                ('"' | '\'', None) => (last, quote) = (Some(c), Some(c)),
                ('/', None) if chars.next_if_eq(&'*').is_some() => comment = true,
                (c, None) => {
                    depth += i32::from(c == '{') - i32::from(c == '}');
                    if !c.is_whitespace() {
                        last = Some(c);
                    }
                }
            }
        }
        block.push_str(line);
        if is_directive || !comment && depth <= 0 && last == Some(';') {
            all.push(std::mem::take(&mut block));
            depth = 0;
        }
    }
    all.push(block);
    all
}
