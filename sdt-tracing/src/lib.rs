#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod fields;
mod layer;
mod probes;

pub use layer::{Probes, WhileEnabled, layer};
