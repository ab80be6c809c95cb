//! D libraries: declarations in C of the structs and enums that a module's probes pass, so that D programs can read
//! their fields and use their constants; and inlines that give names to the arguments.
//!
//! Modules in C have CTF, from which D knows their types. Modules in Rust have none. Instead, `sdt_provider!`,
//! `#[derive(CType)]`, `#[derive(Argument)]` and `sdt_translator!` write a description into section `.sdt_types`, which
//! [`dtrace_compiler::declared`] reads.

mod arguments;
mod description;
mod library;

pub use description::{of_all, read};
use dtrace_compiler::declared::DeclaredError;
pub use library::render;

/// The sections with the description: in modules, where the section is not loaded, and in all other images.
const SECTIONS: [&str; 2] = [".sdt_types", "sdt_types"];

/// The reason why no D library can be made for a module.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum DlibError {
    /// The file is not an object file, or is damaged.
    #[error("not a module: {0}")]
    Unreadable(String),
    /// The file is for a machine on which C's types have other sizes.
    #[error("not a module for a 64-bit kernel; D libraries support only those")]
    NotLp64,
    /// The file contains no description.
    #[error(
        "nothing to declare: no probe declares an argument, no struct derives `CType`, no enum derives \
         `Argument`, and there is no `sdt_translator!`"
    )]
    Nothing,
    /// The description is damaged.
    #[error(transparent)]
    Declared(#[from] DeclaredError),
    /// A field does not have the size of its type.
    #[error(
        "{of}.{field} has {size} bytes, but its type {c_type} has another size: correct its \
         implementation of `CType`"
    )]
    Size { of: String, field: String, size: u64, c_type: String },
}

#[cfg(test)]
#[path = "../../tests/unit/dlib/text.rs"]
mod tests;
