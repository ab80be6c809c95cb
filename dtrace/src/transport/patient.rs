//! A line on which nothing comes: that is said, once.

use std::time::{Duration, Instant};

use super::{Transport, TransportError};

/// So long it is waited before it is said.
const PATIENCE: Duration = Duration::from_secs(5);

/// A stream that says once that nothing has come on it, if nothing has for some seconds.
pub(super) struct Patient<T, F> {
    inner: T,
    since: Instant,
    /// Until it is said, or something has come.
    say: Option<F>,
}

impl<T, F: FnOnce()> Patient<T, F> {
    pub(super) fn new(inner: T, say: F) -> Self {
        Self { inner, since: Instant::now(), say: Some(say) }
    }
}

impl<T: Transport, F: FnOnce() + Send> Transport for Patient<T, F> {
    fn read(&mut self, buffer: &mut [u8], wait: Duration) -> Result<usize, TransportError> {
        let Some(say) = self.say.take() else { return self.inner.read(buffer, wait) };
        let left = PATIENCE.saturating_sub(self.since.elapsed());
        let length = self.inner.read(buffer, wait.min(left))?;
        if length == 0 {
            if self.since.elapsed() >= PATIENCE {
                say();
            } else {
                self.say = Some(say);
            }
        }
        // Who has more time asks again, as after a signal.
        Ok(length)
    }

    fn write(&mut self, bytes: &[u8], limit: Duration) -> Result<(), TransportError> {
        self.inner.write(bytes, limit)
    }
}
