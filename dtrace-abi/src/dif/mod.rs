//! DIF, the DTrace intermediate format: the instructions of a small machine, and their tables.
//!
//! A program in DIF is a [DIFO](crate::dof::Difo): instructions, tables of integers, strings and variables, and the
//! type of its result.

mod instr;
mod opcode;
mod subr;
mod types;
mod var;

pub use instr::{Instr, Register};
pub use opcode::{Form, Opcode};
pub use subr::Subr;
pub use types::{CtfKind, DifType, TypeKind, VarFlags, VarKind, VarScope, Variable};
pub use var::{
    Builtin, VAR_ARRAY_MAX, VAR_ARRAY_USER, VAR_OTHER_MAX, VAR_OTHER_MIN, VAR_OTHER_USER,
};

/// The version of the instruction set (`DIF_VERSION`), which both kernels have.
pub const VERSION: u8 = 2;
