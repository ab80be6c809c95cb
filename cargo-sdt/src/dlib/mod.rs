//! D libraries: the structs and enums that a module's probes carry, declared in C, so that D programs can look into them
//! and know their constants.
//!
//! Modules in Rust have no CTF, from which D knows the types of those in C. What they have is the description that
//! `#[derive(CType)]` and `#[derive(Argument)]` leave in section `.sdt_types` (`sdt_core::layout`).

mod description;
mod library;
#[cfg(test)]
mod tests;

pub use description::{Description, Enum, Field, Kind, Struct};
pub use library::render;

/// The section with the description.
const SECTION: &str = ".sdt_types";

/// Why there is no D library of a module.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum DlibError {
    /// It is not an object file, or a damaged one.
    #[error("not a module: {0}")]
    Unreadable(String),
    /// It is for a machine on which C's types have other sizes.
    #[error("not a module for 64-bit kernels, which D libraries are for")]
    NotLp64,
    /// It describes nothing.
    #[error(
        "no struct in it derives `CType`, and no enum `Argument`: there is nothing that D could look into"
    )]
    Nothing,
    /// A line of the description is not as `sdt-core` writes it.
    #[error(
        "line {number} of section {SECTION} is {line:?}, which this version does not understand"
    )]
    Line {
        /// Its number, from 1.
        number: usize,
        /// What it says.
        line: String,
    },
    /// Two structs or enums have one name.
    #[error(
        "two different structs or enums are called {0}: give one another `#[c_name = \"...\"]`"
    )]
    Clash(String),
    /// Two constants have one name.
    #[error("two constants are called {0}: give one another `#[c_name = \"...\"]`")]
    Constant(String),
    /// A field does not have the size of its type.
    #[error(
        "{of}.{field} has {size} bytes, but its type is {c_type}, which has not: mend its `CType`"
    )]
    Size {
        /// The struct.
        of: String,
        /// The field.
        field: String,
        /// Its size.
        size: u64,
        /// What it is said to be.
        c_type: String,
    },
    /// A struct has a field outside of it, or two at one place.
    #[error("the fields of {0} overlap or reach beyond it")]
    Overlap(String),
    /// Structs contain each other.
    #[error("{0} contains itself")]
    Endless(String),
}
