//! Disassembles a compiled program, to measure the cost of a firing site in code.
//!
//! [`Image`] finds functions by name and sites by their records. [`Function`] decodes one function, and separates its *hot*
//! instructions, which are reachable from its entry, from its *cold* ones, which are reachable only from a patched site.
//! [`compare`](compare::compare) compares a function with sites with the same function without them.

pub mod compare;
pub mod function;
pub mod image;

pub use function::{Function, Instruction};
pub use image::{Image, SiteRecord};
