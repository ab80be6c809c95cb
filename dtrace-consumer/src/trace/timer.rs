//! The times of regular events.

use std::time::{Duration, Instant};

/// The time of the last of a series of regular events.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Timer(Option<Instant>);

impl Timer {
    /// Returns the time left until the next event.
    pub(super) fn left(self, rate: Duration) -> Duration {
        self.0.map_or(Duration::ZERO, |last| rate.saturating_sub(last.elapsed()))
    }

    /// Returns the time since the last event; zero if there was none.
    pub(super) fn elapsed(self) -> Duration {
        self.0.map_or(Duration::ZERO, |last| last.elapsed())
    }

    /// Returns whether the event is due, and if so starts the time until the next one. `at_once` makes it due.
    pub(super) fn now(&mut self, rate: Duration, at_once: bool) -> bool {
        let due = at_once || self.left(rate).is_zero();
        if due {
            self.0 = Some(Instant::now());
        }
        due
    }
}
