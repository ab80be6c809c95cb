//! The machine: programs in DIF are checked once, when they are enabled, and run each time that a probe fires.
//!
//! It knows the trait [`Kernel`](crate::kernel::Kernel), and nothing of consumers, probes or buffers.
//!
//! | file | what it is |
//! |---|---|
//! | `source` | programs before validation |
//! | `validate` | checks a DIFO: what passes is a [`Program`], the only thing the machine takes |
//! | `decode` | checks an instruction, and makes one of the machine's of it |
//! | `sizes` | how large the dynamic variables of a program are |
//! | `declare` | which variables there are, and where each has its place |
//! | `fuse` | makes one instruction of several that often follow each other |
//! | `simple` | programs that are told without the machine |
//! | `firing` | a probe fires: what its programs share |
//! | `interpret` | runs a program |
//! | `subr` | the subroutines |
//! | `dynamic` | thread-local variables and associative arrays |
//! | `memory`, `address`, `access` | what programs work on, and what their addresses lead to |
//! | `aggregation` | what aggregating actions count |
//! | `work` | what each operation counts for in the budget of a hit |
//!
//! A program ends: it branches forward only, every length is bounded, and all work of the programs of a hit is charged to one
//! budget (`work`). It accesses its own memory through slices, and the kernel's memory through
//! [`Kernel::load`](crate::kernel::Kernel::load). The machine contains no `unsafe`.
//!
//! # Differences from dtrace.c
//! Where a program can tell, which programs by libdtrace do not do:
//! - All registers begin as 0, and so do entries of the tuple that were not pushed.
//! - A shift takes the count modulo 64; the least integer divided by -1 is itself, with the remainder 0.
//! - `timestamp` and `walltimestamp` are those of the hit: the same in all of its clauses (but behind `chill`).
//! - `alloca` gives zeroes, as other allocations of scratch space do.
//! - A variable is read and written only within its own bounds.
//! - Scratch space is read and written only as far as it has been allocated in this clause. A subroutine that is given what
//!   is behind that sees there what it writes itself, or nothing.
//! - A string that fills its place to the last byte ends there; a literal that is copied as if it were longer, or a
//!   name of the probe's or the process's, goes on with zeroes.
//! - With one CPU the chunk of a variable that is removed can be had at once.
//! - A variable that is larger than any chunk drops the record, as one does that finds no chunk.
//! - A fault in the middle of an instruction leaves the register that it would have written as it was.
#![forbid(unsafe_code)]

mod access;
pub mod address;
pub mod aggregation;
mod builtin;
mod declare;
mod decode;
mod dynamic;
mod failure;
mod firing;
mod fuse;
mod interpret;
mod invalid;
mod memory;
mod op;
mod simple;
mod sizes;
mod source;
mod subr;
mod text;
mod token;
mod tuple;
mod validate;
mod work;

pub(crate) use builtin::DEEPEST;
pub(crate) use declare::Extent;
pub use declare::{Declarations, Declared};
pub use dynamic::{Dynamic, DynamicDrops, PerCpu};
pub use failure::{Failure, Stop};
pub use firing::Firing;
pub use invalid::{Invalid, Place as InvalidPlace, Problem};
pub use memory::{Access, Memory, Names, Probe, Room, Statics};
pub use op::Slot;
pub(crate) use simple::{Guard, Simple};
pub use source::{Difo, Source};
pub(crate) use token::Token;
pub use validate::Program;
pub(crate) use work::NUMBER;
