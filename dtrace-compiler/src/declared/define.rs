//! Defines the types and constants that an image declares.
//!
//! Members have their declared offsets in Rust, which may differ from those of C's layout. Data that D cannot represent
//! become arrays of bytes.

use std::collections::{BTreeMap, BTreeSet};

use dtrace_abi::dif::CtfKind;

use super::{Declarations, DeclaredError, Enum, Field, Kind, Struct};
use crate::types::{Member, Type, TypeId, Types};

/// The size of a pointer in bytes.
const POINTER: u64 = 8;
/// The greatest number of levels of structs, arrays or pointers.
const DEEPEST: usize = 256;

/// The treatment of structs that are defined already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Their definitions stay.
    Known,
    /// The new definition replaces the old one.
    New,
}

/// Adds types to the current module. Returns the constants of its enums.
pub(crate) fn define(
    types: &mut Types,
    declared: &Declarations,
    keep: Keep,
) -> Result<Vec<(String, TypeId, i32)>, DeclaredError> {
    let mut constants = Vec::new();
    for of in &declared.enums {
        let id = enumeration(types, of);
        constants.extend(of.constants.iter().map(|(name, value)| (name.clone(), id, *value)));
    }
    let (mut structs, mut done) = (BTreeMap::new(), BTreeSet::new());
    for of in &declared.structs {
        let tag = of.tag();
        let record = Type::Record {
            union: of.kind == Kind::Union,
            tag: Some(tag.into()),
            members: Vec::new(),
            size: of.size,
        };
        let name = format!("{} {tag}", of.kind.word());
        let known = types.declared(&name);
        let id = match known.map(|id| (id, types.get(id))) {
            // A pointer has mentioned it.
            Some((id, Type::Forward(..))) => {
                *types.get_mut(id) = record;
                id
            }
            Some((id, Type::Record { .. })) if keep == Keep::Known => {
                done.insert(tag);
                id
            }
            _ => {
                let id = types.add(record);
                types.set_name(&name, id);
                id
            }
        };
        types.set_text(id, of.text);
        types.set_missing(id, &of.missing);
        let named = if of.is_typedef() { types.typedef(tag, id) } else { id };
        structs.insert(tag, (of, id, named));
    }
    let mut definer = Definer { types, structs, done };
    for of in &declared.structs {
        definer.define(of, &mut Vec::new())?;
    }
    Ok(constants)
}

fn enumeration(types: &mut Types, of: &Enum) -> TypeId {
    let tag = of.tag();
    let id = types.add(Type::Enum { tag: Some(tag.into()), values: of.constants.clone() });
    types.set_name(&format!("enum {tag}"), id);
    if of.is_typedef() { types.typedef(tag, id) } else { id }
}

struct Definer<'a, 't> {
    types: &'t mut Types,
    /// The structs by their tags, each with its type, and the type of its name in C. Structs and unions share a
    /// namespace.
    structs: BTreeMap<&'a str, (&'a Struct, TypeId, TypeId)>,
    done: BTreeSet<&'a str>,
}

