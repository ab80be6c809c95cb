//! The types of parameters and results, as D can represent them.

use std::rc::Rc;

use gimli::{AttributeValue, UnitOffset};

use super::signature::Reference;
use super::{Debug, Part as Section, Result, Unit};
use crate::signature::{Type, Word};

/// The maximum number of types within or behind another one that are followed.
pub(super) const DEEPEST: usize = 24;
/// The maximum number of members of a struct that are examined.
pub(super) const MEMBERS: usize = 1024;
/// The most values of a parameter that have an argument each.
const WORDS: usize = 2;
/// The size of a pointer in bytes.
pub(super) const POINTER: u64 = 8;

/// Typedefs whose names are types in D.
const KNOWN: [&str; 13] = [
    "size_t",
    "ssize_t",
    "uintptr_t",
    "intptr_t",
    "uint8_t",
    "uint16_t",
    "uint32_t",
    "uint64_t",
    "int8_t",
    "int16_t",
    "int32_t",
    "int64_t",
    "pid_t",
];

const SEVERAL: &str = "its type has more than two values";
const DEEP: &str = "its type is nested too deeply";
const DATA: &str = "its type is an enum with data";

/// The names of structs behind pointers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Naming {
    /// The names that they have in D.
    Own,
    /// `void`, where the names do not matter.
    Void,
}

pub(super) type Words = std::result::Result<Vec<Word>, &'static str>;

/// Returns a type of one value.
fn one(size: u64, c_type: impl Into<String>) -> (u64, Words) {
    (size, Ok(vec![Word { offset: 0, size, c_type: c_type.into(), is_flag: false }]))
}

impl Debug {
    /// Returns the type to which an attribute of an entry refers.
    pub(super) fn type_of(&self, unit: &Rc<Unit>, to: &AttributeValue<Section>) -> Result<Type> {
        let Some(at) = self.refer(unit, to)? else { return Err(gimli::Error::Io) };
        let name = self.entry_at(&at.0, at.1)?.1.name;
        let name = name.map(|name| self.text(&at.0.unit, name)).transpose()?;
        let (size, mut words) = self.words(&at, 0, Naming::Own)?;
        let is_text =
            words.as_ref().is_ok_and(|words| is_slice_of_bytes(words)) && self.is_slice(&at)?;
        let name = match (name, &words) {
            (Some(name), _) => name,
            (None, Ok(words)) if words.len() == 1 => words[0].c_type.clone(),
            _ => "a type without a name".to_owned(),
        };
        if is_text
            && name.ends_with("str")
            && let Ok(words) = &mut words
        {
            words[0].c_type = "char *".to_owned();
        }
        Ok(Type { name, size, words, is_text })
    }

    /// Returns the size and the values of a type. `naming` is how structs behind pointers are named.
    pub(super) fn words(
        &self,
        (unit, at): &Reference,
        depth: usize,
        naming: Naming,
    ) -> Result<(u64, Words)> {
        if depth > DEEPEST {
            return Ok((0, Err(DEEP)));
        }
        let (tag, entry) = self.entry_at(unit, *at)?;
        let size = entry.size.unwrap_or(0);
        let inner = || entry.ty.as_ref().map(|to| self.refer(unit, to)).transpose();
        Ok(match tag {
            gimli::DW_TAG_base_type => {
                let name = entry.name.map(|name| self.text(&unit.unit, name)).transpose()?;
                base(name.as_deref().unwrap_or_default(), entry.encoding, size)
            }
            gimli::DW_TAG_pointer_type
            | gimli::DW_TAG_reference_type
            | gimli::DW_TAG_rvalue_reference_type => {
                let target = match inner()?.flatten() {
                    Some(target) => self.target(&target, depth + 1, naming)?,
                    None => "void".to_owned(),
                };
                one(entry.size.unwrap_or(POINTER), pointer_to(&target))
            }
            gimli::DW_TAG_typedef
            | gimli::DW_TAG_const_type
            | gimli::DW_TAG_volatile_type
            | gimli::DW_TAG_restrict_type
            | gimli::DW_TAG_atomic_type => {
                let Some(of) = inner()?.flatten() else { return Ok((0, Ok(Vec::new()))) };
                let (size, mut words) = self.words(&of, depth + 1, naming)?;
                let name = entry.name.map(|name| self.text(&unit.unit, name)).transpose()?;
                if let (Some(name), Ok(words)) = (name, &mut words)
                    && let [word] = &mut words[..]
                    && KNOWN.contains(&&*name)
                {
                    word.c_type = name;
                }
                (size, words)
            }
            gimli::DW_TAG_enumeration_type => {
                let (size, mut words) = match inner()?.flatten() {
                    Some(of) => self.words(&of, depth + 1, naming)?,
                    None => one(size, unsigned(size)),
                };
                if let Ok(words) = &mut words
                    && let [word] = &mut words[..]
                {
                    let is_constant = |tag| tag == gimli::DW_TAG_enumerator;
                    word.is_flag = size == 1 && self.children(unit, *at, 2, is_constant).is_ok();
                }
                (size, words)
            }
            gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type => {
                (size, self.members(unit, *at, size, depth, naming)?)
            }
            gimli::DW_TAG_union_type => (size, Err("its type is a union")),
            gimli::DW_TAG_array_type => (size, Err("its type is an array")),
            _ => (size, Err("its type has no values that D can represent")),
        })
    }

