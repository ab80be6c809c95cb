//! `fork` in a traced process.
//!
//! The child is not traced. Before `fork` returns in it, its sites are nops and its copies of the connections are closed. The parent
//! notices nothing. The child may call [`start`](crate::start) itself.
//!
//! # The state
//!
//! A child has a copy of all memory, but only the thread that forked. If another thread of the parent was changing the tracing state at
//! that moment, the copy is in the middle of that change and can never be used. So [`ForkState`] says to which process the tracing state
//! in this memory belongs:
//!
//! | state | event | next state | effect |
//! |---|---|---|---|
//! | `Unused` | `Start` by process P | `Owned(P)` | P may be traced |
//! | `Owned(P)` | `Start` | `Owned(P)` | any process but P gets [`StartError::Forked`](crate::StartError::Forked): it was made by `_Fork` or the bare system call |
//! | `Owned(P)` | `ChildBegins` | `Orphaned` | until the child has proved that its copy is consistent |
//! | `Orphaned` | `LocksWereHeld` by child C | `Owned(C)` | C puts its sites back and closes its copies of the connections; `start` works in it |
//! | `Owned(C)` | `SitesWereNotRestored` | `Orphaned` | a sandbox does not let the child change its text |
//! | `Orphaned` | `Start` | `Orphaned` | `StartError::Forked`. Sites stay as they were, and no consumer sees what they record |
//!
//! Any other pair leaves the state as it is. The parent's state never changes in a fork.
//!
//! # The order of the locks
//!
//! | | lock | held for |
//! |---|---|---|
//! | 1 | the tracing state (`state.rs`) | every call into the framework from outside of a hit, except those of providers made at run time |
//! | 2 | the standstill of providers ([`Standstill`]) | attaching, and opening, changing or closing a provider made at run time |
//! | 3 | the framework's (`lock.rs`) | the functions of the framework |
//!
//! A forking thread takes them in this order and releases them in the opposite one, so a thread that gets lock 1 finds the others free.
//! Both the parent and the child release them: [`Locks`].
//!
//! # How long a fork waits
//!
//! | for | at most | why not longer |
//! |---|---|---|
//! | lock 1 | 10 s | the worker thread may wait for a hit that does not end, or for a file |
//! | lock 1, while its holder waits for lock 3 | 1 s | the holder of lock 3 may be waiting for the forking thread |
//! | locks 2 and 3, each | 1 s | their holder may be the forking thread itself, interrupted by a signal, or wait for it |
//! | anything, in the middle of a hit, or with a lock of this crate held | 0 | the forking thread would wait for itself, as in a signal handler or in [`Rules`](sdt_core::runtime::Rules) |
//!
//! The child of a fork that got fewer than all locks is `Orphaned`.

use std::cell::Cell;
use std::io;
use std::mem::ManuallyDrop;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use sdt_core::attach::Standstill;
use sdt_framework::Held;

use crate::slots::Slots;
use crate::state::{self, Locked};
use crate::text::Text;
use crate::{hit, lock, proc_file, sampling};

/// The process to which the tracing state in this memory belongs. The [module](self) has the table of transitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ForkState {
    /// It belongs to no process yet.
    Unused,
    /// It belongs to this process.
    Owned(u32),
    /// It is a copy that no process can use.
    Orphaned,
}

/// An event that changes a [`ForkState`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// The process calls `start`.
    Start,
    /// The C library calls [`child`].
    ChildBegins,
    /// The child found that the forking thread held all locks.
    LocksWereHeld,
    /// The child could not put all its sites back.
    SitesWereNotRestored,
}

impl ForkState {
    /// Returns the state after an event in this process: the table of the [module](self).
    const fn after(self, event: Event, process: u32) -> Self {
        match (self, event) {
            (Self::Unused, Event::Start) => Self::Owned(process),
            (Self::Owned(_), Event::ChildBegins) => Self::Orphaned,
            (Self::Orphaned, Event::LocksWereHeld) => Self::Owned(process),
            (Self::Owned(_), Event::SitesWereNotRestored) => Self::Orphaned,
            (
                Self::Unused,
                Event::ChildBegins | Event::LocksWereHeld | Event::SitesWereNotRestored,
            )
            | (Self::Owned(_), Event::Start | Event::LocksWereHeld)
            | (Self::Orphaned, Event::Start | Event::ChildBegins | Event::SitesWereNotRestored) => {
                self
            }
        }
    }

    const UNUSED: u32 = 0;
    const ORPHANED: u32 = u32::MAX;

    const fn encoded(self) -> u32 {
        match self {
            Self::Unused => Self::UNUSED,
            Self::Owned(process) => process,
            Self::Orphaned => Self::ORPHANED,
        }
    }

