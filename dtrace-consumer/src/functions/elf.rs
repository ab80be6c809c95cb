//! Reads the symbols and the text of an ELF file.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SectionKind, SymbolKind};

use super::exits::{self, Found};
use super::function::{Architecture, Function, Functions, Obstacle};
use super::name::Name;
use crate::system::reason;

/// The module of functions that are not Rust.
const OTHER: &str = "kernel";

/// Why the functions of a file cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file cannot be read.
    #[error("{}", reason(.0))]
    Io(#[from] io::Error),
    /// The file is no ELF file, or it is damaged.
    #[error("not an ELF file, or damaged: {0}")]
    Elf(#[from] object::Error),
    /// The file is for another architecture.
    #[error("functions of {0:?} are not supported; x86_64, aarch64 and riscv64 are")]
    Architecture(object::Architecture),
    /// The file has no symbols of functions.
    #[error(
        "the file has no symbols of functions: it was stripped; use the file from before strip(1)"
    )]
    Stripped,
}

/// A section with instructions.
struct Text<'f> {
    address: u64,
    bytes: &'f [u8],
}

impl<'f> Text<'f> {
    /// Returns the text of a function.
    fn of(&self, address: u64, size: u64) -> Option<&'f [u8]> {
        let start = usize::try_from(address.checked_sub(self.address)?).ok()?;
        self.bytes.get(start..start.checked_add(usize::try_from(size).ok()?)?)
    }
}

impl Functions {
    /// Reads the functions of a file.
    ///
    /// # Errors
    /// The file cannot be read, is no ELF file of a supported architecture, or has no symbols.
    pub fn read(file: &Path) -> Result<Self, ReadError> {
        let bytes = std::fs::read(file)?;
        read(&bytes)
    }
}

/// Reads the functions of a file.
fn read(bytes: &[u8]) -> Result<Functions, ReadError> {
    let file = object::File::parse(bytes)?;
    let architecture = match file.architecture() {
        object::Architecture::X86_64 => Architecture::X86_64,
        object::Architecture::Aarch64 => Architecture::Aarch64,
        object::Architecture::Riscv64 => Architecture::Riscv64,
        other => return Err(ReadError::Architecture(other)),
    };
    let mut texts: BTreeMap<usize, Text<'_>> = BTreeMap::new();
    for section in file.sections().filter(|section| section.kind() == SectionKind::Text) {
        let text = Text { address: section.address(), bytes: section.data()? };
        texts.insert(section.index().0, text);
    }
    // Symbols of one address are names of one function. The longest size has its whole text.
    let mut symbols: BTreeMap<(usize, u64), (u64, &str)> = BTreeMap::new();
    let is_function = |symbol: &object::Symbol<'_, '_>| {
        symbol.kind() == SymbolKind::Text && symbol.is_definition()
    };
    for symbol in file.symbols().chain(file.dynamic_symbols()).filter(is_function) {
        let (Some(section), Ok(name)) = (symbol.section_index(), symbol.name()) else { continue };
        let section = section.0;
        if !texts.contains_key(&section) || is_label(name) {
            continue;
        }
        let entry = symbols.entry((section, symbol.address())).or_insert((symbol.size(), name));
        if symbol.size() > entry.0 {
            *entry = (symbol.size(), name);
        }
    }
    if symbols.is_empty() {
        return Err(ReadError::Stripped);
    }
    let mut all: Vec<_> = symbols
        .into_iter()
        .map(|((section, address), (size, symbol))| {
            let name = Name::of(symbol, OTHER);
            let text = texts.get(&section).and_then(|text| text.of(address, size));
            function(architecture, name, address, size, text)
        })
        .collect();
    all.sort_by_key(|function| function.address);
    let build_id = file.build_id()?.map(<[u8]>::to_vec);
    Ok(Functions { architecture, build_id, all })
}

/// Returns whether a symbol names no function, but a kind of contents (`$x`, `$d`) or a place within a function (`.L`).
fn is_label(name: &str) -> bool {
    name.is_empty() || name.starts_with(['$', '.'])
}

fn function(
    architecture: Architecture,
    name: Name,
    address: u64,
    size: u64,
    text: Option<&[u8]>,
) -> Function {
    let obstacle = match (size, text) {
        (0, _) => Obstacle::NoSize,
        (_, None) => Obstacle::NoText,
        (_, Some(text)) => {
            let found = exits::find(architecture, address, text);
            let Found { entry, returns, calls } = found;
            return Function { name, address, size, entry, returns, calls };
        }
    };
    let (entry, returns) = (Err(obstacle.clone()), Err(obstacle));
    Function { name, address, size, entry, returns, calls: BTreeSet::new() }
}
