//! D provider files, which Rust and C share, as declarations of `sdt-core`'s.
//!
//! # What this is
//!
//! What `dtrace -h` makes a C header of, this makes `sdt_provider!` of: [`Providers::parse`] reads a file,
//! [`Providers::to_rust`] writes it in Rust. A [`Builder`] does both in a build script:
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
//! Where the file is just there, `sdt_core::sdt_provider!(include "proc.d")` is the same without a build script.
//!
//! # What becomes of what
//!
//! | D | Rust |
//! |---|---|
//! | `probe exec__success(...)` | `fn exec_success(...)`, listed as `exec-success`; a single `_` stays one in the list |
//! | `int`, `uint32_t`, `long`, `size_t`, ... | `i32`, `u32`, `i64`, `usize`, ... |
//! | `char *` | `&CStr` |
//! | `void *` | `*const c_void` |
//! | `uint8_t *` and the like | `*const u8` |
//! | `struct packet_header *` | `*const PacketHeader`: the type of that name where the provider is declared, for which `CType` is derived |
//! | `packet_t *` | `*const packet_t` |
//! | `probe start(struct bio *b) : (bufinfo_t *b)` | `b: ... => "bufinfo_t *"`, if each argument is translated to one |
//! | `#pragma D attributes ...` | `#[stability(...)]` |
//!
//! # What it is not
//!
//! No preprocessor: lines that begin with `#` and are no `#pragma D` are errors. No C parser: types are those above.

mod builder;
mod lex;
mod parse;
mod rust;
mod types;

pub use builder::{Builder, Error};
pub use parse::{Argument, ParseError, Probe, Provider, Providers};
pub use types::Type;
