//! The output for records that the tests write; `tests/oracle` has the output of programs.

mod any;
mod golden;
mod made;
mod pictures;
mod printed;
mod structured;
