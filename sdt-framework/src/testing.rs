//! The machine and aggregations, for the tests, fuzzers and benchmark of this project. Not part of the interface: it may change in
//! any release.

pub use crate::base::word::Word;
pub use crate::machine::{
    Access, Declarations, Declared, Difo, Dynamic, DynamicDrops, Failure, Firing, Invalid,
    InvalidPlace, Memory, Names, PerCpu, Probe, Problem, Program, Room, Slot, Source, Statics,
    Stop,
};
pub use crate::machine::{address, aggregation};
