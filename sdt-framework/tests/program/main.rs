//! Programs in D, compiled, enabled and run where probes fire: what they leave behind, byte for byte.

#[path = "../common/mod.rs"]
mod common;
mod damaged;
mod life;
mod records;
mod run;
mod speculation;