    const fn decoded(word: u32) -> Self {
        match word {
            Self::UNUSED => Self::Unused,
            Self::ORPHANED => Self::Orphaned,
            process => Self::Owned(process),
        }
    }
}

/// The [`ForkState`] of this process, encoded. Process numbers of Linux are from 1 to 2^22.
static STATE: AtomicU32 = AtomicU32::new(ForkState::UNUSED);

/// Applies an event to the state, and returns the new one.
fn apply(event: Event) -> ForkState {
    let process = std::process::id();
    let next = |word| ForkState::decoded(word).after(event, process);
    let before =
        STATE.fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| Some(next(word).encoded()));
    // The update cannot fail, as the closure never returns `None`: both variants have the earlier word.
    next(before.unwrap_or_else(|word| word))
}

/// Claims the tracing state for this process. Returns `false` if the state belongs to another process or is orphaned.
pub(crate) fn claim() -> bool {
    apply(Event::Start) == ForkState::Owned(std::process::id())
}

/// Returns whether the tracing state belongs to this process.
pub(crate) fn is_owner() -> bool {
    ForkState::decoded(STATE.load(Ordering::Acquire)) == ForkState::Owned(std::process::id())
}

/// The locks that a thread holds while it forks. Fields are dropped in the order in which the locks are released.
struct Locks {
    /// Lock 3. `None` if it was not free in time, or if there is no framework yet.
    framework: Option<Held<'static, Slots>>,
    /// Lock 2. `None` if another thread forks at the same time.
    providers: Option<Standstill>,
    /// Lock 1.
    state: Locked,
}

impl Locks {
    /// Takes the locks in their order, with the limits of the [module](self). Returns `None` if lock 1 cannot be taken.
    fn take() -> Option<Self> {
        if hit::in_probe_context() || lock::is_held_here() || !is_owner() {
            return None;
        }
        let state = lock_state()?;
        let providers = Standstill::ask();
        retry(|| providers.as_ref().filter(|standstill| standstill.is_reached()).map(drop));
        let framework = state.attached.and_then(|attached| retry(|| attached.dtrace.try_hold()));
        Some(Self { framework, providers, state })
    }

    /// Returns whether all locks are held, so that a copy of the memory is consistent.
    fn are_complete(&self) -> bool {
        self.providers.as_ref().is_some_and(Standstill::is_reached)
            && (self.state.attached.is_none() || self.framework.is_some())
    }
}

thread_local! {
    /// The locks of this thread, from before a fork until after it.
    static LOCKS: Cell<Option<ManuallyDrop<Locks>>> = const { Cell::new(None) };
    /// The number of forks in progress in this thread for which no locks were taken. Forks nest if a signal handler
    /// forks.
    static WITHOUT_LOCKS: Cell<usize> = const { Cell::new(0) };
}

/// The longest wait for a thread that may wait for this one, or be this one.
const LIMIT: Duration = Duration::from_secs(1);
/// The longest wait for the worker thread. A request takes milliseconds, and longer on a busy machine.
const WORKER_LIMIT: Duration = Duration::from_secs(10);

/// Makes the C library call the functions below around each fork. Does so once.
///
/// # Errors
/// `pthread_atfork` has no memory.
pub(crate) fn register_handlers() -> io::Result<()> {
    static REGISTERED: Once = Once::new();
    let mut result = Ok(());
    REGISTERED.call_once(|| {
        // SAFETY: the handlers are functions of this image, which stays loaded until the process ends (`Image::keep`).
        let error = unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
        if error != 0 {
            result = Err(io::Error::from_raw_os_error(error));
        }
    });
    result
}

/// Takes the locks. The C library calls this before a fork, in the forking thread.
unsafe extern "C" fn prepare() {
    match Locks::take() {
        Some(locks) => LOCKS.set(Some(ManuallyDrop::new(locks))),
        None => WITHOUT_LOCKS.set(WITHOUT_LOCKS.get() + 1),
    }
}

/// Releases the locks. The C library calls this after a fork, in the forking thread.
unsafe extern "C" fn parent() {
    drop(take_locks());
}

/// Makes the child an untraced process. The C library calls this in its only thread.
unsafe extern "C" fn child() {
    // The process number is not compared: in a pid namespace of its own, the child may have the number of its parent.
    apply(Event::ChildBegins);
    if let Some(locks) = take_locks() {
        take_over(locks);
    }
    proc_file::close_all();
}

/// Returns the locks that [`prepare`] took for the fork that ends; `None` if it took none.
fn take_locks() -> Option<Locks> {
    let without = WITHOUT_LOCKS.get();
    if without != 0 {
        WITHOUT_LOCKS.set(without - 1);
        return None;
    }
    LOCKS.take().map(ManuallyDrop::into_inner)
}

