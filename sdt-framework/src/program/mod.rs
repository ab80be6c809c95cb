//! Programs: what consumers send in DOF, and what it does when probes fire.
//!
//! | file | what it is |
//! |---|---|
//! | `options` | what a consumer has chosen for its run |
//! | `session` | what a consumer has sent |
//! | `sending` | a consumer sends options and programs |
//! | `making` | programs are checked, and become clauses |
//! | `programs` | all programs of a consumer, and what they need |
//! | `clause` | a clause: its predicate, its actions, where each leaves what in the record |
//! | `refused` | why a program is not taken |
//! | `speculation` | what is recorded until it is committed or discarded |
//! | `tracing` | what a consumer that goes has for each CPU |
//! | `going` | it goes and stops, and the probes of `dtrace` fire |
//! | `run` | a clause is run: probe context |
//! | `plain` | the same without the machine, if its actions are so simple |
//! | `turn` | whose clauses are run; what actions do besides storing |
//! | `store` | what programs compute is copied into records |
//! | `chill` | how long programs may hold a CPU |
//! | `surroundings` | the host, as programs see it |
//! | `anonymous` | what is enabled before any consumer is there |
//! | `asking` | what consumers ask: descriptions, snapshots, how the run is |

mod anonymous;
mod asking;
mod chill;
pub(crate) mod clause;
mod going;
mod making;
pub(crate) mod options;
pub(crate) mod plain;
pub(crate) mod programs;
mod refused;
pub(crate) mod run;
mod sending;
pub(crate) mod session;
mod speculation;
mod store;
pub(crate) mod surroundings;
pub(crate) mod tracing;
pub(crate) mod turn;

pub use asking::{AggregationDesc, Snapshot, Status, Which};
pub use refused::{Malformed, ProgramError};
