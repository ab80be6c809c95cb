//! The table of all types.

use std::collections::HashMap;

use dtrace_abi::dif::CtfKind;

use super::ty::{DEEPEST, Extent, Remarks, Rooms, Special, Text, Type, TypeId};

/// The types of a program and of earlier programs.
#[derive(Clone, Debug)]
pub struct Types {
    pub(super) types: Vec<Type>,
    /// For each type, its definition behind all typedefs.
    pub(super) roots: Vec<TypeId>,
    /// For each type, properties that are expensive to compute.
    pub(super) extents: Vec<Extent>,
    pub(super) named: HashMap<String, TypeId>,
    pub(super) pointers: HashMap<TypeId, TypeId>,
    pub(super) special: Special,
    pub(super) rooms: Rooms,
    pub(super) remarks: Remarks,
}

impl Types {
    /// Returns the definition of a type.
    pub fn get(&self, id: TypeId) -> &Type {
        &self.types[id.0 as usize]
    }

    /// Adds a type without a name (see [`set_name`](Self::set_name)).
    pub fn add(&mut self, ty: Type) -> TypeId {
        let id = TypeId(u32::try_from(self.types.len()).unwrap_or(u32::MAX));
        self.roots.push(match ty {
            Type::Typedef(_, to) => self.roots[to.0 as usize],
            _ => id,
        });
        let extent = self.extent(&ty);
        self.extents.push(extent);
        self.types.push(ty);
        self.give_owner(id);
        id
    }

    /// Returns the pointer type to a type. The same type always has the same pointer type.
    pub fn pointer(&mut self, to: TypeId) -> TypeId {
        if let Some(&pointer) = self.pointers.get(&to) {
            return pointer;
        }
        let pointer = self.add(Type::Pointer(to));
        self.pointers.insert(to, pointer);
        pointer
    }

    /// Adds an array.
    pub fn array(&mut self, of: TypeId, count: u32) -> TypeId {
        self.add(Type::Array(of, count))
    }

    /// Adds another name for a type.
    pub fn typedef(&mut self, name: &str, to: TypeId) -> TypeId {
        let id = self.add(Type::Typedef(name.into(), to));
        self.give_name(name.into(), id);
        id
    }

    /// Adds a struct, union or enum that is defined later, or never.
    pub fn forward(&mut self, kind: CtfKind, tag: &str) -> TypeId {
        let id = self.add(Type::Forward(kind, tag.into()));
        self.give_name(format!("{} {tag}", kind.name()), id);
        id
    }

    /// Names a type, such as `struct s`.
    pub fn set_name(&mut self, name: &str, id: TypeId) {
        self.give_name(name.into(), id);
    }

    /// Sets the size of strings in bytes.
    pub(crate) fn set_strsize(&mut self, strsize: u32) {
        let chars = self.resolve(self.special.string);
        if let Type::Array(_, count) = self.get_mut(chars) {
            *count = strsize;
        }
    }

    /// Returns the definition of a type for changes: of a struct while its members are declared. Typedefs must not be changed.
    pub(crate) fn get_mut(&mut self, id: TypeId) -> &mut Type {
        &mut self.types[id.0 as usize]
    }

    /// Sets the places of the text that a struct contains.
    pub(crate) fn set_text(&mut self, record: TypeId, text: Option<Text>) {
        match text {
            Some(text) => self.remarks.text.insert(record, text),
            None => self.remarks.text.remove(&record),
        };
    }

    /// Returns the places of the text that a struct contains.
    pub(crate) fn text(&self, ty: TypeId) -> Option<Text> {
        self.remarks.text.get(&self.resolve(ty)).copied()
    }

    /// Sets the members of a struct that D cannot represent, with the reasons.
    pub(crate) fn set_missing(&mut self, record: TypeId, missing: &[(String, String)]) {
        match missing {
            [] => self.remarks.missing.remove(&record),
            some => self.remarks.missing.insert(record, some.to_vec()),
        };
    }

    pub(crate) const fn special(&self) -> Special {
        self.special
    }

    /// Returns the type of a name such as `unsigned long`, `struct s` or `const char **`. Blanks and qualifiers are
    /// ignored, and every `*` is a pointer. `None` if there are more than 800 `*`.
    pub fn lookup(&mut self, name: &str) -> Option<TypeId> {
        self.lookup_with(name, Self::find_name)
    }

    pub(super) fn lookup_with(
        &mut self,
        name: &str,
        find: impl Fn(&Self, &str) -> Option<TypeId>,
    ) -> Option<TypeId> {
        let (base, stars) = split_stars(name);
        if stars > DEEPEST as usize {
            return None;
        }
        let mut id = find(self, &base)?;
        for _ in 0..stars {
            id = self.pointer(id);
        }
        Some(id)
    }

    /// Returns whether a type of this name exists.
    pub fn has(&self, name: &str) -> bool {
        self.find_name(name).is_some()
    }
}

/// Splits the name of a type into the name without qualifiers and stars, and the number of stars.
pub(crate) fn split_stars(name: &str) -> (String, usize) {
    let base = name.find('*').map_or(name, |at| &name[..at]);
    let words = base.split_whitespace();
    let words = words.filter(|word| !matches!(*word, "const" | "volatile" | "restrict"));
    (words.collect::<Vec<_>>().join(" "), name.matches('*').count())
}
