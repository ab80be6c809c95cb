//! DIF, the DTrace intermediate format: a small machine's instructions, and what goes with them.
//!
//! A program in DIF is a [DIFO](crate::dof::Difo): instructions, a table of integers, one of strings,
//! one of variables, and the type of what it returns.

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
