//! The declarations of an image for D programs: structs and enums of its probes, and translators.
//!
//! For images in C, D gets types from CTF. Images in Rust have no CTF, but text that `sdt-core`'s `#[derive(CType)]`,
//! `#[derive(Argument)]` and `sdt_translator!` emit into a section (documented in `sdt_core::layout`): lines of words
//! separated by tabs. NULs are ignored. A kernel sends it to consumers, which pass it to
//! [`Compiler::module`](crate::Compiler::module).
//!
//! ```text
//! provider  NAME
//! probe     PROVIDER    NAME
//! argument  NAME        WORDS   TYPE       TYPE
//! struct    C_NAME      SIZE    ALIGNMENT
//! union     C_NAME      SIZE    ALIGNMENT
//! field     C_NAME      OFFSET  SIZE       DIMENSIONS  ELEMENT_TYPE
//! enum      C_NAME
//! constant  C_NAME      VALUE
//! text      LINE_OF_D
//! ```

mod constants;
mod define;

use crate::types::Text;

pub use constants::constants;
pub(crate) use define::{Keep, define};

/// The reason why the declarations of an image are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeclaredError {
    /// A line has a form that `sdt-core` does not write.
    #[error(
        "line {number} of its declarations, {line:?}, has an unknown form: build it with the \
         sdt-core of this release"
    )]
    Line {
        /// The number of the line, from 1.
        number: usize,
        /// The text.
        line: String,
    },
    /// Two structs or enums have one name.
    #[error(
        "two different structs or enums have the C name {0}: rename one with `#[c_name = \"...\"]`"
    )]
    Clash(String),
    /// Two constants have one name.
    #[error("two constants have the C name {0}: rename one with `#[c_name = \"...\"]`")]
    Constant(String),
    /// A field of a struct ends beyond the struct, or overlaps another field.
    #[error(
        "the fields of {0} overlap, or end beyond its size: correct its implementation of \
             `CType`"
    )]
    Overlap(String),
    /// Structs, pointers or arrays within each other have more than 256 levels.
    #[error(
        "{0} has more than 256 levels of structs, arrays or pointers: make an inner type \
             opaque with `#[c_type(opaque)]`"
    )]
    Deep(String),
    /// Structs contain each other.
    #[error("{0} contains itself by value: correct its implementation of `CType`")]
    Endless(String),
}

/// The number of dimensions in the description of each field.
const DIMENSIONS: usize = 3;

/// Returns declarations for every kernel that supports D's variables for the running process and the CPU: `psinfo_t`,
/// `lwpsinfo_t`, `cpuinfo_t`, `curpsinfo`, `curlwpsinfo`, `curcpu` and the related ones of illumos, based on these variables.
pub fn processes() -> Vec<u8> {
    let lines = include_str!("process.d").lines();
    lines.flat_map(|line| [b"text\t", line.as_bytes(), b"\n"].concat()).collect()
}

/// The declarations of modules: providers, structs and enums.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declarations {
    /// The names of the module's providers, without duplicates. Empty for several modules.
    pub providers: Vec<String>,
    /// The probes whose arguments have names, each once. Probes with contradicting declarations are left out.
    pub probes: Vec<Probe>,
    /// Their structs and unions, each once.
    pub structs: Vec<Struct>,
    /// Their enums, each once.
    pub enums: Vec<Enum>,
    /// Text in D: translators, inlines, types.
    pub text: String,
}

/// A probe whose arguments have names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Its provider.
    pub provider: String,
    /// Its name, as DTrace lists it.
    pub name: String,
    /// Its arguments, in order.
    pub arguments: Vec<Named>,
}

/// An argument with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The name in Rust, without `r#`; empty if it is no name in D.
    pub name: String,
    /// The number of D's arguments that it occupies: 1 or 2.
    pub words: usize,
    /// The C type of each word as the probe passes it; empty in an image with a framework, whose records have the types.
    pub types: Vec<String>,
}

impl Named {
    /// Returns whether the types are known.
    pub const fn is_typed(&self) -> bool {
        !self.types.is_empty()
    }

