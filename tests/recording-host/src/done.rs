//! Ends the loops of other threads.

use std::sync::atomic::{AtomicBool, Ordering};

/// Sets the flag when dropped. The threads that poll it then end even if the thread that waits for them panics, so that a
/// failing test ends.
#[derive(Debug)]
pub struct Done<'a>(pub &'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}
