//! A transport that reports once if no data arrive.

use std::time::{Duration, Instant};

use super::{Transport, TransportError};

/// Time without data after which it reports.
const PATIENCE: Duration = Duration::from_secs(5);

/// A transport that calls a function once if no data have arrived for some seconds.
pub(super) struct Patient<T, F> {
    inner: T,
    since: Instant,
    /// The function, until it is called or data have arrived.
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
        // May return before `wait` is over without data, as after a signal: the caller then reads again.
        Ok(length)
    }

    fn write(&mut self, bytes: &[u8], limit: Duration) -> Result<(), TransportError> {
        self.inner.write(bytes, limit)
    }
}
