//! Who provides which probes: registration, the tables that probes are found in, the chains of their enablings.
//!
//! It does not know what an enabling is, nor who enables.

pub(crate) mod listing;
pub(crate) mod live;
pub mod registration;
mod search;
pub(crate) mod tables;

pub use listing::{Detail, ProbeInfo};
