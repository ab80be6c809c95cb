//! Declarations and names of types.

use super::Expr;
use crate::place::Place;

/// The specifiers before the declarators.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Specs {
    /// Storage classes, in order.
    pub classes: Vec<Class>,
    /// Everything else, in order.
    pub specs: Vec<Spec>,
    /// The place in the source.
    pub place: Place,
}

/// A storage class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// `auto`
    Auto,
    /// `register`
    Register,
    /// `static`
    Static,
    /// `extern`
    Extern,
    /// `typedef`
    Typedef,
    /// `self`
    SelfVar,
    /// `this`
    This,
}

impl Class {
    /// Returns its text.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Register => "register",
            Self::Static => "static",
            Self::Extern => "extern",
            Self::Typedef => "typedef",
            Self::SelfVar => "self",
            Self::This => "this",
        }
    }
}

/// One word of a type, or a struct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spec {
    /// A basic type of C.
    Base(Base),
    /// `short`
    Short,
    /// `long`
    Long,
    /// `signed`
    Signed,
    /// `unsigned`
    Unsigned,
    /// `userland`
    Userland,
    /// `const`, `restrict`, `volatile`
    Qualifier(Qualifier),
    /// The name of a type, or `string`.
    Name(String),
    /// A struct, or a union.
    Record {
        /// Whether it is a union.
        union: bool,
        /// Its tag.
        tag: Option<String>,
        /// The place of the beginning of its fields, or of the end of its name.
        place: Place,
        /// Its fields, if it is defined here.
        fields: Option<Vec<Field>>,
    },
    /// An enum.
    Enum(EnumDef),
}

/// A basic type of C, one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// `void`
    Void,
    /// `char`
    Char,
    /// `int`
    Int,
    /// `float`
    Float,
    /// `double`
    Double,
}

impl Base {
    /// Returns its text.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Void => "void",
            Self::Char => "char",
            Self::Int => "int",
            Self::Float => "float",
            Self::Double => "double",
        }
    }
}

/// The qualifiers, which do not affect size and sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Qualifier {
    /// `const`
    Const,
    /// `restrict`
    Restrict,
    /// `volatile`
    Volatile,
}

impl Qualifier {
    /// Returns its text.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Const => "const",
            Self::Restrict => "restrict",
            Self::Volatile => "volatile",
        }
    }
}

/// Fields of a struct that are declared together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Their type.
    pub specs: Specs,
    /// The declarators, each with the number of bits if it is a bit-field.
    pub declarators: Vec<(Option<Declarator>, Option<Expr>, Place)>,
}

/// An enum, with its tag or its enumerators or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnumDef {
    /// Its tag.
    pub tag: Option<String>,
    /// Its enumerators, if it is defined here.
    pub enumerators: Option<Vec<Enumerator>>,
}

/// One value of an enum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enumerator {
    /// Its name.
    pub name: String,
    /// Its explicit value, if it has one.
    pub value: Option<Expr>,
    /// The place in the source.
    pub place: Place,
}

/// A declarator: an optional name, and the steps from the name to its type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declarator {
    /// The name.
    pub name: Option<String>,
    /// From the name outward: in `int *a[5]` an array, then a pointer.
    pub parts: Vec<Part>,
    /// The place in the source.
    pub place: Place,
}

/// One step from a name to its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A pointer to ...
    Pointer(Vec<Qualifier>),
    /// An array of ...
    Array(Dim),
    /// A function that returns ...
    Function(Vec<Param>),
}

/// The dimension of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dim {
    /// `[]`: no size.
    Open,
    /// The number of elements.
    Size(Box<Expr>),
    /// The types of an associative array's keys.
    Keys(Vec<Param>),
}

/// A parameter, or a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Param {
    /// A parameter of this type, with an optional name.
    Type(Specs, Declarator),
    /// `...`
    Ellipsis,
}

/// A type name: a declaration without a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeName {
    /// The specifiers.
    pub specs: Specs,
    /// The declarator, without a name.
    pub declarator: Declarator,
}
