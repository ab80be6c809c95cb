//! The parts of `cargo xtask`, as a library, so that tests use the same ones.
// `output` prints: these panic when the reader has gone.
#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod bench;
pub mod book;
pub mod cmd;
pub mod lint;
mod needs;
pub mod steps;
pub mod watched;
