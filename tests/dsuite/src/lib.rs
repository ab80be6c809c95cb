//! DTrace's own test suite, in the version of Oracle's Linux port (`testsuite/runtest.sh`), run by our dtrace(1) in
//! `tests/d-process`. It contains the programs that need no provider of an operating system, no variable of a kernel, and no
//! second process that triggers probes.
//!
//! | file | content |
//! |---|---|
//! | `command` | `cargo xtask dsuite`: chooses programs, runs them, prints the table |
//! | `verdict` | compares the output of a program with the suite's expectation, by the suite's rules |
//! | `run` | runs a program with a time limit |
//! | `case` | a program of the suite, its options and its expectation |
//! | `words` | names and messages that differ between Oracle's port and FreeBSD and illumos |

mod case;
mod command;
mod run;
mod verdict;
mod words;

pub use command::{Args, run};