    fn new(name: &str, words: &str, types: &[&str]) -> Option<Self> {
        let words = words.parse().ok()?;
        let types: Vec<_> =
            types.iter().filter(|ty| !ty.is_empty()).map(|&ty| ty.to_owned()).collect();
        let is_good = (name.is_empty() || is_identifier(name))
            && (1..=2).contains(&words)
            && (types.is_empty() || types.len() == words)
            && types.iter().all(|ty| is_type(ty));
        is_good.then(|| Self { name: name.to_owned(), words, types })
    }
}

/// An enum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enum {
    /// The name in D: `enum link_state`, or the name of a typedef without `enum`.
    pub name: String,
    /// Its constants, in order: name and value.
    pub constants: Vec<(String, i32)>,
}

impl Enum {
    /// Returns the name without `enum`.
    pub fn tag(&self) -> &str {
        self.name.strip_prefix("enum ").unwrap_or(&self.name)
    }

    /// Returns whether the name is that of a typedef.
    pub fn is_typedef(&self) -> bool {
        self.tag() == self.name
    }
}

/// A struct or a union.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Struct {
    /// Whether it is a struct or a union.
    pub kind: Kind,
    /// The name in D: `struct packet`, or the name of a typedef without `struct`.
    pub name: String,
    /// The size in bytes.
    pub size: u64,
    /// The alignment in bytes.
    pub align: u64,
    /// In order of their offsets.
    pub fields: Vec<Field>,
    /// The places of an address and a length, if the data are text: a string in D.
    pub text: Option<Text>,
    /// The names of the fields that D cannot represent, with the reason.
    pub missing: Vec<(String, String)>,
}

/// The kinds of types with fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Fields with different offsets.
    Struct,
    /// Fields that share their memory.
    Union,
}

impl Kind {
    /// Returns the keyword in C.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Struct => "struct",
            Self::Union => "union",
        }
    }
}

/// A field of a struct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name; empty if it has none, as the structs and unions in C whose members belong to the outer one.
    pub name: String,
    /// The offset in the struct in bytes.
    pub offset: u64,
    /// The size of all elements in bytes.
    pub size: u64,
    /// The number of elements in each dimension, the outermost first; empty if it is no array.
    pub dimensions: Vec<u64>,
    /// The C type of one element.
    pub c_type: String,
}

impl Struct {
    /// Returns the name without `struct` or `union`.
    pub fn tag(&self) -> &str {
        let tag = self.name.strip_prefix(self.kind.word()).and_then(|tag| tag.strip_prefix(' '));
        tag.unwrap_or(&self.name)
    }

    /// Returns whether the name is that of a typedef.
    pub fn is_typedef(&self) -> bool {
        self.tag() == self.name
    }

    fn new(kind: Kind, [name, size, align]: [&str; 3]) -> Option<Self> {
        let of = Self {
            kind,
            name: name.to_owned(),
            size: size.parse().ok()?,
            align: align.parse().ok()?,
            fields: Vec::new(),
            text: None,
            missing: Vec::new(),
        };
        is_identifier(of.tag()).then_some(of)
    }
}

