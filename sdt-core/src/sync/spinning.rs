//! For hosts of which nothing is known.

pub use spin::{Mutex, MutexGuard};
