//! A linked program: its functions and its sites.

use std::ops::Range;

use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SectionKind, SymbolKind};

/// Name of the section that holds the sites' records.
const SITES: &str = "sdt_sites";

/// Size of a site's record in bytes.
const SITE_LEN: usize = 32;

/// The reason why a program cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The file is not a supported object file.
    #[error("the program cannot be read: {0}")]
    Object(#[from] object::Error),
    /// The size of the section of sites is not a multiple of the record size.
    #[error("{SITES} is {0} bytes long, which is no multiple of {SITE_LEN}")]
    RaggedSites(usize),
}

/// A function's symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its name, demangled, without a hash.
    pub name: String,
    /// Its address.
    pub address: u64,
    /// Its length in bytes.
    pub len: u64,
}

impl Symbol {
    /// Returns whether `address` is in the function.
    pub const fn contains(&self, address: u64) -> bool {
        self.address <= address && address < self.address + self.len
    }
}

/// A site, according to its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteRecord {
    /// Address of the probe's record.
    pub probe: u64,
    /// Address of the nop.
    pub patchpoint: u64,
    /// Address of the cold block.
    pub target: u64,
    /// The link, which is set at run time only.
    pub link: u64,
}

/// A section of text.
#[derive(Debug)]
struct Text {
    address: u64,
    bytes: Vec<u8>,
}

/// A linked program.
#[derive(Debug)]
pub struct Image {
    sections: Vec<(String, Range<u64>)>,
    functions: Vec<Symbol>,
    sites: Vec<SiteRecord>,
    text: Vec<Text>,
}

impl Image {
    /// Reads a program.
    ///
    /// The sites are those whose records are complete in the file. In a position-independent program, they are relocated when it
    /// is loaded, and all fields are 0 here.
    ///
    /// # Errors
    /// The file cannot be read, or the size of its sites is not a multiple of the record size.
    pub fn parse(bytes: &[u8]) -> Result<Self, ImageError> {
        let file = object::File::parse(bytes)?;
        let mut functions = Vec::new();
        for symbol in file.symbols().filter(|s| s.kind() == SymbolKind::Text && s.size() > 0) {
            let name = format!("{:#}", rustc_demangle::demangle(symbol.name()?));
            functions.push(Symbol { name, address: symbol.address(), len: symbol.size() });
        }
        functions.sort_by_key(|symbol| symbol.address);
        let mut text = Vec::new();
        let mut sections = Vec::new();
        for section in file.sections() {
            let end = section.address() + section.size();
            sections.push((section.name()?.to_owned(), section.address()..end));
        }
        for section in file.sections().filter(|section| section.kind() == SectionKind::Text) {
            text.push(Text { address: section.address(), bytes: section.data()?.to_vec() });
        }
        let records = file.section_by_name(SITES).map(|section| section.data()).transpose()?;
        let records = records.unwrap_or_default();
        let (sites, []) = records.as_chunks::<SITE_LEN>() else {
            return Err(ImageError::RaggedSites(records.len()));
        };
        let sites = sites.iter().map(|record| {
            let (words, _) = record.as_chunks::<8>();
            let word = |i: usize| u64::from_le_bytes(words[i]);
            SiteRecord { probe: word(0), patchpoint: word(1), target: word(2), link: word(3) }
        });
        Ok(Self { sections, functions, sites: sites.collect(), text })
    }

    /// The addresses of a section.
    pub fn section(&self, name: &str) -> Option<Range<u64>> {
        let (_, range) = self.sections.iter().find(|(section, _)| section == name)?;
        Some(range.clone())
    }

    /// All functions, by address.
    pub fn functions(&self) -> &[Symbol] {
        &self.functions
    }

    /// The function of this name: `None` if there is none, or more than one.
    pub fn function(&self, name: &str) -> Option<&Symbol> {
        let mut found = self.functions.iter().filter(|symbol| symbol.name == name);
        found.next().filter(|_| found.next().is_none())
    }

    /// The function at this address.
    pub fn function_at(&self, address: u64) -> Option<&Symbol> {
        self.functions.iter().find(|symbol| symbol.contains(address))
    }

    /// All sites, in the order of their records.
    pub fn sites(&self) -> &[SiteRecord] {
        &self.sites
    }

    /// The sites whose nops are in `function`.
    pub fn sites_in(&self, function: &Symbol) -> Vec<SiteRecord> {
        self.sites.iter().filter(|site| function.contains(site.patchpoint)).copied().collect()
    }

    /// The text from `address` on, `len` bytes of it.
    pub fn text(&self, address: u64, len: u64) -> Option<&[u8]> {
        self.text.iter().find_map(|text| {
            let start = usize::try_from(address.checked_sub(text.address)?).ok()?;
            text.bytes.get(start..start.checked_add(usize::try_from(len).ok()?)?)
        })
    }
}
