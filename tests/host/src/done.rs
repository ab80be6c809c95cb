//! The end of what other threads do.

use std::sync::atomic::{AtomicBool, Ordering};

/// Sets the flag when dropped, so that the threads that look at it end even if who waits for them panics: a test that
/// fails says so, rather than never end.
#[derive(Debug)]
pub struct Done<'a>(pub &'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}
