//! DIF: programs compiled from D, what the validator refuses, what faults, several CPUs at once.

#[path = "../../../dtrace-compiler/tests/common/mod.rs"]
mod machine;
mod programs;
mod world;
