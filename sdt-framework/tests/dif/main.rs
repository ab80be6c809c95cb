//! DIF: programs compiled from D, what the validator refuses, several CPUs at once.

mod cpus;
mod left;
#[path = "../../../dtrace-compiler/tests/common/mod.rs"]
mod machine;
mod programs;
mod refused;
mod world;
