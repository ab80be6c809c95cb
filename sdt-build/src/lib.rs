//! Converts D provider files, which Rust and C can share, to declarations for `sdt-core`.
//!
//! # What this is
//!
//! `dtrace -h` converts a provider file to a C header. This crate converts it to `sdt_provider!` declarations:
//! [`Providers::parse`] reads the file, and [`Providers::to_rust`] writes it in Rust. A [`Builder`] does both in a
//! build script:
//!
//! ```no_run
//! // build.rs
//! fn main() -> Result<(), sdt_build::Error> {
//!     sdt_build::Builder::new("proc.d").public(true).write("proc.rs")
//! }
//! ```
//!
//! ```ignore
//! // src/lib.rs
//! include!(concat!(env!("OUT_DIR"), "/proc.rs"));
//! ```
//!
//! If the provider file is part of the package, `sdt_core::sdt_provider!(include "proc.d")` gives the same result
//! without a build script.
//!
//! # How D is translated
//!
//! | D | Rust |
//! |---|---|
//! | `probe exec__success(...)` | `fn exec_success(...)`, listed as `exec-success`; a single `_` stays one in the list |
//! | `int`, `uint32_t`, `long`, `size_t`, ... | `i32`, `u32`, `i64`, `usize`, ... |
//! | `char *` | `&CStr` |
//! | `void *` | `*const c_void` |
//! | `uint8_t *` and the like | `*const u8` |
//! | `struct packet_header *` | `*const PacketHeader`: a type of that name in the scope of the declaration, for which `CType` is derived |
//! | `packet_t *` | `*const packet_t` |
//! | `probe start(struct bio *b) : (bufinfo_t *b)` | `b: ... => "bufinfo_t *"`, if each argument is translated to one |
//! | `#pragma D attributes ...` | `#[stability(...)]` |
//!
//! # What it is not
//!
//! It does not preprocess: a line that begins with `#` and is not `#pragma D` is an error. It does not parse C: it
//! knows only the types in the table above.

mod builder;
mod lex;
mod parse;
mod rust;
mod types;

pub use builder::{Builder, Error};
pub use parse::{Argument, ParseError, Probe, Provider, Providers};
pub use types::Type;
