//! Aggregations: their elements, merged from the snapshots of all CPUs, in order, and as distributions (dt_aggregate.c,
//! dt_consume.c).

pub(super) mod bar;
pub(super) mod distribution;
pub(super) mod entry;
mod hosts;
pub(super) mod label;
pub(super) mod loglinear;
mod merge;
mod order;
pub(super) mod packed;
pub(super) mod store;
pub(super) mod table;

/// The length of the longest bar under `aggzoom`, as a fraction of a full bar (`DTRACE_AGGZOOM_MAX`, dtrace.h).
const ZOOM: f64 = 0.95;