    /// Returns the values in the members of a struct of this size.
    fn members(
        &self,
        unit: &Rc<Unit>,
        at: UnitOffset,
        size: u64,
        depth: usize,
        naming: Naming,
    ) -> Result<Words> {
        let is_member = |tag| matches!(tag, gimli::DW_TAG_member | gimli::DW_TAG_variant_part);
        let Ok((_, members)) = self.children(unit, at, MEMBERS, is_member) else {
            return Ok(Err(SEVERAL));
        };
        let mut all: Vec<Word> = Vec::new();
        for child in members {
            let member = child.entry;
            if child.tag == gimli::DW_TAG_variant_part {
                let words = self.nullable(unit, child.at, size, depth, naming)?;
                return Ok(words.ok_or(DATA));
            }
            if member.is_external {
                continue;
            }
            if member.is_bit_field {
                return Ok(Err("its type has bit-fields"));
            }
            let of = member.ty.as_ref().map(|to| self.refer(unit, to)).transpose()?.flatten();
            let Some(of) = of else { return Ok(Err("the type of a member is unknown")) };
            let (_, words) = self.words(&of, depth + 1, naming)?;
            let offset = member.offset.unwrap_or(0);
            match words {
                Ok(words) => all.extend(
                    words
                        .into_iter()
                        .map(|word| Word { offset: word.offset.saturating_add(offset), ..word }),
                ),
                Err(why) => return Ok(Err(why)),
            }
            if all.len() > WORDS {
                return Ok(Err(SEVERAL));
            }
        }
        all.sort_by_key(|word| word.offset);
        Ok(Ok(all))
    }

    /// Returns the values of an enum that is a pointer or NULL, such as `Option<&T>`: of two variants, one has no data and the
    /// discriminant 0, and the other begins with a pointer in the place of the discriminant.
    fn nullable(
        &self,
        unit: &Rc<Unit>,
        part: UnitOffset,
        size: u64,
        depth: usize,
        naming: Naming,
    ) -> Result<Option<Vec<Word>>> {
        let is_wanted = |tag| matches!(tag, gimli::DW_TAG_member | gimli::DW_TAG_variant);
        let Ok((_, all)) = self.children(unit, part, MEMBERS, is_wanted) else { return Ok(None) };
        let (variants, discriminants): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|child| child.tag == gimli::DW_TAG_variant);
        let ([discriminant], [_, _]) = (&discriminants[..], &variants[..]) else { return Ok(None) };
        let (mut has_null, mut values) = (false, None);
        for variant in &variants {
            let is_member = |tag| tag == gimli::DW_TAG_member;
            let Ok((_, members)) = self.children(unit, variant.at, 1, is_member) else {
                return Ok(None);
            };
            let to = members.first().and_then(|member| member.entry.ty.as_ref());
            let Some(of) = to.map(|to| self.refer(unit, to)).transpose()?.flatten() else {
                return Ok(None);
            };
            match self.words(&of, depth + 1, naming)?.1 {
                Ok(words) if words.is_empty() => {
                    has_null |= variant.entry.discriminant == Some(0);
                }
                Ok(words) if variant.entry.discriminant.is_none() => values = Some(words),
                _ => return Ok(None),
            }
        }
        let is_first = discriminant.entry.offset == Some(0);
        let values = values.filter(|words| {
            words[0].offset == 0 && words[0].c_type.ends_with('*') && size >= POINTER
        });
        Ok(values.filter(|_| has_null && is_first))
    }

    /// Returns whether a struct is a slice or `str`: an address and a length.
    pub(super) fn is_slice(&self, (unit, at): &Reference) -> Result<bool> {
        let is_member = |tag| tag == gimli::DW_TAG_member;
        let Ok((_, members)) = self.children(unit, *at, MEMBERS, is_member) else {
            return Ok(false);
        };
        let names = members.into_iter().filter_map(|child| child.entry.name);
        let names: Result<Vec<_>> = names.map(|name| self.text(&unit.unit, name)).collect();
        Ok(names? == ["data_ptr", "length"])
    }

    /// Returns the type in D of the target of a pointer; `void` if D cannot represent it.
    fn target(&self, of: &Reference, depth: usize, naming: Naming) -> Result<String> {
        let (unit, at) = of;
        let (tag, entry) = self.entry_at(unit, *at)?;
        if tag == gimli::DW_TAG_array_type && depth <= DEEPEST {
            let of = entry.ty.as_ref().map(|to| self.refer(unit, to)).transpose()?.flatten();
            return of
                .map_or_else(|| Ok("void".to_owned()), |of| self.target(&of, depth + 1, naming));
        }
        if let Some(word) = self.scalar(of, depth, naming)? {
            return Ok(word.c_type);
        }
        let record = self.record(of, depth)?.filter(|_| naming == Naming::Own);
        let name = record.map(|(of, name)| self.record_name(&of, name.as_deref()));
        Ok(name.transpose()?.flatten().unwrap_or_else(|| "void".to_owned()))
    }
}

