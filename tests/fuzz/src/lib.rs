//! The fuzz targets: for each a function that accepts any bytes, and panics if an invariant does not hold.
//!
//! `cargo xtask fuzz` runs them in libFuzzer, which needs a nightly compiler; the test `seeds` of this
//! crate runs them over all inputs that are kept in `fuzz/seeds`.

pub mod check;
pub mod compiler;
pub mod consumer;
mod counted;
mod counting;
pub mod dif;
pub mod dump;
mod edit;
pub mod flips;
pub mod framework;
pub mod glob;
mod handed;
pub mod isolation;
pub mod krtld;
pub mod loader;
mod memory;
pub mod protocol;
pub mod records;
pub mod render;
mod sandbox;
pub mod secure;
pub mod server;

/// A target: its name, which is its folder's in `fuzz/seeds` too, and its function.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: &[Target] = &[
    ("check", check::run),
    ("compiler", compiler::run),
    ("consumer", consumer::run),
    ("dif", dif::run),
    ("dif_dof", dif::run_dof),
    ("dump", dump::run),
    ("framework", framework::run),
    ("glob", glob::run),
    ("isolation", isolation::run),
    ("krtld", krtld::run),
    ("loader", loader::run),
    ("protocol", protocol::run),
    ("records", records::run),
    ("render", render::run),
    ("secure", secure::run),
    ("server", server::run),
];
