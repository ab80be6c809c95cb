//! The parts of `cargo xtask`, as a library, so that tests use the same ones.
// Use `output` to print: these macros panic if the reader has closed the pipe.
#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod bench;
pub mod book;
pub mod cmd;
pub mod lint;
mod needs;
pub mod steps;
pub mod watched;
