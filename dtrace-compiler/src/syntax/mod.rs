//! D's syntax trees. What they say is asked elsewhere: they know neither types nor names.

mod decl;
mod expr;
mod print;
mod program;

pub use decl::{
    Base, Class, Declarator, Dim, EnumDef, Enumerator, Field, Param, Part, Qualifier, Spec, Specs,
    TypeName,
};
pub use expr::{BinaryOp, Expr, ExprKind, IntLit, UnaryOp};
pub use program::{
    Clause, ControlWord, Item, ItemKind, Probe, ProbeSpec, Program, Stmt, StmtKind, XlateMember,
};

/// Where something stands. Two trees are equal wherever they stand, so two places always are.
#[derive(Clone, Copy, Debug, Default, Eq)]
pub struct Place {
    /// The line at which dtrace(1) would have seen that it is whole, which is the line its errors
    /// name: often, but not always, the one where it ends.
    pub line: u32,
    /// Offset of its first byte in the source.
    pub start: u32,
}

impl PartialEq for Place {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
