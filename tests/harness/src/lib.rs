//! The test bench for this project's modules: the stand-in kernel in QEMU, and tools for the tests and `cargo xtask`. Only crates
//! in `tests/` and `xtask/` use it.

pub mod embedded;
pub mod kernel;
pub mod machine;
pub mod qemu;
pub mod records;
pub mod session;
pub mod setup;
pub mod share;
pub mod shell;
pub mod stress;
mod symbols;
pub mod torture;
pub mod wire;
pub mod workload;
pub mod workspace;
pub mod zig;

/// Set by `cargo xtask test --all`: tests leave nothing out.
pub const EVERYTHING: &str = "SDT_TEST_ALL";

/// Returns whether slow tests run, too.
pub fn everything() -> bool {
    std::env::var_os(EVERYTHING).is_some()
}
