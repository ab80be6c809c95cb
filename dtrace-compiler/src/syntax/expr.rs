//! Expressions.

use super::TypeName;
use crate::place::Place;

/// An expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expr {
    /// The place in the source.
    pub place: Place,
    /// The kind of expression, with its operands.
    pub kind: ExprKind,
}

/// The kinds of expressions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExprKind {
    /// An integer or a character.
    Int(IntLit),
    /// A string, its escapes resolved.
    Str(Vec<u8>),
    /// A name, with its scope if it has one.
    Ident(String),
    /// An aggregation, without its `@`; `_` if it has no name.
    Agg(String),
    /// An operator with one operand.
    Unary(UnaryOp, Box<Expr>),
    /// An operator with two.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// An assignment: `=`, or a compound assignment with this operator.
    Assign(Option<BinaryOp>, Box<Expr>, Box<Expr>),
    /// `? :`.
    Ternary(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `f(...)`.
    Call(Box<Expr>, Vec<Expr>),
    /// `a[...]`: with one expression or several.
    Index(Box<Expr>, Vec<Expr>),
    /// `s.member`.
    Dot(Box<Expr>, String),
    /// `p->member`.
    Arrow(Box<Expr>, String),
    /// `(type)value`.
    Cast(Box<TypeName>, Box<Expr>),
    /// `sizeof (type)`.
    SizeofType(Box<TypeName>),
    /// `offsetof(type, member)`.
    Offsetof(Box<TypeName>, String),
    /// `xlate <type>(value)`.
    Xlate(Box<TypeName>, Box<Expr>),
}

/// An integer literal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntLit {
    /// Its value.
    pub value: u64,
    /// Whether it is decimal. Octal and hexadecimal integers may also have unsigned types.
    pub decimal: bool,
    /// Whether it has a `u`.
    pub unsigned: bool,
    /// The number of `l` in its suffix.
    pub longs: u8,
}

impl IntLit {
    /// Returns a decimal integer without a suffix.
    pub const fn plain(value: u64) -> Self {
        Self { value, decimal: true, unsigned: false, longs: 0 }
    }
}

macro_rules! operators {
    ($(#[$meta:meta])* $name:ident: $($variant:ident $text:literal)*) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $(#[doc = concat!("`", $text, "`")] $variant,)*
        }

        impl $name {
            /// Returns its text, which errors print.
            pub const fn text(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

operators! {
    /// Operators with one operand.
    UnaryOp:
    Plus "+" Neg "-" BitNot "~" Not "!" Deref "*" AddrOf "&" PreInc "++" PreDec "--" PostInc "++" PostDec "--"
    Sizeof "sizeof" Stringof "stringof"
}

operators! {
    /// Operators with two operands that assign nothing.
    BinaryOp:
    Comma "," OrOr "||" XorXor "^^" AndAnd "&&" Or "|" Xor "^" And "&" Equal "==" NotEqual "!=" Less "<"
    LessEqual "<=" Greater ">" GreaterEqual ">=" Shl "<<" Shr ">>" Add "+" Sub "-" Mul "*" Div "/" Rem "%"
}

impl BinaryOp {
    /// Returns its precedence; a higher one binds tighter. All operators are left-associative.
    pub const fn power(self) -> u8 {
        match self {
            Self::Comma => 1,
            Self::OrOr => 4,
            Self::XorXor => 5,
            Self::AndAnd => 6,
            Self::Or => 7,
            Self::Xor => 8,
            Self::And => 9,
            Self::Equal | Self::NotEqual => 10,
            Self::Less | Self::LessEqual | Self::Greater | Self::GreaterEqual => 11,
            Self::Shl | Self::Shr => 12,
            Self::Add | Self::Sub => 13,
            Self::Mul | Self::Div | Self::Rem => 14,
        }
    }
}
