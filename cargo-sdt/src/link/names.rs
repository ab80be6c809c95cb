//! Names of functions that a user of DTrace can read and type.
//!
//! fbt, `stack()` and, on illumos, `dtrace -l` read names from a module's symbol table, where rustc writes
//! `_RNvNtCsd4Xk_12proc_example7illumos11before_exec`. Rust's own form of this name contains `::`, but `:` separates
//! the fields of a probe description and cannot be quoted there (`dtrace_str2desc`, `dt_lex.l` of libdtrace). A
//! description can contain letters, digits, `_`, `-` and `.` unquoted, so paths are written with dots:
//! `proc_example.illumos.before_exec`.

use std::collections::{HashMap, HashSet};
use std::mem::offset_of;

use object::read::elf::{FileHeader as _, SectionHeader as _, Sym as _};
use object::{Endianness, elf};

use super::LinkError;

/// The smallest `DTRACE_FUNCNAMELEN` without the NUL: illumos has 128, and so had older releases of FreeBSD.
pub const LONGEST: usize = 127;

/// Renames every symbol that rustc has mangled to a name that a probe description can contain, and that no other symbol
/// of the file has: the path in the source, without types. Symbols keep their places in the table, so relocations stay
/// valid. If several symbols have one path, the second one, in the order of addresses, ends in `.1`. A path of more
/// than `LONGEST` bytes loses crates and modules at its beginning.
///
/// # Errors
/// The file's tables are damaged.
pub fn make_readable(image: &mut Vec<u8>) -> Result<(), LinkError> {
    let failed = |source| LinkError::Object { what: "the linked file".to_owned(), source };
    let data = &**image;
    let header = elf::FileHeader64::<Endianness>::parse(data).map_err(failed)?;
    let endian = header.endian().map_err(failed)?;
    let sections = header.sections(endian, data).map_err(failed)?;
    let symbols = sections.symbols(endian, data, elf::SHT_SYMTAB).map_err(failed)?;
    let mut names = Vec::with_capacity(symbols.len());
    let mut mangled = Vec::new();
    let mut taken = HashSet::new();
    for (index, symbol) in symbols.iter().enumerate() {
        let name = symbol.name(endian, symbols.strings()).map_err(failed)?;
        let name = String::from_utf8_lossy(name).into_owned();
        match rustc_demangle::try_demangle(&name) {
            Ok(path) if !symbol.is_undefined(endian) => {
                let place = (symbol.st_shndx(endian).0, symbol.st_value(endian), name.clone());
                mangled.push((place, index, format!("{path:#}")));
            }
            _ => drop(taken.insert(name.clone())),
        }
        names.push(name);
    }
    if mangled.is_empty() {
        return Ok(());
    }
    mangled.sort();
    let mut numbers = HashMap::new();
    for (_, index, path) in mangled {
        names[index] = unique(&readable(&path), &mut taken, &mut numbers);
    }

    let table = sections.section(symbols.section()).map_err(failed)?.sh_offset(endian);
    let strings = sections.section(symbols.string_section()).map_err(failed)?;
    let (place, room) = (strings.sh_offset(endian), strings.sh_size(endian));
    let strings = header.e_shoff(endian)
        + symbols.string_section().0 as u64 * u64::from(header.e_shentsize(endian));

    let mut text = vec![0];
    let mut starts = HashMap::from([(String::new(), 0)]);
    for (index, name) in names.into_iter().enumerate() {
        let start = *starts.entry(name).or_insert_with_key(|name| {
            let start = text.len() as u32;
            text.extend(name.bytes().chain([0]));
            start
        });
        let entry = size_of::<elf::Sym64<Endianness>>() * index;
        put(image, table + entry as u64, &start.to_le_bytes());
    }
    let size = text.len() as u64;
    let place = if size <= room {
        text.resize(room as usize, 0);
        place
    } else {
        // Only its header contains the location of a table.
        let end = image.len() as u64;
        image.resize(image.len() + text.len(), 0);
        end
    };
    put(image, place, &text);
    put(
        image,
        strings + offset_of!(elf::SectionHeader64<Endianness>, sh_offset) as u64,
        &place.to_le_bytes(),
    );
    put(
        image,
        strings + offset_of!(elf::SectionHeader64<Endianness>, sh_size) as u64,
        &size.to_le_bytes(),
    );
    Ok(())
}

