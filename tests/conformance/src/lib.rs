//! Compares modules in Rust with the same modules in C. Both are compiled for FreeBSD's kernels, C against FreeBSD's own headers,
//! and the contents of the objects are compared.
//!
//! The C code is in `c/`, the Rust code in `probes/`. The tests compare layouts, records and sites; the program prints the costs
//! of sites. The C compiler is downloaded. If that is impossible, the tests print `SKIPPED` and pass.

pub mod code;
pub mod fbt;
pub mod flow;
pub mod layout;
pub mod records;
pub mod sources;
pub mod table;
pub mod unit;
