//! What reading a file may cost.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::budget::Budget;

/// The bytes that are decompressed for one process at most: some five seconds of work.
const INFLATED: u64 = 1 << 30;

/// The memory and the work that reading a file may cost.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    pub budget: Budget,
    /// The most memory of the file, in bytes.
    pub most: u64,
    /// The bytes that may still be decompressed for the process.
    pub inflated: Arc<AtomicU64>,
}

impl Limits {
    /// Returns the limits of the first file of a process, with this budget and memory.
    pub fn new(budget: &Budget, most: u64) -> Self {
        Self { budget: budget.clone(), most, inflated: Arc::new(AtomicU64::new(INFLATED)) }
    }
}
