//! D programs that are compiled, enabled and run when probes fire: compares their records byte by byte.

mod actions;
mod between;
mod bounds;
mod budget;
mod cached;
#[path = "../common/mod.rs"]
mod common;
mod damaged;
mod differences;
mod drops;
mod life;
mod machine;
mod options;
mod records;
mod refused;
mod run;
mod speculation;
mod strings;
mod texts;
mod timers;