/// Returns whether a word is a name in C. Other words are refused, because they could be read as other D code.
fn is_identifier(word: &str) -> bool {
    let mut bytes = word.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Returns whether a provider can have this name, which may contain dashes and dots.
fn is_provider(name: &str) -> bool {
    is_identifier(&name.replace(['-', '.'], "_"))
}

/// Returns whether an enum can have this name: `enum state` or `state_t`.
fn is_enum(name: &str) -> bool {
    is_identifier(name.strip_prefix("enum ").unwrap_or(name))
}

/// Returns whether a text is a type: names, and stars after or between them.
fn is_type(text: &str) -> bool {
    let mut words = text.split([' ', '*']);
    words.next().is_some_and(is_identifier)
        && words.all(|word| word.is_empty() || is_identifier(word))
}

impl Declarations {
    /// Parses the declarations of an image.
    ///
    /// # Errors
    /// If a line has an unknown form, or two objects have one name.
    pub fn parse(text: &[u8]) -> Result<Self, DeclaredError> {
        let text: Vec<u8> = text.iter().copied().filter(|&byte| byte != 0).collect();
        let text = String::from_utf8_lossy(&text);
        let mut description = Self::default();
        for (index, line) in text.lines().enumerate() {
            description
                .line(&line.split('\t').collect::<Vec<_>>())
                .ok_or_else(|| DeclaredError::Line { number: index + 1, line: line.to_owned() })?;
        }
        description.settle()?;
        Ok(description)
    }

    fn line(&mut self, words: &[&str]) -> Option<()> {
        match *words {
            ["provider", name] if is_provider(name) => self.providers.push(name.to_owned()),
            ["probe", provider, name] if is_provider(provider) && is_provider(name) => {
                self.probes.push(Probe {
                    provider: provider.to_owned(),
                    name: name.to_owned(),
                    arguments: Vec::new(),
                });
            }
            ["argument", name, words, ref types @ ..] => {
                self.probes.last_mut()?.arguments.push(Named::new(name, words, types)?);
            }
            ["struct", name, size, align] => {
                self.structs.push(Struct::new(Kind::Struct, [name, size, align])?);
            }
            ["union", name, size, align] => {
                self.structs.push(Struct::new(Kind::Union, [name, size, align])?);
            }
            ["field", name, offset, size, dimensions, c_type]
                if is_identifier(name) && is_type(c_type) =>
            {
                let dimensions = dimensions.split(' ').map(str::parse);
                let dimensions = dimensions.collect::<Result<Vec<u64>, _>>().ok()?;
                (dimensions.len() <= DIMENSIONS).then_some(())?;
                self.structs.last_mut()?.fields.push(Field {
                    name: name.to_owned(),
                    offset: offset.parse().ok()?,
                    size: size.parse().ok()?,
                    dimensions: dimensions.into_iter().take_while(|&count| count != 0).collect(),
                    c_type: c_type.to_owned(),
                });
            }
            ["enum", name] if is_enum(name) => {
                self.enums.push(Enum { name: name.to_owned(), constants: Vec::new() });
            }
            ["constant", name, value] if is_identifier(name) => {
                let constant = (name.to_owned(), value.parse().ok()?);
                self.enums.last_mut()?.constants.push(constant);
            }
            ["text", ref parts @ ..] => {
                let line = parts.join("\t");
                if line.chars().any(|c| c.is_control() && c != '\t') {
                    return None;
                }
                self.text.push_str(&line);
                self.text.push('\n');
            }
            _ => return None,
        }
        Some(())
    }

    /// Sorts all declarations, and removes duplicates.
    ///
    /// # Errors
    /// If two different objects have one name.
    pub fn settle(&mut self) -> Result<(), DeclaredError> {
        self.providers.sort();
        self.providers.dedup();
        self.settle_probes();
        for of in &mut self.structs {
            of.fields.sort_by_key(|field| field.offset);
        }
        self.structs.sort_by(|a, b| a.tag().cmp(b.tag()));
        self.structs.dedup();
        self.enums.sort_by(|a, b| a.tag().cmp(b.tag()));
        self.enums.dedup();
        // Structs and enums share a namespace, as in C.
        let structs = self.structs.iter().map(|of| (of.tag(), &of.name));
        let mut names: Vec<_> =
            structs.chain(self.enums.iter().map(|of| (of.tag(), &of.name))).collect();
        names.sort_by_key(|(tag, _)| *tag);
        if let Some(two) = names.windows(2).find(|two| two[0].0 == two[1].0) {
            return Err(DeclaredError::Clash(two[0].1.clone()));
        }
        let mut constants: Vec<_> =
            self.enums.iter().flat_map(|of| of.constants.iter().map(|(name, _)| name)).collect();
        constants.sort();
        match constants.windows(2).find(|two| two[0] == two[1]) {
            Some(two) => Err(DeclaredError::Constant(two[0].clone())),
            None => Ok(()),
        }
    }

    /// Sorts the probes, and removes duplicates. Also removes probes with contradicting declarations, whose names are
    /// ambiguous.
    fn settle_probes(&mut self) {
        self.probes.sort_by(|a, b| (&a.provider, &a.name).cmp(&(&b.provider, &b.name)));
        self.probes.dedup();
        let is_one = |one: &Probe, other: &Probe| {
            (&one.provider, &one.name) == (&other.provider, &other.name)
        };
        let all = std::mem::take(&mut self.probes);
        let groups = all.chunk_by(is_one).filter(|group| group.len() == 1);
        self.probes = groups.flatten().cloned().collect();
    }
}
