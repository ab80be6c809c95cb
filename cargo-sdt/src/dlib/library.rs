//! The text of a D library.
//!
//! D lays out structs by C's rules, except that it omits the padding at the end. So the library fills every gap with bytes,
//! and declares each field with a type that C places at the field's offset in Rust, or as bytes if there is no such type.
//!
//! D refuses to start when two libraries define the same struct. Its only guard is `depends_on`, which loads a library only
//! if a provider exists. D accepts pointers to structs that it does not know. The library declares their names first, because
//! D forgets a name at the end of the definition in which it first occurs (`dt_decl_type` of libdtrace's `dt_decl.c`). If the
//! kernel's types contain the struct, the declaration has no effect.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use dtrace_compiler::declared::{Declarations, DeclaredError, Enum, Field, Kind, Struct};

use super::{DlibError, arguments};
use crate::platform::Os;

/// Bytes of a pointer.
const POINTER: u64 = 8;

/// Types that D knows by itself (`usr/src/lib/libdtrace/common/dt_open.c`, and the same in FreeBSD's contrib): name,
/// size, and how they are written here.
pub(super) const KNOWN: [(&str, u64, &str); 20] = [
    ("char", 1, "char"),
    ("int8_t", 1, "int8_t"),
    ("uint8_t", 1, "uint8_t"),
    ("_Bool", 1, "uint8_t"),
    // `bool` comes from the kernel's own types, where there are any.
    ("bool", 1, "uint8_t"),
    ("short", 2, "short"),
    ("int16_t", 2, "int16_t"),
    ("uint16_t", 2, "uint16_t"),
    ("int", 4, "int"),
    ("unsigned int", 4, "unsigned int"),
    ("int32_t", 4, "int32_t"),
    ("uint32_t", 4, "uint32_t"),
    ("long", 8, "long"),
    ("unsigned long", 8, "unsigned long"),
    ("int64_t", 8, "int64_t"),
    ("uint64_t", 8, "uint64_t"),
    ("intptr_t", 8, "intptr_t"),
    ("uintptr_t", 8, "uintptr_t"),
    ("size_t", 8, "unsigned long"),
    ("ssize_t", 8, "long"),
];

/// The library for modules called `modules` on `os`. D loads it while all of the described providers are there.
///
/// # Errors
/// A described struct cannot exist.
pub fn render(description: &Declarations, modules: &str, os: Os) -> Result<String, DlibError> {
    let inlines = arguments::inlines(description, os);
    let mut library = Library::new(description);
    for of in &description.structs {
        library.define(of)?;
    }
    let mut text = format!(
        "/*\n * The structs, enums and arguments of the probes of {modules}.\n \
         * Made by cargo sdt dlib; not to be edited.\n */\n"
    );
    let line = |text: &mut String, line: String| {
        writeln!(text, "{line}").expect("strings take writes");
    };
    for ty in inlines.iter().filter_map(|inline| inline.points_to.as_deref()) {
        if !library.structs.contains_key(ty) {
            library.foreign.insert(ty);
        }
    }
    for provider in &description.providers {
        line(&mut text, format!("#pragma D depends_on provider {provider}"));
    }
    if library.needs_kernel {
        let kernel = match os {
            Os::FreeBsd => "kernel",
            Os::Illumos => "genunix",
        };
        line(&mut text, format!("#pragma D depends_on module {kernel}"));
    }
    text.push('\n');
    for of in &description.structs {
        let tag = of.tag();
        let word = of.kind.word();
        let typedef = format!("typedef {word} {tag} {tag};");
        line(&mut text, if of.is_typedef() { typedef } else { format!("{word} {tag};") });
    }
    for foreign in &library.foreign {
        line(&mut text, format!("{foreign};"));
    }
    for of in &description.enums {
        if !text.ends_with("\n\n") {
            text.push('\n');
        }
        line(&mut text, enumeration(of));
    }
    text.push_str(&library.text);
    text.push_str(&arguments::render(&inlines));
    if !description.text.is_empty() {
        text.push('\n');
        text.push_str(&description.text);
    }
    Ok(text)
}

/// The definition of an enum. D takes no comma at its end.
fn enumeration(of: &Enum) -> String {
    let constants: Vec<_> =
        of.constants.iter().map(|(name, value)| format!("\n\t{name} = {value}")).collect();
    let (tag, constants) = (of.tag(), constants.join(","));
    match of.is_typedef() {
        true => format!("typedef enum {tag} {{{constants}\n}} {tag};"),
        false => format!("enum {tag} {{{constants}\n}};"),
    }
}

/// A library under construction.
struct Library<'a> {
    structs: BTreeMap<&'a str, &'a Struct>,
    /// Structs that are defined, with the alignment that C gives them.
    defined: BTreeMap<&'a str, u64>,
    /// Structs whose definition has begun.
    begun: BTreeSet<&'a str>,
    /// Structs and unions that only pointers refer to.
    foreign: BTreeSet<&'a str>,
    /// Whether there are types that D can only have from the kernel.
    needs_kernel: bool,
    text: String,
}

