//! The child of a `fork`: one thread, with a copy of everything.
//!
//! Nobody traces it. Before it goes on, its sites are nops again and its copies of the connections are closed; its parent
//! notices nothing. If the child is to be traced, it calls `start` itself.
//!
//! Who forks waits until the thread that answers consumers has nothing locked, and nobody is changing a provider that is made at run
//! time; the latter for a second, as it may be the thread itself, which a signal has interrupted. A fork in a
//! signal handler that has interrupted the recording of a hit cannot, as that thread may be waiting for the end of the hit; such a
//! child, and one that was made without the C library's handlers (`_Fork`, `vfork`, the system call), keeps its sites as
//! they are, and what they record is
//! read by nobody.

use std::cell::Cell;
use std::io;
use std::mem::ManuallyDrop;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

use sdt_core::attach::Standstill;
use sdt_framework::Held;

use crate::cpus::{Slots, in_probe_context};
use crate::process::{STATE, State, WANTED};
use crate::text::Text;

/// What others may have locked, in the order in which it is locked.
type Guards = (MutexGuard<'static, State>, Option<Standstill>, Option<Held<'static, Slots>>);
type Guard = ManuallyDrop<Guards>;

thread_local! {
    /// From before a fork until after it, in the thread that forks.
    static HELD: Cell<Option<Guard>> = const { Cell::new(None) };
}

/// Has the C library call the functions below, once.
pub(crate) fn heed() -> io::Result<()> {
    static HEEDED: Once = Once::new();
    let mut result = Ok(());
    HEEDED.call_once(|| {
        // SAFETY: they stay, and expect to be called around forks.
        let error = unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
        if error != 0 {
            result = Err(io::Error::from_raw_os_error(error));
        }
    });
    result
}

unsafe extern "C" fn prepare() {
    if in_probe_context() {
        return;
    }
    WANTED.fetch_add(1, Ordering::AcqRel);
    let guard = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    WANTED.fetch_sub(1, Ordering::AcqRel);
    let until = Instant::now() + Duration::from_secs(1);
    // Providers that are made at run time come and go without the lock.
    let standstill = Standstill::ask();
    within(until, || standstill.as_ref().filter(|asked| asked.is_reached()).map(drop));
    let held = guard.attached.and_then(|of| within(until, || of.dtrace.try_hold()));
    HELD.set(Some(ManuallyDrop::new((guard, standstill, held))));
}

/// Waits for something, but not for ever: who is in its way may be this very thread, which a signal has interrupted.
fn within<T>(until: Instant, mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    loop {
        let done = attempt();
        if done.is_some() || Instant::now() >= until {
            return done;
        }
        std::thread::yield_now();
    }
}

unsafe extern "C" fn parent() {
    drop(HELD.take().map(ManuallyDrop::into_inner));
}

unsafe extern "C" fn child() {
    let Some((mut state, standstill, held)) = HELD.take().map(ManuallyDrop::into_inner) else {
        return;
    };
    drop((held, standstill));
    // Others were waiting to fork, too.
    WANTED.store(0, Ordering::Release);
    if let Some(attached) = &state.attached {
        // SAFETY: the child's only thread, which was outside probe context.
        unsafe { attached.dtrace.host().take_back() };
    }
    if let Some(mut serving) = state.disown() {
        // Registered for the parent's memory only. If it fails, stores abort the child rather than go wrong; there is one
        // thread, and nothing is known that would have it fail.
        Text::prepare().ok();
        Text::alone(|| {
            serving.close_all();
            if let Some(attached) = &state.attached {
                attached.dtrace.close_anonymous();
            }
        });
    }
}
