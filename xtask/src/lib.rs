//! The parts of `cargo xtask`, as a library, so that tests use the same ones.

pub mod arch;
pub mod build;
pub mod check;
pub mod cmd;
pub mod dlib;
pub mod dtrace;
pub mod link;
pub mod lint;
pub mod machine;
pub mod platform;
pub mod process;
pub mod progress;
pub mod session;
pub mod setup;
pub mod toolchain;
pub mod wire;
pub mod workload;
pub mod workspace;
pub mod zig;
