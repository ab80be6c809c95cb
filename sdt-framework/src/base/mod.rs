//! The base of all layers: memory, locks and atomics, the host, and small data structures.

pub(crate) mod arena;
pub(crate) mod chain;
pub(crate) mod context;
pub(crate) mod counters;
pub(crate) mod growing;
pub(crate) mod host;
pub(crate) mod links;
pub(crate) mod names;
pub(crate) mod origin;
pub(crate) mod pages;
pub(crate) mod prefix;
pub(crate) mod rights;
pub(crate) mod sync;
pub(crate) mod word;
