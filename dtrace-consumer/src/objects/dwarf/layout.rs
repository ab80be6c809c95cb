//! The layouts of structs and unions, for members behind pointers.
//!
//! The name of a struct in D is its path in the source. Each unit has its own description of a struct, and two units may have
//! different structs with one path. So structs with one path have one name only if their sizes and members are equal. This
//! comparison must be quick, as each pointer in each signature needs it: of the types of members, it compares names and sizes.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::rc::Rc;

use dtrace_compiler::declared::{Declarations, Field, Kind, Struct};
use dtrace_compiler::types::Text;

use super::signature::{Child, Entry, Reference};
use super::types::{DEEPEST, MEMBERS, Naming, is_slice_of_bytes};
use super::{Debug, Part, Result};
use crate::signature::{StructNames, Word};

/// The maximum number of members of a struct and of the structs in it.
const ALL_MEMBERS: usize = 8192;
/// The size of the largest struct in bytes.
const LARGEST: u64 = 1 << 30;
/// The maximum number of dimensions of an array.
const DIMENSIONS: usize = 3;
/// The crates of Rust's library, whose structs around one value, such as `Box` and `Cell`, are shown as the value.
const LIBRARY: [&str; 3] = ["alloc::", "core::", "std::"];

/// The name of the member of an enum with data that selects the variant.
const DISCRIMINANT: &str = "discriminant";
/// The struct of the halves of a number of 128 bits. No struct in C has this name.
const WIDE: &str = "__int128";

/// A type without its typedefs and qualifiers.
struct Stripped {
    at: Reference,
    tag: gimli::DwTag,
    entry: Entry,
    /// The last typedef.
    typedef: Option<String>,
}

const fn kind(tag: gimli::DwTag) -> Option<Kind> {
    match tag {
        gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type => Some(Kind::Struct),
        gimli::DW_TAG_union_type => Some(Kind::Union),
        _ => None,
    }
}

