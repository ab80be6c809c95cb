//! Types: those of C on a 64-bit machine, and D's own.

mod intrinsic;
mod layout;
mod name;
mod printed;
mod relation;
mod rooms;

use std::collections::HashMap;

use dtrace_abi::dif::CtfKind;

pub(crate) use relation::MemberInfo;

/// The most levels of a type: pointers and arrays that lead to each other, or arrays and structs within each other. Kernels
/// declare types, and the functions that work on them recurse.
pub(crate) const DEEPEST: u32 = 800;

/// A type, by its place in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(u32);

impl TypeId {
    /// Its number in this run.
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// What a type is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// An integer, or void, which has no bits.
    Int {
        /// Its name.
        name: String,
        /// How many bits it has.
        bits: u32,
        /// Whether it is signed.
        signed: bool,
        /// Whether it is a character.
        char: bool,
    },
    /// A floating-point number, which D can print and nothing more.
    Float {
        /// Its name.
        name: String,
        /// How many bits it has.
        bits: u32,
        /// Whether it is neither imaginary nor complex.
        real: bool,
    },
    /// A pointer to this.
    Pointer(TypeId),
    /// So many of these.
    Array(TypeId, u32),
    /// A function, of which D knows nothing else.
    Function,
    /// A struct or union.
    Record {
        /// Whether it is a union.
        union: bool,
        /// Its tag.
        tag: Option<String>,
        /// Its members.
        members: Vec<Member>,
        /// Size in bytes.
        size: u64,
    },
    /// An enum.
    Enum {
        /// Its tag.
        tag: Option<String>,
        /// Its enumerators.
        values: Vec<(String, i32)>,
    },
    /// A struct, union or enum that was mentioned and not defined.
    Forward(CtfKind, String),
    /// Another name for this.
    Typedef(String, TypeId),
}

/// A member of a struct or union.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name; bit-fields need not have one.
    pub name: Option<String>,
    /// Its type.
    pub ty: TypeId,
    /// Where it begins, in bits.
    pub offset: u64,
}

/// All types of a program, and of programs before it.
#[derive(Clone, Debug)]
pub struct Types {
    types: Vec<Type>,
    /// Of each type, what it is behind all typedefs.
    roots: Vec<TypeId>,
    /// Of each type, what would take long to find out each time.
    extents: Vec<layout::Extent>,
    named: HashMap<String, TypeId>,
    pointers: HashMap<TypeId, TypeId>,
    special: Special,
    rooms: rooms::Rooms,
}

/// Types that are known by what they are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Special {
    pub void: TypeId,
    pub int: TypeId,
    pub int64: TypeId,
    pub uint64: TypeId,
    pub size: TypeId,
    pub ptrdiff: TypeId,
    pub string: TypeId,
    /// A variable whose type is not known yet, or that has none.
    pub dynamic: TypeId,
    pub stack: TypeId,
    pub symaddr: TypeId,
    pub usymaddr: TypeId,
    pub function: TypeId,
    pub function_pointer: TypeId,
}

impl Types {
    /// The types that D brings with it; strings have room for `strsize` bytes.
    pub fn new(strsize: u32) -> Self {
        intrinsic::types(strsize)
    }

    /// What a type is.
    pub fn get(&self, id: TypeId) -> &Type {
        &self.types[id.0 as usize]
    }

    /// A new type. It has no name by itself, see [`name`](Self::set_name).
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

    /// A pointer to a type: always the same one.
    pub fn pointer(&mut self, to: TypeId) -> TypeId {
        if let Some(&pointer) = self.pointers.get(&to) {
            return pointer;
        }
        let pointer = self.add(Type::Pointer(to));
        self.pointers.insert(to, pointer);
        pointer
    }

    /// An array.
    pub fn array(&mut self, of: TypeId, count: u32) -> TypeId {
        self.add(Type::Array(of, count))
    }

    /// Another name for a type.
    pub fn typedef(&mut self, name: &str, to: TypeId) -> TypeId {
        let id = self.add(Type::Typedef(name.into(), to));
        self.give_name(name.into(), id);
        id
    }

    /// A struct, union or enum that is defined later, or never.
    pub fn forward(&mut self, kind: CtfKind, tag: &str) -> TypeId {
        let id = self.add(Type::Forward(kind, tag.into()));
        self.give_name(format!("{} {tag}", kind.name()), id);
        id
    }

    /// Makes a type known by a name, as `struct s` is.
    pub fn set_name(&mut self, name: &str, id: TypeId) {
        self.give_name(name.into(), id);
    }

    /// Gives strings room for so many bytes.
    pub(crate) fn set_strsize(&mut self, strsize: u32) {
        let chars = self.resolve(self.special.string);
        if let Type::Array(_, count) = self.get_mut(chars) {
            *count = strsize;
        }
    }

    /// Changes what a type is: a struct while its members are declared. A typedef stays what it is.
    pub(crate) fn get_mut(&mut self, id: TypeId) -> &mut Type {
        &mut self.types[id.0 as usize]
    }

    pub(crate) const fn special(&self) -> Special {
        self.special
    }

    /// The type of a name such as `unsigned long`, `struct s` or `const char **`: blanks and
    /// qualifiers make no difference, and every `*` is a pointer. `None` if there are more than 800.
    pub fn lookup(&mut self, name: &str) -> Option<TypeId> {
        self.lookup_with(name, Self::find_name)
    }

    fn lookup_with(
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

    /// Whether there is a type of this name.
    pub fn has(&self, name: &str) -> bool {
        self.find_name(name).is_some()
    }
}

/// A type's name without qualifiers and stars, and how many stars there are.
pub(crate) fn split_stars(name: &str) -> (String, usize) {
    let base = name.find('*').map_or(name, |at| &name[..at]);
    let words = base.split_whitespace();
    let words = words.filter(|word| !matches!(*word, "const" | "volatile" | "restrict"));
    (words.collect::<Vec<_>>().join(" "), name.matches('*').count())
}

#[cfg(test)]
mod tests;