/// Returns whether values are an address of bytes, and a length.
pub(super) fn is_slice_of_bytes(words: &[Word]) -> bool {
    matches!(words, [first, second] if first.c_type == "uint8_t *" && second.c_type == "size_t")
}

fn pointer_to(target: &str) -> String {
    if target.ends_with('*') { format!("{target}*") } else { format!("{target} *") }
}

/// Returns the size and the values of a base type.
fn base(name: &str, encoding: Option<gimli::DwAte>, size: u64) -> (u64, Words) {
    let is_signed = matches!(encoding, Some(gimli::DW_ATE_signed | gimli::DW_ATE_signed_char));
    let c_type = match (name, encoding) {
        ("usize", _) => "size_t",
        ("isize", _) => "ssize_t",
        (_, Some(gimli::DW_ATE_boolean)) if size == 1 => "_Bool",
        (_, Some(gimli::DW_ATE_float | gimli::DW_ATE_complex_float)) => {
            return (size, Err("its type is a floating-point number"));
        }
        // The names of C's types in GCC and in clang.
        ("char", Some(gimli::DW_ATE_signed_char | gimli::DW_ATE_unsigned_char)) => "char",
        ("signed char", _) => "signed char",
        ("unsigned char", _) => "unsigned char",
        ("short int" | "short", _) => "short",
        ("short unsigned int" | "unsigned short", _) => "unsigned short",
        ("int", _) => "int",
        ("unsigned int", _) => "unsigned int",
        ("long int" | "long", _) => "long",
        ("long unsigned int" | "unsigned long", _) => "unsigned long",
        ("long long int" | "long long", _) => "long long",
        ("long long unsigned int" | "unsigned long long", _) => "unsigned long long",
        _ if size == 16 => {
            let word = |offset, c_type: &str| Word {
                offset,
                size: 8,
                c_type: c_type.to_owned(),
                is_flag: false,
            };
            let high = if is_signed { "int64_t" } else { "uint64_t" };
            return (size, Ok(vec![word(0, "uint64_t"), word(8, high)]));
        }
        _ if size == 0 => return (size, Ok(Vec::new())),
        _ if is_signed => match size {
            1 => "int8_t",
            2 => "int16_t",
            4 => "int",
            8 => "int64_t",
            _ => return (size, Err("its type has an unusual size")),
        },
        _ => match size {
            1 | 2 | 4 | 8 => unsigned(size),
            _ => return (size, Err("its type has an unusual size")),
        },
    };
    let is_flag = c_type == "_Bool";
    (size, Ok(vec![Word { offset: 0, size, c_type: c_type.to_owned(), is_flag }]))
}

/// Returns the unsigned type of a size.
const fn unsigned(size: u64) -> &'static str {
    match size {
        1 => "uint8_t",
        2 => "uint16_t",
        4 => "uint32_t",
        _ => "uint64_t",
    }
}
