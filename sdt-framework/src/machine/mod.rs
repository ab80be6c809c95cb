//! The machine: programs in DIF are checked once, when they are enabled, and run each time that a probe fires.
//!
//! It uses the trait [`Kernel`](crate::kernel::Kernel), and does not depend on consumers, probes or buffers.
//!
//! | file | task |
//! |---|---|
//! | `source` | programs before validation |
//! | `validate` | checks a DIFO, and creates a [`Program`], which is all that the machine runs |
//! | `decode` | checks an instruction, and translates it into an instruction of the machine |
//! | `sizes` | computes the sizes of a program's dynamic variables |
//! | `declare` | the declared variables, and the place of each |
//! | `fuse` | combines instructions that often follow each other into one |
//! | `simple`, `argument_text` | programs that run without the machine: numbers, and strings of arguments |
//! | `firing` | the data that the programs of a consumer share at a hit |
//! | `interpret` | runs a program |
//! | `subr` | the subroutines |
//! | `dynamic` | thread-local variables and associative arrays |
//! | `memory`, `address`, `access` | the memory of programs, its addresses, and loads and stores |
//! | `aggregation` | aggregating functions, and the buffers of their values |
//! | `work` | the cost of each operation in the budget of a hit |
//!
//! A program ends: it branches forward only, every length is bounded, and all work of the programs of a hit is charged to one
//! budget (`work`). It accesses its own memory through slices, and the kernel's memory through
//! [`Kernel::load`](crate::kernel::Kernel::load). The machine contains no `unsafe`.
//!
//! # Differences from dtrace.c
//! A program can observe these differences. Programs that libdtrace compiles do not depend on them:
//! - All registers begin as 0, and so do entries of the tuple that were not pushed.
//! - A shift takes the count modulo 64; the least integer divided by -1 is itself, with the remainder 0.
//! - `timestamp` and `walltimestamp` are the times of the hit: the same in all of its clauses, except after `chill`.
//! - `alloca` returns memory that is filled with zeroes, as other allocations of scratch space do.
//! - A variable is read and written only within its own bounds.
//! - Scratch space is read and written only as far as it has been allocated in this clause. If a subroutine gets an address after
//!   that, it can read there only its own output, or nothing.
//! - A string that fills its place to the last byte ends there. A copy that is longer than a literal, or than a name of the probe
//!   or of the process, is filled with zeroes.
//! - An action that stores the string of an argument, as of a `&str`, takes no scratch space.
//! - With one CPU, the chunk of a removed variable is free at once.
//! - An assignment to a variable that is larger than any chunk drops the record, as an assignment without a free chunk does.
//! - An instruction that ends with a fault does not change its target register.
#![forbid(unsafe_code)]

mod access;
pub mod address;
pub mod aggregation;
mod argument_text;
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

pub(crate) use access::load_kernel;
pub(crate) use argument_text::ArgumentText;
pub(crate) use builtin::DEEPEST;
pub(crate) use declare::Extent;
pub use declare::{Declarations, Declared};
pub use dynamic::{Dynamic, DynamicDrops, PerCpu};
pub use failure::{Failure, Stop};
pub use firing::Firing;
pub use invalid::{Invalid, InvalidPlace, Problem};
pub use memory::{Access, Memory, Names, Probe, Room, Statics};
pub use op::Slot;
pub(crate) use simple::{Guard, Simple};
pub use source::{Difo, Source};
pub(crate) use token::Token;
pub use validate::Program;
pub(crate) use work::NUMBER;
