//! The user's interrupt: Ctrl-C or SIGTERM.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Longest time between two checks of the flag while a run waits.
const BEAT: Duration = Duration::from_millis(50);

/// A flag that a signal handler raises to end the run in order.
#[derive(Debug, Default)]
pub struct Interrupt {
    raised: AtomicBool,
    /// Programs are being read and compiled.
    compiling: AtomicBool,
}

impl Interrupt {
    /// Creates a flag that is not raised.
    pub const fn new() -> Self {
        Self { raised: AtomicBool::new(false), compiling: AtomicBool::new(false) }
    }

    /// Raises the flag. Returns whether the caller must end the process at once: if the flag was raised before, or
    /// while programs are being compiled, when there is no trace yet to end in order.
    ///
    /// Callable from a signal handler.
    pub fn raise(&self) -> bool {
        self.raised.swap(true, Ordering::Relaxed) || self.compiling.load(Ordering::Relaxed)
    }

    /// Returns whether the flag is raised.
    pub fn raised(&self) -> bool {
        self.raised.load(Ordering::Relaxed)
    }

    /// Runs `f`, during which an interrupt ends the process at once.
    pub(super) fn while_compiling<R>(&self, f: impl FnOnce() -> R) -> R {
        self.compiling.store(true, Ordering::Relaxed);
        let done = f();
        self.compiling.store(false, Ordering::Relaxed);
        done
    }

    /// Waits until the time is over or the flag is raised.
    pub(super) fn wait(&self, mut time: Duration) {
        while !self.raised() && !time.is_zero() {
            let part = time.min(BEAT);
            std::thread::sleep(part);
            time -= part;
        }
    }
}
