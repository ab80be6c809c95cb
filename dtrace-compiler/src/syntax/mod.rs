//! D's syntax trees, before names and types are resolved.

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