impl<'a> Definer<'a, '_> {
    /// Defines the members of a struct, after the structs that it contains.
    fn define(&mut self, of: &'a Struct, path: &mut Vec<&'a str>) -> Result<(), DeclaredError> {
        let tag = of.tag();
        if path.contains(&tag) {
            return Err(DeclaredError::Endless(of.name.clone()));
        }
        let deep = || DeclaredError::Deep(of.name.clone());
        if path.len() > DEEPEST {
            return Err(deep());
        }
        if !self.done.insert(tag) {
            return Ok(());
        }
        path.push(tag);
        let (mut members, mut end) = (Vec::new(), 0);
        for field in of.fields.iter().filter(|field| field.size > 0) {
            let behind = field.offset.checked_add(field.size).filter(|&behind| behind <= of.size);
            let is_free = match of.kind {
                Kind::Struct => field.offset >= end,
                Kind::Union => field.offset == 0,
            };
            let (true, Some(behind)) = (is_free, behind) else {
                return Err(DeclaredError::Overlap(of.name.clone()));
            };
            end = behind;
            let ty = self.field(field, path)?;
            let offset = field.offset.saturating_mul(8);
            let name = Some(&field.name).filter(|name| !name.is_empty()).cloned();
            members.push(Member { name, ty, offset });
        }
        path.pop();
        let id = self.structs[tag].1;
        self.types.set_members(id, members);
        if self.types.levels(id) as usize > DEEPEST { Err(deep()) } else { Ok(()) }
    }

    fn field(
        &mut self,
        field: &'a Field,
        path: &mut Vec<&'a str>,
    ) -> Result<TypeId, DeclaredError> {
        let count = field.dimensions.iter().try_fold(1, |all: u64, &count| all.checked_mul(count));
        let each = count.filter(|&count| count > 0).map_or(0, |count| field.size / count);
        let whole = count.and_then(|count| count.checked_mul(each)) == Some(field.size);
        let element = self.element(&field.c_type, path)?;
        let element = element
            .filter(|&(ty, align)| {
                self.types.size(ty) == each && field.offset.is_multiple_of(align.max(1))
            })
            .map(|(ty, _)| ty)
            // A pointer or number may have another size on the traced machine than in D.
            .or_else(|| self.word(&field.c_type, each, field.offset));
        let counts = || field.dimensions.iter().map(|&count| u32::try_from(count));
        match element.filter(|_| whole && counts().all(|count| count.is_ok())) {
            Some(element) => Ok(counts()
                .flatten()
                .rev()
                .fold(element, |element, count| self.types.array(element, count))),
            None => Ok(self.bytes(field.size)),
        }
    }

    /// Returns the type of a name, and its alignment.
    fn element(
        &mut self,
        name: &'a str,
        path: &mut Vec<&'a str>,
    ) -> Result<Option<(TypeId, u64)>, DeclaredError> {
        if let Some(to) = name.strip_suffix('*') {
            let base = to.trim_end_matches(['*', ' ']);
            let stars = to.matches('*').count();
            if stars >= DEEPEST {
                return Err(DeclaredError::Deep(base.into()));
            }
            let target = self.named(base).or_else(|| {
                let (kind, tag) = [(CtfKind::Struct, "struct "), (CtfKind::Union, "union ")]
                    .into_iter()
                    .find_map(|(kind, word)| Some((kind, base.strip_prefix(word)?)))?;
                Some(self.types.forward(kind, tag))
            });
            let target = target.unwrap_or(self.types.special().void);
            let ty = (0..=stars).fold(target, |ty, _| self.types.pointer(ty));
            return Ok(Some((ty, POINTER)));
        }
        if let Some((inner, ty)) = self.declared(name) {
            self.define(inner, path)?;
            return Ok(Some((ty, inner.align)));
        }
        Ok(self.named(name).map(|ty| (ty, self.types.size(ty))))
    }

    /// Returns a struct that is declared here by its name in C: a typedef, or kind and tag.
    fn declared(&self, name: &str) -> Option<(&'a Struct, TypeId)> {
        let tagged = |kind: Kind| Some((kind, name.strip_prefix(kind.word())?.strip_prefix(' ')?));
        match tagged(Kind::Struct).or_else(|| tagged(Kind::Union)) {
            Some((kind, tag)) => {
                let &(of, id, _) = self.structs.get(tag.trim()).filter(|all| all.0.kind == kind)?;
                Some((of, id))
            }
            None => {
                let &(of, _, named) = self.structs.get(name).filter(|all| all.0.is_typedef())?;
                Some((of, named))
            }
        }
    }

    fn named(&mut self, name: &str) -> Option<TypeId> {
        match name {
            "bool" => self.types.lookup("_Bool"),
            name => self.types.lookup(name),
        }
    }

    /// Returns an unsigned integer instead of a pointer or a number that has another size on the machine.
    fn word(&mut self, name: &str, size: u64, offset: u64) -> Option<TypeId> {
        let is_scalar = name.ends_with('*')
            || self.named(name).is_some_and(|ty| self.types.kind(ty) == CtfKind::Integer);
        let bits =
            size.checked_mul(8).filter(|_| is_scalar && offset.is_multiple_of(size.max(1)))?;
        matches!(bits, 8 | 16 | 32 | 64).then_some(())?;
        self.types.lookup(&format!("uint{bits}_t"))
    }

    fn bytes(&mut self, count: u64) -> TypeId {
        let byte = self.types.lookup("uint8_t").unwrap_or(self.types.special().int);
        self.types.array(byte, u32::try_from(count).unwrap_or(u32::MAX))
    }
}
