//! D libraries: the structs and enums that a module's probes carry, declared in C, so that D programs can look into them
//! and know their constants; and inlines that give the arguments their names.
//!
//! Modules in Rust have no CTF, from which D knows the types of those in C. What they have is the description that
//! `sdt_provider!`, `#[derive(CType)]`, `#[derive(Argument)]` and `sdt_translator!` leave in section `.sdt_types`, as
//! [`dtrace_compiler::declared`] reads it.

mod arguments;
mod description;
mod library;

pub use description::{of_all, read};
use dtrace_compiler::declared::DeclaredError;
pub use library::render;

/// The sections with the description: of modules, where it is not loaded, and of everything else.
const SECTIONS: [&str; 2] = [".sdt_types", "sdt_types"];

/// Why there is no D library of a module.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum DlibError {
    /// It is not an object file, or a damaged one.
    #[error("not a module: {0}")]
    Unreadable(String),
    /// It is for a machine on which C's types have other sizes.
    #[error("not a module for 64-bit kernels, which D libraries are for")]
    NotLp64,
    /// The file contains no description.
    #[error(
        "no probe in it declares an argument, no struct derives `CType`, no enum `Argument`, and there is no \
         `sdt_translator!`: there is nothing to tell D"
    )]
    Nothing,
    /// The description is damaged.
    #[error(transparent)]
    Declared(#[from] DeclaredError),
    /// A field does not have the size of its type.
    #[error(
        "{of}.{field} has {size} bytes, but its type is {c_type}, which has not: mend its `CType`"
    )]
    Size { of: String, field: String, size: u64, c_type: String },
}

#[cfg(test)]
#[path = "../../tests/unit/dlib/text.rs"]
mod tests;
