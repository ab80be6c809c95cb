//! Waits until no thread uses sites that are being removed.
//!
//! A signal handler that searches the table of sites holds no slot yet. It counts itself in one of two counters, the one of the current
//! epoch. A waiter begins the next epoch, and waits until the counter of the earlier one is zero: handlers that begin later see the table
//! without the removed sites.

use std::sync::atomic::{AtomicUsize, Ordering};

static EPOCH: AtomicUsize = AtomicUsize::new(0);
static COUNTS: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// A signal handler that may search the table of sites. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Handler(&'static AtomicUsize);

impl Handler {
    pub(super) fn begin() -> Self {
        loop {
            let epoch = EPOCH.load(Ordering::SeqCst);
            let count = &COUNTS[epoch & 1];
            count.fetch_add(1, Ordering::SeqCst);
            if EPOCH.load(Ordering::SeqCst) == epoch {
                return Self(count);
            }
            // The epoch has changed: a waiter may have seen a count of zero before this handler increased it.
            count.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Waits for the end of all handlers that have begun. Only one thread at a time may call this: callers hold the framework's lock.
pub(crate) fn wait_for_handlers() {
    let epoch = EPOCH.fetch_add(1, Ordering::SeqCst);
    while COUNTS[epoch & 1].load(Ordering::SeqCst) != 0 {
        std::thread::yield_now();
    }
}

/// Clears the counters in the child of a `fork`: the threads of the parent do not exist there.
pub(crate) fn forget_handlers() {
    COUNTS.iter().for_each(|count| count.store(0, Ordering::SeqCst));
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn waiting_ends_after_the_handlers() {
        let (is_over, begun) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let handler = Handler::begin();
                begun.store(true, Ordering::SeqCst);
                std::thread::sleep(std::time::Duration::from_millis(20));
                is_over.store(true, Ordering::SeqCst);
                drop(handler);
            });
            while !begun.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            wait_for_handlers();
            assert!(is_over.load(Ordering::SeqCst));
        });
        let _later = Handler::begin();
        let _other = Handler::begin();
        forget_handlers();
        wait_for_handlers();
        // `forget_handlers` has cleared the counters, so these values must not decrement them.
        std::mem::forget((_later, _other));
    }
}
