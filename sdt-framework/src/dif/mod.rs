//! DIF: programs are checked once, when they are enabled, and then run each time that a probe fires.
//!
//! For who runs them without a [`Dtrace`](crate::Dtrace). A host needs nothing of it: its part is [`kernel`](crate::kernel).
//!
//! | file | what it is |
//! |---|---|
//! | `source` | programs as they come, which nobody has checked |
//! | `validate` | checks a DIFO: what passes is a [`Program`], the only thing the machine takes |
//! | `decode` | checks an instruction, and makes one of the machine's of it |
//! | `sizes` | how large the dynamic variables of a program are |
//! | `declare` | which variables there are, and where each has its place |
//! | `fuse` | makes one instruction of several that often follow each other |
//! | `simple` | programs that are told without the machine |
//! | `machine` | runs a program |
//! | `subr` | the subroutines |
//! | `dynamic` | thread-local variables and associative arrays |
//! | `address`, `memory` | what an address of a program leads to |
//! | `work` | what each operation counts for in the budget of a hit |
//!
//! A program ends: it branches forward only, every length is bounded, and all work of the programs of a hit is charged to one
//! budget (`work`). It touches nothing outside: what is its own is reached through slices, and what is
//! the kernel's through [`Kernel::load`](crate::kernel::Kernel::load). There is no `unsafe` in all of this.
//!
//! # Differences from dtrace.c
//! Where a program can tell, which programs by libdtrace do not do:
//! - All registers begin as 0, and so do entries of the tuple that nobody pushed.
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

// Public for who holds the machine against another one, and has to know what its addresses mean.
#[doc(hidden)]
pub mod address;
mod builtin;
mod declare;
mod decode;
mod dynamic;
mod failure;
mod fuse;
mod invalid;
mod machine;
mod memory;
mod op;
mod simple;
mod sizes;
mod source;
mod subr;
mod text;
mod validate;
mod word;
mod work;

pub(crate) use builtin::DEEPEST;
pub(crate) use declare::Extent;
pub use declare::{Declarations, Declared};
pub use dynamic::{Dynamic, DynamicDrops, PerCpu};
pub use failure::{Failure, Stop};
pub use invalid::{Invalid, Place as InvalidPlace, Problem};
pub use machine::Firing;
pub use memory::{Memory, Names, Probe, Rights, Room, Statics};
pub use op::Slot;
pub(crate) use simple::{Guard, Simple};
pub use source::{Difo, Source};
pub(crate) use subr::Token;
pub use validate::Program;
pub use word::Word;
pub(crate) use work::{NUMBER, WORK};
