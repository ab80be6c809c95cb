//! Regular searches for libraries that a process has loaded.

use std::time::{Duration, Instant};

use super::timer::Timer;
use crate::client::ClientError;
use crate::kernel::Kernel;

/// Shortest time between two searches for new libraries; and the part of the time that the searches take at most, as its reciprocal.
const LIBRARIES: Duration = Duration::from_millis(100);
const SHARE: u32 = 100;

/// The searches of one trace.
#[derive(Clone, Copy, Debug)]
pub(super) struct LibrarySearch {
    last: Timer,
    /// The time between two searches.
    rate: Duration,
}

impl LibrarySearch {
    /// Returns searches of which the first one is due at once.
    pub(super) fn new() -> Self {
        Self { last: Timer::default(), rate: LIBRARIES }
    }

    /// Traces functions of libraries that the process has loaded since the last search, if a search is due.
    ///
    /// # Errors
    /// The process or the connection failed.
    pub(super) fn work(&mut self, kernel: &Kernel) -> Result<(), ClientError> {
        if !self.last.now(self.rate, false) {
            return Ok(());
        }
        let begin = Instant::now();
        kernel.trace_new_libraries()?;
        self.rate = LIBRARIES.max(begin.elapsed().saturating_mul(SHARE));
        Ok(())
    }
}
