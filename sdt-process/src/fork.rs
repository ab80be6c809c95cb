//! The child of a `fork`: one thread, with a copy of everything.
//!
//! Nobody traces it. Before it goes on, its sites are nops again and its copies of the connections are closed; its parent
//! notices nothing. If the child is to be traced, it calls `start` itself.
//!
//! Who forks waits until the thread that answers consumers has nothing locked, and nobody is changing a provider that is made at run
//! time; the latter for a second, as it may be the thread itself, which a signal has interrupted. So long it waits for the former, too,
//! while that is stuck: somebody has the framework locked who may in turn wait for this thread. For ten seconds at most: the thread
//! may itself wait for a hit that does not end, or for a file.
//!
//! A fork in a signal handler that has interrupted the recording of a hit cannot wait, as that thread may be waiting for the end of the
//! hit; nor can one of a thread that has something of ours locked itself, in [`Rules`](sdt_core::runtime::Rules) of the program's or a
//! signal handler. The child of a fork that did not wait, or not for long enough, and one that was made without the C library's
//! handlers (`_Fork`, the system call), is not the owner of what there is: it keeps its sites as they are, what they record is
//! read by nobody, and it cannot be started.

use std::cell::Cell;
use std::io;
use std::mem::ManuallyDrop;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use sdt_core::attach::Standstill;
use sdt_framework::Held;

use crate::cpus::{Slots, in_probe_context};
use crate::process::{self, Locked, WANTED};
use crate::text::Text;
use crate::{kept, lock};

/// What others may have locked, in the order in which it is let go of: who has got the last of it finds the others free.
type Guards = (Option<Held<'static, Slots>>, Option<Standstill>, Locked);
type Guard = ManuallyDrop<Guards>;

thread_local! {
    /// From before a fork until after it, in the thread that forks.
    static HELD: Cell<Option<Guard>> = const { Cell::new(None) };
    /// Forks that this thread is at and has locked nothing for.
    static WITHOUT: Cell<usize> = const { Cell::new(0) };
}

/// The process whose state this is, from the first `start` on. A child that does not become it has locks that somebody has who is not
/// there.
static OWNER: AtomicU32 = AtomicU32::new(0);
/// No process.
const NOBODY: u32 = u32::MAX;

/// Whether it is this process's, which it is from now on if it has been nobody's.
pub(crate) fn is_ours() -> bool {
    let process = std::process::id();
    match OWNER.compare_exchange(0, process, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => true,
        Err(owner) => owner == process,
    }
}

/// Whether nothing was locked for the fork that is over.
fn was_without() -> bool {
    let forks = WITHOUT.get();
    WITHOUT.set(forks.saturating_sub(1));
    forks != 0
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
    let guard = if in_probe_context() || lock::is_mine() || !is_ours() { None } else { state() };
    let Some(guard) = guard else {
        WITHOUT.set(WITHOUT.get() + 1);
        return;
    };
    // Providers that are made at run time come and go without the lock.
    let standstill = Standstill::ask();
    patiently(|| standstill.as_ref().filter(|asked| asked.is_reached()).map(drop));
    let held = guard.attached.and_then(|of| patiently(|| of.dtrace.try_hold()));
    HELD.set(Some(ManuallyDrop::new((held, standstill, guard))));
}

/// How long is waited for who may wait for this thread, or be this thread.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long is waited for the thread that answers, at most: a request takes milliseconds, on a busy machine more.
const LONGEST: Duration = Duration::from_secs(10);

/// Waits for the state, unless the thread that has it locked is stuck.
fn state() -> Option<Locked> {
    WANTED.fetch_add(1, Ordering::AcqRel);
    let (mut stuck_since, start) = (None, Instant::now());
    let state = loop {
        let state = process::try_lock();
        if state.is_some() {
            break state;
        }
        if start.elapsed() >= LONGEST {
            break None;
        }
        if !lock::is_any_stuck() {
            stuck_since = None;
        } else if stuck_since.get_or_insert_with(Instant::now).elapsed() >= PATIENCE {
            break None;
        }
        std::thread::yield_now();
    };
    WANTED.fetch_sub(1, Ordering::AcqRel);
    state
}

/// Waits for something: who is in its way may be this very thread, which a signal has interrupted, or wait for it.
fn patiently<T>(mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    let until = Instant::now() + PATIENCE;
    loop {
        let done = attempt();
        if done.is_some() || Instant::now() >= until {
            return done;
        }
        std::thread::yield_now();
    }
}

unsafe extern "C" fn parent() {
    if was_without() {
        return;
    }
    drop(HELD.take().map(ManuallyDrop::into_inner));
}

unsafe extern "C" fn child() {
    // Said, as the child's number may be its parent's in a namespace of its own.
    OWNER.store(NOBODY, Ordering::Release);
    disown();
    kept::close_all();
}

/// Makes the child nobody's: its sites are nops, and its copies of what its parent has open are closed.
fn disown() {
    if was_without() {
        return;
    }
    let Some((held, standstill, mut state)) = HELD.take().map(ManuallyDrop::into_inner) else {
        return;
    };
    let is_still = standstill.as_ref().is_some_and(Standstill::is_reached);
    if is_still && (state.attached.is_none() || held.is_some()) {
        OWNER.store(std::process::id(), Ordering::Release);
    }
    if held.is_none() {
        // If there is a framework, a thread has it locked that is not here.
        state.attached = None;
    }
    drop((held, standstill));
    // Others were waiting to fork, too, or for the framework.
    WANTED.store(0, Ordering::Release);
    lock::nobody_is_stuck();
    if let Some(attached) = &state.attached {
        // SAFETY: the child's only thread, which was outside probe context.
        unsafe { attached.dtrace.host().take_back() };
    }
    if let Some(mut serving) = state.disown()
        && let Some(attached) = &state.attached
    {
        let is_restored = Text::alone(|| {
            serving.close_all();
            let _ = attached.dtrace.close_anonymous();
        });
        if !is_restored {
            // Its sites do what they did in its parent.
            OWNER.store(NOBODY, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::sync::{Mutex, PoisonError, TryLockError};
    use std::thread;

    use super::*;
    use crate::process::STATE;

    /// One test at a time: they are one process.
    static TURN: Mutex<()> = Mutex::new(());

    /// A signal handler forks, which has interrupted a fork.
    #[test]
    fn a_fork_within_a_fork_lets_nothing_go() {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let is_held = || matches!(STATE.try_lock(), Err(TryLockError::WouldBlock));
        // SAFETY: as around forks, after which this is the parent.
        unsafe {
            prepare();
            prepare();
            parent();
            assert!(is_held());
            parent();
        }
        assert!(!is_held());
    }

    /// One thread has forked, and another one is about to: it need not wait for what the first has not let go of yet.
    #[test]
    fn who_forks_next_finds_everything_let_go_of() {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        for round in 0..500 {
            let is_there = AtomicBool::new(false);
            // SAFETY: as before a fork, after which this is the parent.
            unsafe { prepare() };
            let found = thread::scope(|scope| {
                let next = scope.spawn(|| {
                    is_there.store(true, Ordering::Release);
                    let _state = loop {
                        match STATE.try_lock() {
                            Ok(state) => break state,
                            Err(TryLockError::Poisoned(state)) => break state.into_inner(),
                            Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
                        }
                    };
                    Standstill::ask().is_some()
                });
                while !is_there.load(Ordering::Acquire) {
                    thread::yield_now();
                }
                // SAFETY: as above.
                unsafe { parent() };
                next.join().unwrap()
            });
            assert!(found, "{round}");
        }
    }
}
