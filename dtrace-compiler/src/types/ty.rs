//! The definitions of types, and the properties that are stored with each.

use std::collections::HashMap;

use dtrace_abi::dif::CtfKind;

/// The greatest number of levels of a type: of pointers and arrays that refer to each other, or of nested arrays and
/// structs. Functions recurse through types, and kernels declare them, so the number is limited.
pub(crate) const DEEPEST: u32 = 800;

/// A type, by its index in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(pub(super) u32);

impl TypeId {
    /// Returns its number in this run.
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// The definition of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// An integer, or void, which has no bits.
    Int {
        /// Its name.
        name: String,
        /// Its size in bits.
        bits: u32,
        /// Whether it is signed.
        signed: bool,
        /// Whether it is a character.
        char: bool,
    },
    /// A floating-point number, which D can only print.
    Float {
        /// Its name.
        name: String,
        /// Its size in bits.
        bits: u32,
        /// Whether it is neither imaginary nor complex.
        real: bool,
    },
    /// A pointer to a type.
    Pointer(TypeId),
    /// An array of a number of elements.
    Array(TypeId, u32),
    /// A function. D does not store its parameters or its result.
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
    /// A struct, union or enum that is mentioned, but not defined.
    Forward(CtfKind, String),
    /// Another name for a type.
    Typedef(String, TypeId),
}

/// A member of a struct or union.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name; bit-fields need not have one.
    pub name: Option<String>,
    /// Its type.
    pub ty: TypeId,
    /// Its offset in bits.
    pub offset: u64,
}

/// Types with a special purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Special {
    pub void: TypeId,
    pub int: TypeId,
    pub int64: TypeId,
    pub uint64: TypeId,
    pub size: TypeId,
    pub ptrdiff: TypeId,
    pub string: TypeId,
    /// The type of variables whose type is unknown.
    pub dynamic: TypeId,
    pub stack: TypeId,
    pub symaddr: TypeId,
    pub usymaddr: TypeId,
    pub function: TypeId,
    pub function_pointer: TypeId,
}

/// Properties of a type that depend on other types. They are computed when the type is added, because the number of paths to a
/// nested struct can grow exponentially.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Extent {
    /// Of a struct or union: the alignment in bytes.
    pub(super) align: u64,
    /// The number of levels of the deepest member of a struct or union.
    pub(super) levels: u32,
    /// The number of pointers and arrays between this type and the next struct, union or plain type.
    pub(super) links: u32,
}

/// The places of the address and the length of a text in a struct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text {
    /// The offset of the address in bytes.
    pub address: u64,
    /// The offset of the length in bytes; the length is in bytes, too.
    pub length: u64,
}

/// Properties of structs and unions besides their members.
#[derive(Clone, Debug, Default)]
pub(super) struct Remarks {
    /// The places of text.
    pub(super) text: HashMap<TypeId, Text>,
    /// The members that D cannot represent, with the reason.
    pub(super) missing: HashMap<TypeId, Vec<(String, String)>>,
}

/// The rooms of all modules.
#[derive(Clone, Debug, Default)]
pub(super) struct Rooms {
    pub(super) rooms: Vec<Room>,
    /// For each type that a module declares, the index of its room.
    pub(super) owners: HashMap<TypeId, usize>,
    /// The room to which new declarations are added; `None` for declarations of the program.
    pub(super) declaring: Option<usize>,
    /// The room that is searched first: the room of the module of the probe for which a clause is compiled.
    pub(super) near: Option<usize>,
}

#[derive(Clone, Debug)]
/// The types that one module declares, by their names.
pub(super) struct Room {
    pub(super) module: String,
    pub(super) named: HashMap<String, TypeId>,
}
