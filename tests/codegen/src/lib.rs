//! Takes a compiled program apart, to see what a firing site costs in code.
//!
//! [`Image`] finds functions by name and sites by their records; [`Function`] decodes one function and
//! separates its *hot* instructions, those that can be reached from its entry, from its *cold*
//! ones, those that only a patched site leads to; [`compare`](compare::compare) holds a function with
//! sites against the same one without.

pub mod compare;
pub mod function;
pub mod image;

pub use function::{Function, Instruction};
pub use image::{Image, SiteRecord};
