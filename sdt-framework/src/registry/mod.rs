//! Who provides which probes: registration, the tables that probes are found in, listing.

pub(crate) mod links;
pub(crate) mod listing;
pub(crate) mod names;
mod origin;
pub(crate) mod provider;
pub mod registration;
mod search;
pub(crate) mod tables;

pub use listing::{Detail, ProbeInfo};
pub(crate) use origin::{Notify, Origin};
