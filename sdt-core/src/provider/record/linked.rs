//! Whether the records have been checked, sorted and tied together.

use core::sync::atomic::{AtomicBool, Ordering};

static LINKED: AtomicBool = AtomicBool::new(false);

/// Returns whether the records have been linked, so that the sites can be looked up. Probe context.
pub(crate) fn is_linked() -> bool {
    LINKED.load(Ordering::Acquire)
}

/// Records that the records have been linked.
pub(crate) fn set_linked() {
    LINKED.store(true, Ordering::Release);
}
