//! The end of tracing: [`Process`](crate::Process) is dropped, or the program calls `exit`.
//!
//! The worker thread may wait for a hit that does not end, with the tracing state locked. A thread of the program that changes a provider
//! may do the same, and the ending thread itself may have been interrupted with the state locked. So the end waits for no lock without a
//! limit.
//!
//! If a seccomp filter has been installed that may not allow the system calls of the end, nothing is done: the kernel ends the worker thread
//! and closes the socket together with the process.

use std::io;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::state::{self, GRACE, RETRY, State};
use crate::{fork, sandbox};

/// Whether tracing is to end. The worker thread checks it, as it may hold the lock of the state for long.
static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Cancels the request of an earlier end, when tracing starts.
pub(crate) fn reset() {
    REQUESTED.store(false, Ordering::Release);
}

/// Begins to end tracing if that was requested. Returns whether it was.
pub(crate) fn begin_if_requested(state: &mut State) -> bool {
    let is_requested = REQUESTED.load(Ordering::Acquire);
    if is_requested {
        state.begin_end();
    }
    is_requested
}

/// Makes the worker thread end tracing, and waits for that. Returns whether the thread has ended it after `patience`. If not, the thread
/// ends it as soon as it can.
///
/// Ends tracing in the current thread, and returns `false`, if the worker thread cannot be woken: the program has closed its descriptors.
/// Does nothing, and returns `false`, if a seccomp filter may forbid the calls of the end.
pub(crate) fn end_tracing(patience: Duration) -> bool {
    if sandbox::may_end_the_process() {
        return false;
    }
    let deadline = Instant::now() + patience;
    REQUESTED.store(true, Ordering::Release);
    let lock_deadline = Instant::now() + GRACE;
    let locked = state::lock_first(|| {
        std::thread::sleep(RETRY);
        Instant::now() < lock_deadline
    });
    let Some(mut state) = locked else { return false };
    // The child of a `fork` does not end the tracing of its parent.
    if state.attached.is_none_or(|attached| attached.process != std::process::id()) {
        return false;
    }
    if !state.can_wake() {
        // The worker thread may never run again, so consumers get no time to fetch remaining data: their connections
        // close now.
        state.end();
        return false;
    }
    state.wake();
    drop(state);
    loop {
        if state::try_lock().is_some_and(|state| state.server.is_none()) {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(RETRY);
    }
}

/// Makes the C library end tracing when the program calls `exit`. Does so once.
///
/// # Errors
/// `atexit` has no room.
pub(crate) fn register_at_exit() -> io::Result<()> {
    static REGISTERED: Once = Once::new();
    let mut result = Ok(());
    REGISTERED.call_once(|| {
        // SAFETY: `at_exit` is a function of this image, which stays loaded until the process ends (`Image::keep`).
        if unsafe { libc::atexit(at_exit) } != 0 {
            result = Err(io::ErrorKind::OutOfMemory.into());
        }
    });
    result
}

extern "C" fn at_exit() {
    if fork::is_owner() {
        end_tracing(GRACE);
    }
}