/// Returns whether a program in D can write this name of a member.
fn is_identifier(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

impl Debug {
    /// Sets the names of structs, which several files share.
    pub fn name_structs(&mut self, names: &Rc<StructNames>) {
        self.names = names.clone();
    }

    /// Returns the declaration of a struct or union by its name in D, such as `struct shop::Order`, and of those in it.
    pub fn declarations(&self, name: &str) -> Option<Declarations> {
        let &(start, at) = self.records.borrow().places.get(name)?;
        let unit = self.unit_at(start).ok()?;
        self.layout(&(unit, gimli::UnitOffset(at)), name).ok()
    }

    /// Returns the struct or union that a type is, and the name of the typedef for it.
    pub(super) fn record(
        &self,
        of: &Reference,
        depth: usize,
    ) -> Result<Option<(Reference, Option<String>)>> {
        let stripped = self.stripped(of, depth)?;
        Ok(stripped.filter(|of| kind(of.tag).is_some()).map(|of| (of.at, of.typedef)))
    }

    fn stripped(&self, of: &Reference, depth: usize) -> Result<Option<Stripped>> {
        let (mut at, mut typedef) = (of.clone(), None);
        for _ in depth..=DEEPEST {
            let (tag, entry) = self.entry_at(&at.0, at.1)?;
            match tag {
                gimli::DW_TAG_typedef => {
                    let name = entry.name.map(|name| self.text(&at.0.unit, name)).transpose()?;
                    typedef = name.or(typedef);
                }
                gimli::DW_TAG_const_type
                | gimli::DW_TAG_volatile_type
                | gimli::DW_TAG_restrict_type
                | gimli::DW_TAG_atomic_type => {}
                _ => return Ok(Some(Stripped { at, tag, entry, typedef })),
            }
            let next = entry.ty.as_ref().map(|to| self.refer(&at.0, to)).transpose()?.flatten();
            match next {
                Some(next) => at = next,
                None => break,
            }
        }
        Ok(None)
    }

    /// Returns the name in D of a struct or union: `struct shop::Order`; `None` if D cannot represent it. `fallback` is the name
    /// of one that has none in the source.
    pub(super) fn record_name(
        &self,
        at: &Reference,
        fallback: Option<&str>,
    ) -> Result<Option<String>> {
        let (unit, offset) = at;
        let place = (unit.start, offset.0);
        if let Some(known) = self.records.borrow().names.get(&place) {
            return Ok(known.clone());
        }
        let (tag, entry) = self.entry_at(unit, *offset)?;
        let Some(kind) = kind(tag) else { return Ok(None) };
        let has_size = entry.size.is_some_and(|size| (1..=LARGEST).contains(&size));
        if entry.is_declaration || !has_size {
            return Ok(None);
        }
        let own = entry.name.map(|name| self.text(&unit.unit, name)).transpose()?;
        let path = match (own, fallback) {
            (Some(name), _) => self.path(at, &name)?,
            (None, Some(fallback)) => fallback.to_owned(),
            (None, None) => return Ok(None),
        };
        let outline = self.outline(at).ok();
        let name = outline.map(|of| format!("{} {}", kind.word(), self.names.name(&path, of)));
        // The maps here and that of the names have the text four times at most.
        let bytes = 4 * (path.len() + size_of::<(String, usize, usize)>()) as u64;
        let name = name.filter(|_| self.meter.keep(bytes));
        let mut records = self.records.borrow_mut();
        if let Some(name) = &name {
            records.places.entry(name.clone()).or_insert(place);
        }
        records.names.insert(place, name.clone());
        Ok(name)
    }

    /// Returns a hash of the size and the members of a struct or union, with the names and the sizes of their types.
    fn outline(&self, at: &Reference) -> Result<u64> {
        let mut hasher = DefaultHasher::new();
        self.entry_at(&at.0, at.1)?.1.size.hash(&mut hasher);
        self.hash_members(at, 0, &mut hasher)?;
        Ok(hasher.finish())
    }

    /// Adds the members of a struct, of the part with its variants, or of a variant to a hash. All variants of an enum have
    /// structs of one size, so the members of these structs are added, too.
    fn hash_members(
        &self,
        (unit, at): &Reference,
        depth: usize,
        hasher: &mut DefaultHasher,
    ) -> Result<()> {
        if depth > DEEPEST {
            return Err(gimli::Error::Io);
        }
        let is_wanted = |tag| {
            matches!(
                tag,
                gimli::DW_TAG_member
                    | gimli::DW_TAG_inheritance
                    | gimli::DW_TAG_variant_part
                    | gimli::DW_TAG_variant
            )
        };
        let is_variant = self.entry_at(unit, *at)?.0 == gimli::DW_TAG_variant;
        let (_, members) = self.children(unit, *at, MEMBERS, is_wanted)?;
        members.len().hash(hasher);
        for Child { tag, at, entry } in members {
            let name = entry.name.map(|name| self.text(&unit.unit, name)).transpose()?;
            (tag.0, name, entry.offset, entry.discriminant).hash(hasher);
            if matches!(tag, gimli::DW_TAG_variant_part | gimli::DW_TAG_variant) {
                self.hash_members(&(unit.clone(), at), depth + 1, hasher)?;
                continue;
            }
            let mut next = entry.ty.as_ref().map(|to| self.refer(unit, to)).transpose()?.flatten();
            if let Some(of) = next.as_ref().filter(|_| is_variant) {
                self.hash_members(of, depth + 1, hasher)?;
            }
            // Pointers and arrays in C have no names.
            for _ in 0..DEEPEST {
                let Some((unit, at)) = next else { break };
                let (tag, ty) = self.entry_at(&unit, at)?;
                let name = ty.name.map(|name| self.text(&unit.unit, name)).transpose()?;
                let is_named = name.is_some();
                (tag.0, name, ty.size).hash(hasher);
                next = ty.ty.as_ref().map(|to| self.refer(&unit, to)).transpose()?.flatten();
                if is_named {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Returns the path of a type with this name in the source.
    fn path(&self, (unit, at): &Reference, name: &str) -> Result<String> {
        let mut path = name.to_owned();
        for at in self.namespaces(unit, *at)? {
            let name = self.entry_at(unit, at)?.1.name;
            let name = name.map(|name| self.text(&unit.unit, name)).transpose()?;
            path.insert_str(0, &format!("{}::", name.as_deref().unwrap_or("{anonymous}")));
        }
        Ok(path)
    }

    /// Returns the value that D shows for a type: a number, a pointer, or the value in a struct that only wraps it; `None` for
    /// other types.
    pub(super) fn scalar(
        &self,
        of: &Reference,
        depth: usize,
        naming: Naming,
    ) -> Result<Option<Word>> {
        let Some(Stripped { at, tag, entry, .. }) = self.stripped(of, depth)? else {
            return Ok(None);
        };
        match kind(tag) {
            None => {}
            Some(Kind::Union) => return Ok(None),
            Some(Kind::Struct) => {
                let name = entry.name.map(|name| self.text(&at.0.unit, name)).transpose()?;
                let path = name.map(|name| self.path(&at, &name)).transpose()?;
                let is_wrapper =
                    path.is_some_and(|path| LIBRARY.iter().any(|name| path.starts_with(name)));
                if !is_wrapper {
                    return self.newtype(&at, entry.size, depth, naming);
                }
            }
        }
        let (size, words) = self.words(of, depth, naming)?;
        Ok(words.ok().and_then(|words| match <[Word; 1]>::try_from(words) {
            Ok([word]) if word.offset == 0 && word.size == size => Some(word),
            _ => None,
        }))
    }

    /// Returns the value in a tuple struct around one value.
    fn newtype(
        &self,
        (unit, at): &Reference,
        size: Option<u64>,
        depth: usize,
        naming: Naming,
    ) -> Result<Option<Word>> {
        let is_member = |tag| matches!(tag, gimli::DW_TAG_member | gimli::DW_TAG_variant_part);
        let Ok((_, members)) = self.children(unit, *at, DEEPEST, is_member) else {
            return Ok(None);
        };
        let mut found = None;
        for child in members {
            let of = child.entry.ty.as_ref().map(|to| self.refer(unit, to)).transpose()?.flatten();
            let Some(of) = of.filter(|_| depth < DEEPEST) else { return Ok(None) };
            if self.words(&of, depth + 1, Naming::Void)?.0 == 0 {
                continue;
            }
            let name = child.entry.name.map(|name| self.text(&unit.unit, name)).transpose()?;
            let is_only = found.is_none() && child.entry.offset == Some(0);
            if !is_only || name.as_deref() != Some("__0") {
                return Ok(None);
            }
            found = Some(of);
        }
        let word = found.map(|of| self.scalar(&of, depth + 1, naming)).transpose()?.flatten();
        Ok(word.filter(|word| Some(word.size) == size))
    }

    /// Returns the places of the address and the length in a struct that is text: `&str`, `String`, or a slice or vector of bytes.
    fn text_in(&self, at: &Reference, depth: usize) -> Result<Option<Text>> {
        if depth > DEEPEST {
            return Ok(None);
        }
        let naming = Naming::Void;
        if self.is_slice(at)? {
            let words = self.words(at, depth, naming)?.1.ok();
            let words = words.filter(|words| is_slice_of_bytes(words));
            return Ok(
                words.map(|words| Text { address: words[0].offset, length: words[1].offset })
            );
        }
        let (unit, entry) = at;
        let is_member = |tag| tag == gimli::DW_TAG_member;
        let Ok((of, members)) = self.children(unit, *entry, DEEPEST, is_member) else {
            return Ok(None);
        };
        let name = of.name.map(|name| self.text(&unit.unit, name)).transpose()?.unwrap_or_default();
        let is_string = name == "String";
        if !(is_string || name.starts_with("Vec<")) || !self.path(at, &name)?.starts_with("alloc::")
        {
            return Ok(None);
        }
        let (mut address, mut length) = (None, None);
        for member in members.into_iter().map(|child| child.entry) {
            let name = member.name.map(|name| self.text(&unit.unit, name)).transpose()?;
            let of = member.ty.as_ref().map(|to| self.refer(unit, to)).transpose()?.flatten();
            let (Some(name), Some(of), Some(offset)) = (name, of, member.offset) else { continue };
            match &*name {
                "vec" if is_string => {
                    let text = self.text_in(&of, depth + 1)?;
                    return Ok(text.and_then(|text| {
                        let address = text.address.checked_add(offset)?;
                        Some(Text { address, length: text.length.checked_add(offset)? })
                    }));
                }
                "buf" => {
                    let words = self.words(&of, depth + 1, naming)?.1.unwrap_or_default();
                    let word = words.iter().find(|word| word.c_type == "uint8_t *");
                    address = word.and_then(|word| word.offset.checked_add(offset));
                }
                "len" => length = Some(offset),
                _ => {}
            }
        }
        Ok(address.zip(length).map(|(address, length)| Text { address, length }))
    }

    /// Returns the declaration of a struct or union with this name, and of those in it.
    fn layout(&self, at: &Reference, name: &str) -> Result<Declarations> {
        let (known, found) = (HashSet::new(), Declarations::default());
        let mut layout = Layout { debug: self, left: ALL_MEMBERS, known, found };
        layout.add(at, name, 0)?;
        Ok(layout.found)
    }
}

/// The declarations of a struct and of those in it, while they are read.
struct Layout<'d> {
    debug: &'d Debug,
    /// The number of members that may follow.
    left: usize,
    /// The structs that are declared, by their places.
    known: HashSet<(usize, usize)>,
    found: Declarations,
}

/// The type of a member: its size, the dimensions of an array, and the name of the type of an element; empty if D has none.
type MemberType = (u64, Vec<u64>, String);

impl Layout<'_> {
    /// Declares a struct or union.
    fn add(&mut self, at: &Reference, name: &str, depth: usize) -> Result<()> {
        let debug = self.debug;
        let (unit, offset) = at;
        if !self.known.insert((unit.start, offset.0)) {
            return Ok(());
        }
        let kind = kind(debug.entry_at(unit, *offset)?.0).ok_or(gimli::Error::Io)?;
        let is_wanted = |tag| {
            matches!(
                tag,
                gimli::DW_TAG_member | gimli::DW_TAG_inheritance | gimli::DW_TAG_variant_part
            )
        };
        let (entry, children) = debug.children(unit, *offset, MEMBERS, is_wanted)?;
        let size = entry.size.unwrap_or(0);
        let (text, fields, missing) = (debug.text_in(at, depth)?, Vec::new(), Vec::new());
        let name = name.to_owned();
        let mut of = Struct { kind, name, size, align: 1, fields, text, missing };
        for (child, index) in children.into_iter().zip(0_usize..) {
            self.left = self.left.checked_sub(1).ok_or(gimli::Error::Io)?;
            let member = child.entry;
            let text = |name| debug.text(&unit.unit, name);
            let name = member.name.clone().map(text).transpose()?.unwrap_or_default();
            let is_named = name.is_empty() || is_identifier(&name);
            if member.is_external || !is_named {
                continue;
            }
            if child.tag == gimli::DW_TAG_variant_part {
                let variants = self.variants(&(unit.clone(), child.at), of.tag(), size, depth)?;
                of.fields.push(variants);
                continue;
            }
            let fallback = match &*name {
                "" => format!("{}::{{{index}}}", of.tag()),
                name => format!("{}::{name}", of.tag()),
            };
            let found = self.member(at, &member, &fallback, depth)?;
            match found {
                Ok((size, dimensions, c_type)) => {
                    let offset = member.offset.unwrap_or(0);
                    of.fields.push(Field { name, offset, size, dimensions, c_type });
                }
                Err(why) => of.missing.push((name, why.to_owned())),
            }
        }
        of.fields.sort_by_key(|field| field.offset);
        let mut end = 0;
        for field in std::mem::take(&mut of.fields) {
            let behind = field.offset.checked_add(field.size).filter(|behind| *behind <= size);
            let is_free = match kind {
                Kind::Struct => field.offset >= end,
                Kind::Union => field.offset == 0,
            };
            match behind {
                Some(behind) if is_free => {
                    end = behind;
                    of.fields.push(field);
                }
                _ => of.missing.push((field.name, "it overlaps another member".to_owned())),
            }
        }
        self.found.structs.push(of);
        Ok(())
    }

    /// Declares a union of the variants of an enum with data and of its discriminant, and returns the member without a name that
    /// has them.
    fn variants(
        &mut self,
        (unit, part): &Reference,
        tag: &str,
        size: u64,
        depth: usize,
    ) -> Result<Field> {
        let debug = self.debug;
        let is_wanted = |tag| matches!(tag, gimli::DW_TAG_member | gimli::DW_TAG_variant);
        let refer = |to: &gimli::AttributeValue<Part>| debug.refer(unit, to);
        let mut fields = Vec::new();
        for child in debug.children(unit, *part, MEMBERS, is_wanted)?.1 {
            self.left = self.left.checked_sub(1).ok_or(gimli::Error::Io)?;
            let is_member = |tag| tag == gimli::DW_TAG_member;
            if child.tag == gimli::DW_TAG_member {
                let fallback = format!("{tag}::{DISCRIMINANT}");
                let Ok((own, dimensions, c_type)) =
                    self.member(&(unit.clone(), child.at), &child.entry, &fallback, depth)?
                else {
                    continue;
                };
                let (name, offset) = (DISCRIMINANT.to_owned(), child.entry.offset.unwrap_or(0));
                let field = Field { name, offset, size: own, dimensions, c_type };
                let end = offset.saturating_add(own);
                let of = structure(&format!("{tag}::{{{DISCRIMINANT}}}"), end, vec![field]);
                fields.push((String::new(), end, of.name.clone()));
                self.found.structs.push(of);
                continue;
            }
            let Ok((_, members)) = debug.children(unit, child.at, 1, is_member) else { continue };
            let Some(member) = members.into_iter().next().map(|child| child.entry) else {
                continue;
            };
            let name = member.name.map(|name| debug.text(&unit.unit, name)).transpose()?;
            let of = member.ty.as_ref().map(refer).transpose()?.flatten();
            let (Some(name), Some(of)) = (name.filter(|name| is_identifier(name)), of) else {
                continue;
            };
            let entry = debug.entry_at(&of.0, of.1)?.1;
            let Some(own) = entry.size.filter(|own| *own > 0 && depth < DEEPEST) else { continue };
            let is_any = |child: &Child| child.entry.ty.is_some();
            let has_data = debug.children(&of.0, of.1, MEMBERS, is_member)?.1.iter().any(is_any);
            if has_data {
                let c_type = format!("struct {tag}::{name}");
                self.add(&of, &c_type, depth + 1)?;
                fields.push((name, own, c_type));
            }
        }
        let fields = fields.into_iter().filter(|(_, own, _)| *own <= size);
        let field = |(name, size, c_type)| {
            let dimensions = Vec::new();
            Field { name, offset: 0, size, dimensions, c_type }
        };
        let c_type = format!("union {tag}::{{variants}}");
        let fields = fields.map(field).collect();
        let all = structure("", size, fields);
        self.found.structs.push(Struct { kind: Kind::Union, name: c_type.clone(), ..all });
        Ok(field((String::new(), size, c_type)))
    }

    /// Returns the type of a member, or why D has none for it.
    fn member(
        &mut self,
        (unit, _): &Reference,
        member: &Entry,
        fallback: &str,
        depth: usize,
    ) -> Result<std::result::Result<MemberType, &'static str>> {
        if member.is_bit_field {
            return Ok(Err("it is a bit-field"));
        }
        if member.is_computed {
            return Ok(Err("the debug information computes its offset"));
        }
        let refer = |to: &gimli::AttributeValue<Part>| self.debug.refer(unit, to);
        let Some(of) = member.ty.as_ref().map(refer).transpose()?.flatten() else {
            return Ok(Err("its type is unknown"));
        };
        let found = self.type_of(&of, fallback, depth)?;
        Ok(if found.0 == 0 { Err("it has no data, or its size is unknown") } else { Ok(found) })
    }

    fn type_of(&mut self, of: &Reference, fallback: &str, depth: usize) -> Result<MemberType> {
        let nothing = (0, Vec::new(), String::new());
        if depth > DEEPEST {
            return Ok(nothing);
        }
        if let Some(word) = self.debug.scalar(of, 0, Naming::Own)? {
            return Ok((word.size, Vec::new(), word.c_type));
        }
        let Some(Stripped { at, tag, entry, typedef }) = self.debug.stripped(of, 0)? else {
            return Ok(nothing);
        };
        if tag == gimli::DW_TAG_array_type {
            let is_dimension = |tag| tag == gimli::DW_TAG_subrange_type;
            let Ok((_, all)) = self.debug.children(&at.0, at.1, DIMENSIONS, is_dimension) else {
                return Ok(nothing);
            };
            let counts = all.into_iter().map(|child| child.entry.count);
            let refer = |to: &gimli::AttributeValue<Part>| self.debug.refer(&at.0, to);
            let element = entry.ty.as_ref().map(refer).transpose()?.flatten();
            let (Some(mut counts), Some(element)) = (counts.collect::<Option<Vec<_>>>(), element)
            else {
                return Ok(nothing);
            };
            let (each, inner, c_type) = self.type_of(&element, fallback, depth + 1)?;
            let count = counts.iter().try_fold(1_u64, |all, count| all.checked_mul(*count));
            let Some(size) = count.and_then(|count| count.checked_mul(each)) else {
                return Ok(nothing);
            };
            counts.extend(inner);
            return Ok((size, counts, c_type));
        }
        if kind(tag).is_some() {
            let fallback = typedef.as_deref().or(Some(fallback));
            let name = self.debug.record_name(&at, fallback)?;
            let Some(name) = name else {
                return Ok((entry.size.unwrap_or(0), Vec::new(), String::new()));
            };
            self.add(&at, &name, depth + 1)?;
            return Ok((entry.size.unwrap_or(0), Vec::new(), name));
        }
        let size = self.debug.words(of, 0, Naming::Own)?.0;
        let is_number =
            matches!(entry.encoding, Some(gimli::DW_ATE_signed | gimli::DW_ATE_unsigned));
        let c_type = match (entry.encoding, size) {
            (Some(gimli::DW_ATE_float), 4) => "float".to_owned(),
            (Some(gimli::DW_ATE_float), 8) => "double".to_owned(),
            (_, 16) if is_number => self.wide(),
            _ => String::new(),
        };
        Ok((size, Vec::new(), c_type))
    }

    /// Declares the halves of a number of 128 bits, and returns the name of the struct.
    fn wide(&mut self) -> String {
        if !self.found.structs.iter().any(|of| of.name == format!("struct {WIDE}")) {
            let half = |(name, offset): (&str, u64)| Field {
                name: name.to_owned(),
                offset,
                size: 8,
                dimensions: Vec::new(),
                c_type: "uint64_t".to_owned(),
            };
            let halves = [("low", 0), ("high", 8)].map(half).to_vec();
            self.found.structs.push(structure(WIDE, 16, halves));
        }
        format!("struct {WIDE}")
    }
}

/// Creates a struct.
fn structure(tag: &str, size: u64, fields: Vec<Field>) -> Struct {
    let name = format!("struct {tag}");
    Struct { kind: Kind::Struct, name, size, align: 1, fields, text: None, missing: Vec::new() }
}