/// Takes the lock of the tracing state, unless its holder is blocked or busy for too long.
fn lock_state() -> Option<Locked> {
    let (mut blocked_since, start) = (None, Instant::now());
    state::lock_first(|| {
        std::thread::yield_now();
        if start.elapsed() >= WORKER_LIMIT {
            return false;
        }
        if !lock::is_any_thread_blocked() {
            blocked_since = None;
            return true;
        }
        blocked_since.get_or_insert_with(Instant::now).elapsed() < LIMIT
    })
}

/// Repeats an attempt until it succeeds, for at most [`LIMIT`].
fn retry<T>(mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + LIMIT;
    loop {
        let result = attempt();
        if result.is_some() || Instant::now() >= deadline {
            return result;
        }
        std::thread::yield_now();
    }
}

/// Puts the child's sites back, and closes its copies of the parent's sockets and files. If the locks are complete, the tracing
/// state belongs to the child from then on.
fn take_over(locks: Locks) {
    if locks.are_complete() {
        apply(Event::LocksWereHeld);
    }
    let Locks { framework, providers, mut state } = locks;
    if framework.is_none() {
        // A thread of the parent has the framework locked, so in the child it stays locked.
        state.attached = None;
    }
    drop((framework, providers));
    state::forget_waiting_threads();
    lock::forget_blocked_threads();
    if let Some(attached) = &state.attached {
        // SAFETY: this is the only thread of the child, and it holds no slot: `Locks::take` refuses in probe context.
        unsafe { attached.dtrace.host().release_all() };
        sampling::release_stacks();
    }
    if let Some(mut server) = state.take_server()
        && let Some(attached) = &state.attached
    {
        let is_restored = Text::change_alone(|| {
            server.close_all();
            let _ = attached.dtrace.close_anonymous();
        });
        if !is_restored {
            apply(Event::SitesWereNotRestored);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::sync::{Mutex, PoisonError};
    use std::thread;

    use super::*;

    /// Serialises the tests, which share the state of the process.
    static TURN: Mutex<()> = Mutex::new(());

    /// Each row of the table in the module's documentation is a transition in the code.
    #[test]
    fn transitions_are_those_of_the_table() {
        use Event::{ChildBegins, LocksWereHeld, SitesWereNotRestored, Start};
        use ForkState::{Orphaned, Owned, Unused};
        let rows = [
            (Unused, Start, Owned(7)),
            (Owned(5), Start, Owned(5)),
            (Owned(5), ChildBegins, Orphaned),
            (Orphaned, LocksWereHeld, Owned(7)),
            (Owned(5), SitesWereNotRestored, Orphaned),
            (Orphaned, Start, Orphaned),
        ];
        for state in [Unused, Owned(5), Orphaned] {
            assert_eq!(ForkState::decoded(state.encoded()), state);
            for event in [Start, ChildBegins, LocksWereHeld, SitesWereNotRestored] {
                let row = rows.iter().find(|(from, by, _)| (*from, *by) == (state, event));
                let expected = row.map_or(state, |(.., to)| *to);
                assert_eq!(state.after(event, 7), expected, "{state:?}, {event:?}");
            }
        }
    }

    /// A signal handler that forks has interrupted a fork.
    #[test]
    fn a_fork_within_a_fork_releases_nothing() {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let is_locked =
            || thread::scope(|scope| scope.spawn(|| state::try_lock().is_none()).join());
        assert!(claim());
        // SAFETY: the calls are those around two forks in the parent.
        unsafe {
            prepare();
            prepare();
            parent();
            assert!(is_locked().unwrap());
            parent();
        }
        assert!(!is_locked().unwrap());
    }

    /// While one thread ends its fork, the next one begins.
    #[test]
    fn the_next_fork_finds_all_locks_free() {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(claim());
        for round in 0..500 {
            let is_running = AtomicBool::new(false);
            // SAFETY: the calls are those around a fork in the parent.
            unsafe { prepare() };
            let found = thread::scope(|scope| {
                let next = scope.spawn(|| {
                    is_running.store(true, Ordering::Release);
                    let _state = loop {
                        match state::try_lock() {
                            Some(state) => break state,
                            None => std::hint::spin_loop(),
                        }
                    };
                    Standstill::ask().is_some()
                });
                while !is_running.load(Ordering::Acquire) {
                    thread::yield_now();
                }
                // SAFETY: the calls are those around a fork in the parent.
                unsafe { parent() };
                next.join().unwrap()
            });
            assert!(found, "{round}");
        }
    }
}
