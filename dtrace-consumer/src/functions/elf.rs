//! Reads the symbols and the text of an ELF file.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::Path;

use object::elf::STT_GNU_IFUNC;
use object::{
    Object as _, ObjectKind, ObjectSection as _, ObjectSymbol as _, SectionKind, SymbolFlags,
    SymbolKind,
};

use super::exits::{self, Found};
use super::function::{Architecture, Function, Functions, Obstacle};
use super::name::Name;
use crate::system::reason;

/// The module of functions that are not Rust.
const OTHER: &str = "kernel";

/// The largest total size of all functions, as a multiple of the size of the text.
const OVERLAP: u64 = 4;
/// The largest number of bytes behind a function that can be padding before the next one and are of use.
const BEHIND: usize = 16;
/// The largest total size of the names of all functions, in bytes.
const NAMES: usize = 256 << 20;

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
    /// The file is not linked.
    #[error(
        "the file is relocatable: its functions have no addresses; link it as a program or a shared object"
    )]
    Relocatable,
    /// The file is for another architecture.
    #[error("functions of {0:?} are not supported; x86_64, aarch64 and riscv64 are")]
    Architecture(object::Architecture),
    /// The functions together are larger than [`OVERLAP`] times the text, or their names are too long.
    #[error(
        "the file is damaged: its functions overlap too much, or their names are too long ({0} bytes)"
    )]
    Overlap(usize),
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
    /// Returns the address behind the last byte.
    const fn end(&self) -> u64 {
        self.address.saturating_add(self.bytes.len() as u64)
    }

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
        let Symbols { architecture, build_id, all } = read(&bytes)?;
        let all = all.into_iter().map(|symbol| symbol.decode(architecture, &bytes)).collect();
        Ok(Self { architecture, build_id, all, path: file.to_owned() })
    }
}

/// The functions of a file, before their instructions are decoded.
#[derive(Debug)]
pub(super) struct Symbols {
    pub architecture: Architecture,
    pub build_id: Option<Vec<u8>>,
    /// The functions in the order of their addresses. Each address occurs once.
    pub all: Vec<Symbol>,
}

/// A function whose instructions are not decoded yet.
#[derive(Clone, Debug)]
pub(super) struct Symbol {
    pub name: Name,
    pub address: u64,
    pub size: u64,
    /// The place of its text in the file.
    text: Option<Range<usize>>,
    /// The number of bytes of text between it and the next function, up to [`BEHIND`].
    behind: usize,
}

impl Symbol {
    /// Decodes its instructions; `bytes` are those of the file.
    pub fn decode(self, architecture: Architecture, bytes: &[u8]) -> Function {
        let Self { name, address, size, text, behind } = self;
        let place = text.clone().and_then(|text| {
            Some((bytes.get(text.clone())?, bytes.get(text.end..text.end + behind)?))
        });
        let obstacle = match (size, place) {
            (0, _) => Obstacle::NoSize,
            (_, None) => Obstacle::NoText,
            (_, Some((text, behind))) => {
                let found = exits::find(architecture, address, text, behind);
                let Found { entry, returns, calls } = found;
                return Function { name, address, size, entry, returns, calls };
            }
        };
        let (entry, returns) = (Err(obstacle.clone()), Err(obstacle));
        Function { name, address, size, entry, returns, calls: BTreeSet::new() }
    }
}

/// Reads the symbols of a file with these bytes.
pub(super) fn read(bytes: &[u8]) -> Result<Symbols, ReadError> {
    let file = object::File::parse(bytes)?;
    if file.kind() == ObjectKind::Relocatable {
        return Err(ReadError::Relocatable);
    }
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
    // Symbols with the same address are names of one function. The longest size covers its whole text. Of several
    // names, the best known one has the fewest leading underscores: `free`, not `__libc_free`.
    let mut symbols: BTreeMap<(usize, u64), (u64, &str)> = BTreeMap::new();
    // The function of an indirect symbol only chooses one of several others.
    let is_indirect = |symbol: &object::Symbol<'_, '_>| matches!(symbol.flags(), SymbolFlags::Elf { st_info, .. } if st_info.st_type() == STT_GNU_IFUNC);
    let is_function = |symbol: &object::Symbol<'_, '_>| {
        symbol.kind() == SymbolKind::Text && symbol.is_definition() && !is_indirect(symbol)
    };
    for symbol in file.symbols().chain(file.dynamic_symbols()).filter(is_function) {
        let (Some(section), Ok(name)) = (symbol.section_index(), symbol.name()) else { continue };
        let section = section.0;
        if !texts.contains_key(&section) || is_label(name) {
            continue;
        }
        let entry = symbols.entry((section, symbol.address())).or_insert((symbol.size(), name));
        let rank = |(size, name): (u64, &str)| {
            let underscores = name.bytes().take_while(|byte| *byte == b'_').count();
            (Reverse(size), underscores, name.len())
        };
        if rank((symbol.size(), name)) < rank(*entry) {
            *entry = (symbol.size(), name);
        }
    }
    if symbols.is_empty() {
        return Err(ReadError::Stripped);
    }
    // The file may be that of a hostile process. Functions overlap in hand-written code only.
    let text: u64 = texts.values().map(|text| text.bytes.len() as u64).sum();
    let claimed = symbols.values().fold(0_u64, |sum, (size, _)| sum.saturating_add(*size));
    let names = symbols.values().map(|(_, name)| name.len()).sum();
    if claimed > text.saturating_mul(OVERLAP) || names > bytes.len() || names > NAMES {
        return Err(ReadError::Overlap(names));
    }
    let starts: Vec<(usize, u64)> = symbols.keys().copied().collect();
    let mut all: Vec<_> = symbols
        .into_iter()
        .enumerate()
        .map(|(index, ((section, address), (size, symbol)))| {
            let own = texts.get(&section);
            let text = own.and_then(|text| text.of(address, size));
            let start = text.map(|text| text.as_ptr().addr() - bytes.as_ptr().addr());
            let text = start.map(|start| start..start + size as usize);
            let end = address.saturating_add(size);
            let next = starts.get(index + 1).filter(|(of, _)| *of == section);
            let past = next.map_or(u64::MAX, |(_, address)| *address);
            let room = own.map_or(0, |own| own.end().min(past).saturating_sub(end));
            let behind = BEHIND.min(usize::try_from(room).unwrap_or(BEHIND));
            Symbol { name: Name::of(symbol, OTHER), address, size, text, behind }
        })
        .collect();
    all.sort_by_key(|function| function.address);
    let build_id = file.build_id()?.map(<[u8]>::to_vec);
    Ok(Symbols { architecture, build_id, all })
}

/// Returns whether a symbol does not name a function: mapping symbols such as `$x` and `$d`, and local labels (`.L`).
fn is_label(name: &str) -> bool {
    name.is_empty() || name.starts_with(['$', '.'])
}
