//! The functions of an ELF file, and where their entries and returns can be traced.
//!
//! A kernel that hosts `sdt-framework` has no symbols and no decoder. This module reads them from the file of the kernel: it
//! finds the first instruction of each function and the instructions that leave it, and decides by the kernel's own decoder
//! ([`dtrace_abi::function`]) whether a breakpoint can replace them. A function that cannot be traced has an [`Obstacle`].
//!
//! | file | task |
//! |---|---|
//! | `function` | the result: functions, sites and obstacles |
//! | `elf` | reads symbols and text |
//! | `name` | derives the names of module and function from a symbol |
//! | `exits` | finds the instructions that leave a function |
//! | `instruction` | the effect of an instruction on the flow of control |
//! | `x86_64`, `aarch64`, `riscv64` | decodes the instructions of an architecture |
//! | `listing` | prints functions and coverage |
//! | `traced` | sends functions to a kernel |
//! | `types` | the types of arguments, from debug information |
//! | `arguments` | which register has which argument |
//! | `prologue` | the stores at the beginning of unoptimised functions |
//! | `similar` | suggests functions for a name that does not exist |
//! | `process` | reads the files of a process, and sends their functions |

mod aarch64;
mod arguments;
mod elf;
mod exits;
mod function;
mod instruction;
mod listing;
mod name;
mod process;
mod prologue;
mod riscv64;
mod similar;
mod traced;
mod types;
mod window;
mod wrong;
mod x86_64;

pub use elf::ReadError;
pub use function::{Architecture, Function, Functions, Obstacle, Site};
pub use listing::{Coverage, listing};
pub use name::Name;
pub use process::ProcessFunctions;
pub use traced::{Traced, TracedError};