/// The type of a field's element, as C has it.
struct Element {
    written: String,
    size: u64,
    align: u64,
}

impl<'a> Library<'a> {
    fn new(description: &'a Declarations) -> Self {
        Self {
            structs: description.structs.iter().map(|of| (&*of.name, of)).collect(),
            defined: BTreeMap::new(),
            begun: BTreeSet::new(),
            foreign: BTreeSet::new(),
            needs_kernel: false,
            text: String::new(),
        }
    }

    /// Defines a struct, after those that it contains. Returns its alignment.
    fn define(&mut self, of: &'a Struct) -> Result<u64, DlibError> {
        if let Some(&align) = self.defined.get(&*of.name) {
            return Ok(align);
        }
        if !self.begun.insert(&of.name) {
            return Err(DeclaredError::Endless(of.name.clone()).into());
        }
        let overlap = || DlibError::from(DeclaredError::Overlap(of.name.clone()));
        let mut members = String::new();
        let (mut end, mut largest, mut pads) = (0, 1, 0);
        for field in of.fields.iter().filter(|field| field.size > 0) {
            if of.kind == Kind::Union {
                // All in one place; the rest behind the largest is to be filled.
                if field.offset != 0 {
                    return Err(overlap());
                }
            } else {
                let gap = field.offset.checked_sub(end).ok_or_else(overlap)?;
                pad(&mut members, of, gap, &mut pads);
            }
            let element = self.element(of, field)?;
            let fits = element.filter(|element| field.offset.is_multiple_of(element.align));
            largest = largest.max(fits.as_ref().map_or(1, |element| element.align));
            members.push_str(&member(field, fits.as_ref()));
            end = end.max(field.offset.checked_add(field.size).ok_or_else(overlap)?);
        }
        let gap = of.size.checked_sub(end).ok_or_else(overlap)?;
        let fill = if of.kind == Kind::Union && gap > 0 { of.size } else { gap };
        pad(&mut members, of, fill, &mut pads);
        if of.size > 0 {
            writeln!(self.text, "\n{} {} {{\n{members}}};", of.kind.word(), of.tag())
                .expect("strings take writes");
        }
        self.defined.insert(&of.name, largest);
        Ok(largest)
    }

    /// The type of a field's elements; `None` if D cannot be told of it.
    fn element(&mut self, of: &Struct, field: &'a Field) -> Result<Option<Element>, DlibError> {
        let name = &*field.c_type;
        let element = if let Some(to) = name.strip_suffix('*') {
            let to = to.trim_end_matches(['*', ' ']);
            let stars = &name[to.len()..];
            let known = KNOWN.iter().find(|(known, ..)| *known == to);
            if known.is_none() && to != "void" && !self.structs.contains_key(to) {
                if to.starts_with("struct ") || to.starts_with("union ") {
                    self.foreign.insert(to);
                } else {
                    self.needs_kernel = true;
                }
            }
            let to = known.map_or(to, |(_, _, written)| written);
            Element { written: format!("{to}{stars}"), size: POINTER, align: POINTER }
        } else if let Some(&(_, size, written)) = KNOWN.iter().find(|(known, ..)| *known == name) {
            Element { written: written.to_owned(), size, align: size }
        } else if let Some(&inner) = self.structs.get(name) {
            let align = self.define(inner)?;
            Element { written: name.to_owned(), size: inner.size, align }
        } else {
            return Ok(None);
        };
        let count = field.dimensions.iter().try_fold(1, |all: u64, &count| all.checked_mul(count));
        if count.and_then(|count| count.checked_mul(element.size)) != Some(field.size) {
            return Err(DlibError::Size {
                of: of.name.clone(),
                field: field.name.clone(),
                size: field.size,
                c_type: name.to_owned(),
            });
        }
        Ok(Some(element))
    }
}

/// The declaration of a field, as its type or as bytes.
fn member(field: &Field, element: Option<&Element>) -> String {
    let name = &field.name;
    match element {
        Some(Element { written, .. }) => {
            let blank = if written.ends_with('*') { "" } else { " " };
            let dimensions = field.dimensions.iter().map(|count| format!("[{count}]"));
            format!("\t{written}{blank}{name}{};\n", dimensions.collect::<String>())
        }
        None => format!("\tuint8_t {name}[{}];\t/* {} */\n", field.size, field.c_type),
    }
}

/// Fills a gap in front of a field, or at the end of a struct.
fn pad(members: &mut String, of: &Struct, gap: u64, pads: &mut usize) {
    if gap == 0 {
        return;
    }
    let is_taken = |name: &str| of.fields.iter().any(|field| field.name == name);
    let mut name = format!("__pad{pads}");
    while is_taken(&name) {
        *pads += 1;
        name = format!("__pad{pads}");
    }
    *pads += 1;
    writeln!(members, "\tuint8_t {name}[{gap}];").expect("strings take writes");
}
