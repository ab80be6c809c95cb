//! The tracing state of this process, and its lock.
//!
//! Every call into the framework from outside of a hit holds this lock, so a `fork` that holds it copies a consistent state. The order of
//! the locks is in [`fork`](crate::fork).

use std::io::{PipeWriter, Write as _};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use sdt_framework::Dtrace;

use crate::descriptor::Descriptor;
use crate::lock::Counted;
use crate::server::Server;
use crate::slots::Slots;

/// The tracing state.
static STATE: Mutex<State> =
    Mutex::new(State { attached: None, server: None, waker: None, deadline: None });

/// The threads that wait for [`STATE`] in order to fork or to end tracing. The worker thread lets them go first.
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// The number of times that tracing has ended. A worker thread that was started with another number returns.
static ENDS: AtomicU64 = AtomicU64::new(0);

/// The time between two attempts to take the lock.
pub(crate) const RETRY: Duration = Duration::from_millis(1);

/// The time that consumers have to fetch their data when tracing ends.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

/// The framework that the probes of this image are attached to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attached {
    /// The process that attached them. The child of a `fork` attaches them again.
    pub(crate) process: u32,
    pub(crate) dtrace: &'static Dtrace<Slots>,
    /// The number of consumers that the framework has room for.
    pub(crate) consumers: usize,
}

/// The tracing state: the framework, the server, and the end of tracing.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) attached: Option<Attached>,
    /// The connections of consumers, while the process is traced.
    pub(crate) server: Option<Server>,
    /// Wakes the worker thread.
    pub(crate) waker: Option<Descriptor<PipeWriter>>,
    /// Set when tracing ends: the time at which the worker thread stops waiting for consumers.
    pub(crate) deadline: Option<Instant>,
}

impl State {
    /// Begins to end tracing: consumers get [`GRACE`] to fetch their data.
    pub(crate) fn begin_end(&mut self) {
        if self.server.is_none() || self.deadline.is_some() {
            return;
        }
        self.deadline = Some(Instant::now() + GRACE);
        if let Some(attached) = &self.attached {
            // Fails in probe context only, where no thread takes this lock.
            let _ = attached.dtrace.end_runs();
        }
        self.wake();
    }

    /// Makes the worker thread look for work.
    pub(crate) fn wake(&self) {
        if let Some(waker) = &self.waker {
            // If the pipe is full, the thread wakes anyway.
            waker.get().and_then(|mut waker| waker.write_all(&[0])).ok();
        }
    }

    /// Returns whether the worker thread can be woken. It cannot if the program has closed the pipe: the thread may wait for other files
    /// that have the same numbers now.
    pub(crate) fn can_wake(&self) -> bool {
        let waker = self.waker.as_ref().is_none_or(|waker| waker.get().is_ok());
        waker && self.server.as_ref().is_none_or(Server::can_be_woken)
    }

    /// Ends tracing: removes the socket and closes everything that consumers have open.
    pub(crate) fn end(&mut self) {
        ENDS.fetch_add(1, Ordering::AcqRel);
        if let Some(mut server) = self.server.take() {
            server.socket().remove();
            server.close_all();
        }
        if let Some(attached) = &self.attached {
            let _ = attached.dtrace.close_anonymous();
        }
        (self.waker, self.deadline) = (None, None);
    }

    /// Takes the server out of the state, in the child of a `fork`, whose parent goes on serving.
    pub(crate) fn take_server(&mut self) -> Option<Server> {
        (self.waker, self.deadline) = (None, None);
        self.server.take()
    }
}

/// The lock of the tracing state, held by this thread and counted ([`lock`](crate::lock)).
#[derive(Debug)]
pub(crate) struct Locked {
    state: MutexGuard<'static, State>,
    _counted: Counted,
}

impl Deref for Locked {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

/// Takes the lock, and waits for it.
pub(crate) fn lock() -> Locked {
    let counted = Counted::new();
    let state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    Locked { state, _counted: counted }
}

/// Takes the lock if it is free.
pub(crate) fn try_lock() -> Option<Locked> {
    let counted = Counted::new();
    let state = match STATE.try_lock() {
        Ok(state) => state,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => return None,
    };
    Some(Locked { state, _counted: counted })
}

/// Takes the lock before the worker thread can take it. Calls `pause` between two attempts, and returns `None` when
/// `pause` returns `false`.
pub(crate) fn lock_first(mut pause: impl FnMut() -> bool) -> Option<Locked> {
    WAITING.fetch_add(1, Ordering::AcqRel);
    let state = loop {
        match try_lock() {
            None if pause() => {}
            state => break state,
        }
    };
    WAITING.fetch_sub(1, Ordering::AcqRel);
    state
}

/// Returns how often tracing has ended.
pub(crate) fn ends() -> u64 {
    ENDS.load(Ordering::Acquire)
}

/// Returns whether a thread is in [`lock_first`].
pub(crate) fn is_wanted() -> bool {
    WAITING.load(Ordering::Acquire) != 0
}

/// Forgets the threads in [`lock_first`], in the child of a `fork`: they exist in the parent only.
pub(crate) fn forget_waiting_threads() {
    WAITING.store(0, Ordering::Release);
}
