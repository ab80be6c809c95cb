//! Runs: immutable clauses, the state of a consumer's run, its buffers, and what happens when a probe fires.
//!
//! | file | task |
//! |---|---|
//! | `fire` | a probe fires, from the hit to its records: start here |
//! | `clause`, `step`, `field` | a clause: its predicate, its actions, and the position of each datum in the record |
//! | `context` | the consumer whose clauses run; the actions that do more than store values |
//! | `plain` | runs a clause without the machine, if all its actions are simple; copies strings of arguments |
//! | `actions`, `store` | runs a clause with the machine: the actions, and what they store |
//! | `surroundings` | the interface to the host for programs |
//! | `consumer`, `own` | consumers, and the probes of the provider `dtrace` |
//! | `state`, `make` | the state of a run, and how it is made |
//! | `buffer`, `pair`, `words` | records of a CPU, under each policy; two buffers, of which one is read |
//! | `speculation` | provisional records, until they are committed or discarded |
//! | `budget` | the budget of work of a hit |
//! | `live_id` | loading the id of a probe that was hit |

pub(crate) mod actions;
mod budget;
pub(crate) mod buffer;
pub(crate) mod clause;
pub(crate) mod consumer;
mod context;
pub(crate) mod field;
pub(crate) mod fire;
pub(crate) mod live_id;
pub(crate) mod make;
pub(crate) mod own;
pub(crate) mod pair;
mod plain;
mod speculation;
pub(crate) mod state;
pub(crate) mod step;
mod store;
mod surroundings;
pub(crate) mod words;