/// Overwrites bytes of the file. The place was read before, so it is in the file.
fn put(image: &mut [u8], place: u64, bytes: &[u8]) {
    let place = place as usize;
    image[place..place + bytes.len()].copy_from_slice(bytes);
}

/// Returns an unused name for a path, and marks it as used. `numbers` has the last number of each path.
fn unique(path: &str, taken: &mut HashSet<String>, numbers: &mut HashMap<String, u32>) -> String {
    let number = numbers.entry(path.to_owned()).or_insert(0);
    let mut name = shortened(path, LONGEST).to_owned();
    while !taken.insert(name.clone()) {
        *number += 1;
        let number = format!(".{number}");
        name = shortened(path, LONGEST - number.len()).to_owned() + &number;
    }
    name
}

/// Returns the longest end of a path that starts after a dot and has at most `longest` bytes, or else the start of the
/// path's last piece.
fn shortened(path: &str, longest: usize) -> &str {
    let ends = path.match_indices('.').map(|(dot, _)| &path[dot + 1..]);
    let mut ends = std::iter::once(path).chain(ends);
    let last = path.rsplit('.').next().unwrap_or(path);
    ends.find(|end| end.len() <= longest).unwrap_or_else(|| &last[..longest])
}

/// Stands for characters that a name cannot have; between two words it becomes `_`.
const GAP: char = ' ';

/// Converts a Rust path to a name that a probe description can contain. Removes generic arguments, and the trait of
/// `<Type as Trait>::method`.
fn readable(path: &str) -> String {
    let mut text = String::new();
    write_path(path, &mut text);
    let pieces = text.split('.').map(|piece| piece.split(GAP).filter(|word| !word.is_empty()));
    let pieces = pieces.map(|words| words.collect::<Vec<_>>().join("_"));
    let pieces: Vec<_> = pieces.filter(|piece| !piece.is_empty()).collect();
    if pieces.is_empty() { "unnamed".to_owned() } else { pieces.join(".") }
}

fn write_path(path: &str, text: &mut String) {
    let mut rest = path;
    while let Some(next) = rest.chars().next() {
        if next == '<' {
            let (inner, behind) = bracketed(rest);
            // Brackets before a path contain its type; brackets after a name contain generic arguments.
            if text.is_empty() || text.ends_with(GAP) {
                write_path(self_type(inner), text);
            }
            rest = behind;
        } else if let Some(behind) = rest.strip_prefix("::") {
            text.push('.');
            rest = behind;
            if rest.starts_with('<') {
                rest = bracketed(rest).1;
                text.pop();
            }
        } else {
            let fits = next.is_ascii_alphanumeric() || matches!(next, '_' | '.');
            // `{closure#0}` is one word.
            if fits {
                text.push(next);
            } else if next != '#' {
                text.push(GAP);
            }
            rest = &rest[next.len_utf8()..];
        }
    }
}

/// Returns the text between the bracket at the start and its partner, and the text behind.
fn bracketed(text: &str) -> (&str, &str) {
    let mut depth = 0;
    let mut last = GAP;
    for (at, next) in text.char_indices() {
        match next {
            '<' => depth += 1,
            // Not the `>` of `fn() -> T`.
            '>' if last != '-' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return (&text[1..at], &text[at + 1..]);
        }
        last = next;
    }
    (&text[1..], "")
}

/// `Type` of `Type as Trait`.
fn self_type(inner: &str) -> &str {
    let mut depth = 0;
    let mut last = GAP;
    for (at, next) in inner.char_indices() {
        match next {
            '<' => depth += 1,
            '>' if last != '-' => depth -= 1,
            ' ' if depth == 0 && inner[at..].starts_with(" as ") => return &inner[..at],
            _ => {}
        }
        last = next;
    }
    inner
}

#[cfg(test)]
#[path = "../../tests/unit/link/names.rs"]
mod tests;
