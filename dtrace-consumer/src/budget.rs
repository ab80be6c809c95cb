//! The memory that one peer may make dtrace use.
//!
//! A kernel, a traced process or a dump decides how many probes it lists, how large its buffers are and how many
//! elements its aggregations have. All of this memory is charged to one [`Budget`] for each connection: [`DEFAULT`]
//! bytes, or the value of `-x memory=SIZE`. An answer that would exceed the budget ends the trace with [`OverBudget`].
//!
//! | use | charged |
//! |---|---|
//! | probes, sites, argument types | while dtrace reads an answer |
//! | declarations | for the whole connection, [`DECLARED`] times their text: the compiler keeps their types |
//! | descriptions of records, aggregations, formats | for the whole connection |
//! | symbols | while cached; dtrace empties the cache at [`SYMBOLS`] bytes |
//! | buffers of records | until dtrace has shown them |
//! | elements of aggregations | until `trunc` removes them |
//! | mapped files of a traced process | for the whole connection, at most half of the budget: then functions have no names |
//!
//! Frames have 64 KiB at most and are not charged.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The default limit, in bytes.
pub const DEFAULT: u64 = 1 << 30;
/// The charge for each byte of a declaration. In measurements, the compiler needed 110 bytes for each byte of text.
pub const DECLARED: u64 = 128;
/// The size of the cache of symbols, in bytes.
pub const SYMBOLS: u64 = 16 << 20;

/// A use of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Probes, their sites and the types of their arguments.
    Probes,
    /// Declarations of modules for programs in D.
    Declarations,
    /// Descriptions of records and aggregations, and formats.
    Descriptions,
    /// Symbols.
    Symbols,
    /// Buffers of records and of aggregations.
    Buffers,
    /// Elements of aggregations.
    Aggregations,
    /// Mapped files of a traced process, their symbols and debug information.
    Objects,
}

impl std::fmt::Display for Use {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Probes => "probes",
            Self::Declarations => "declarations",
            Self::Descriptions => "descriptions",
            Self::Symbols => "symbols",
            Self::Buffers => "buffers",
            Self::Aggregations => "aggregations",
            Self::Objects => "mapped files",
        })
    }
}

/// A peer would exceed its budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the {what} exceed the memory that dtrace keeps for one kernel or process ({limit} bytes): -x memory=SIZE raises the limit"
)]
pub struct OverBudget {
    /// The use that exceeded it.
    pub what: Use,
    /// The limit in bytes.
    pub limit: u64,
}

#[derive(Debug)]
struct Inner {
    limit: AtomicU64,
    used: AtomicU64,
}

/// The memory of one connection. Clones share one limit and one count.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Inner>);

impl Default for Budget {
    fn default() -> Self {
        Self::new(DEFAULT)
    }
}

impl Budget {
    /// Creates a budget of `limit` bytes.
    pub fn new(limit: u64) -> Self {
        Self(Arc::new(Inner { limit: limit.into(), used: 0.into() }))
    }

    /// Changes the limit; shares stay as they are.
    pub fn set_limit(&self, limit: u64) {
        self.0.limit.store(limit, Ordering::Relaxed);
    }

    /// Returns the limit in bytes.
    pub fn limit(&self) -> u64 {
        self.0.limit.load(Ordering::Relaxed)
    }

    /// Returns the bytes in use.
    pub fn used(&self) -> u64 {
        self.0.used.load(Ordering::Relaxed)
    }

    /// Creates an empty share.
    pub fn share(&self, what: Use) -> Share {
        Share { budget: self.clone(), what, bytes: 0 }
    }
}

/// A part of a budget; dropping it releases its bytes.
#[derive(Debug)]
pub struct Share {
    budget: Budget,
    what: Use,
    bytes: u64,
}

impl Share {
    /// Returns its size in bytes.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds bytes.
    ///
    /// # Errors
    /// The budget has fewer bytes left; the share stays as it is.
    pub fn add(&mut self, bytes: u64) -> Result<(), OverBudget> {
        let Inner { limit, used } = &*self.budget.0;
        let limit = limit.load(Ordering::Relaxed);
        let more = |used: u64| used.checked_add(bytes).filter(|all| *all <= limit);
        match used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => {
                self.bytes += bytes;
                Ok(())
            }
            Err(_) => Err(OverBudget { what: self.what, limit }),
        }
    }

    /// Releases `bytes` bytes, or all bytes of the share if it has fewer.
    pub fn release(&mut self, bytes: u64) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.budget.0.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Changes its size.
    ///
    /// # Errors
    /// See [`add`](Self::add).
    pub fn set(&mut self, bytes: u64) -> Result<(), OverBudget> {
        match bytes.checked_sub(self.bytes) {
            Some(more) => self.add(more),
            None => {
                self.release(self.bytes - bytes);
                Ok(())
            }
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.release(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_count_against_one_budget_until_released() {
        let budget = Budget::new(100);
        let mut probes = budget.share(Use::Probes);
        let mut buffers = budget.share(Use::Buffers);
        probes.add(60).unwrap();
        buffers.add(40).unwrap();
        let error = buffers.add(1).unwrap_err();
        assert_eq!(error, OverBudget { what: Use::Buffers, limit: 100 });
        assert_eq!(
            error.to_string(),
            "the buffers exceed the memory that dtrace keeps for one kernel or process (100 bytes): -x memory=SIZE raises the limit"
        );
        drop(probes);
        buffers.set(100).unwrap();
        assert_eq!(buffers.add(u64::MAX).unwrap_err().what, Use::Buffers);
        buffers.set(3).unwrap();
        assert_eq!((budget.used(), buffers.bytes()), (3, 3));
        buffers.release(7);
        assert_eq!(budget.used(), 0);
    }
}
