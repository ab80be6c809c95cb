//! Programs in D, compiled, enabled and run where probes fire: what they leave behind, byte for byte.

mod actions;
mod between;
#[path = "../common/mod.rs"]
mod common;
mod damaged;
mod drops;
mod life;
mod options;
mod records;
mod run;
mod speculation;
