//! DTrace's own test suite, as Oracle's Linux port has it (`testsuite/runtest.sh`), on a host of ours: programs that need
//! no provider of an OS, no variable of a kernel's, and nobody who triggers anything.
//!
//! | file | what it is |
//! |---|---|
//! | `case` | a program of the suite: its options, what is expected of it |
//! | `run` | it is run, with a time limit |
//! | `verdict` | what it printed, by the suite's rules |
//! | `words` | what Oracle's port calls otherwise than FreeBSD and illumos |

mod case;
mod run;
mod verdict;
mod words;

pub use case::{Case, read_list};
pub use run::{Ended, Programs, run};
pub use verdict::{Verdict, judge};
