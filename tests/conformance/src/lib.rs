//! Modules in Rust beside the same in C: both compiled for FreeBSD's kernels, C against FreeBSD's own headers,
//! and compared by the contents of the objects.
//!
//! C is in `c/`, Rust in `probes/`. The tests compare layouts, records and sites; the program prints what sites
//! cost. The C compiler comes from the network: where there is none, tests say `SKIPPED` and pass.

pub mod code;
pub mod fbt;
pub mod flow;
pub mod layout;
pub mod records;
pub mod sources;
pub mod table;
pub mod unit;
