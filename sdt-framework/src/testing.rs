//! What the tests, the fuzzing models and the benchmark of this project reach into: the machine and aggregations by themselves. It is no
//! interface, and may change in any release.

pub use crate::base::word::Word;
pub use crate::machine::{
    Access, Declarations, Declared, Difo, Dynamic, DynamicDrops, Failure, Firing, Invalid,
    InvalidPlace, Memory, Names, PerCpu, Probe, Problem, Program, Room, Slot, Source, Statics,
    Stop,
};
pub use crate::machine::{address, aggregation};
