//! Whether the records have been checked, sorted and linked.

use core::sync::atomic::{AtomicBool, Ordering};

static LINKED: AtomicBool = AtomicBool::new(false);

/// Returns whether the records have been linked, so that the sites can be looked up. Probe context.
pub(crate) fn is_linked() -> bool {
    LINKED.load(Ordering::Acquire)
}

/// Marks the records as linked.
pub(crate) fn set_linked() {
    LINKED.store(true, Ordering::Release);
}
