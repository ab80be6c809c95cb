//! Providers and their probes: registration, the tables of probes, and the chains of their enablings.
//!
//! It is generic over enablings, and does not depend on consumers.

pub(crate) mod listing;
pub(crate) mod live;
pub mod registration;
mod search;
pub(crate) mod tables;

pub use listing::{Detail, ProbeInfo};
