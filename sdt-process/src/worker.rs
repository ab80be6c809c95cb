//! The thread `sdt-process`, which serves consumers and fires timers.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use crate::breakpoint::RAISED;
use crate::server::Ready;
use crate::state::{self, GRACE};
use crate::{rseq, sampling, shutdown, stack_block};

/// The worker thread, as `start` sees it.
pub(crate) struct Worker {
    pub(crate) thread: JoinHandle<()>,
    idle: Arc<Idle>,
}

/// Whether the worker thread has begun to wait, or has ended. A channel would add 18 kB to each program.
#[derive(Default)]
struct Idle {
    is_idle: Mutex<bool>,
    changed: Condvar,
}

/// Sets [`Idle`] when it is dropped.
struct Busy(Arc<Idle>);

impl Drop for Busy {
    fn drop(&mut self) {
        *self.0.is_idle.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.changed.notify_all();
    }
}

impl Worker {
    /// Waits until the worker thread is ready for consumers. By then it has made the system calls with which a thread
    /// begins, so the program can install a seccomp filter that forbids them. The caller does not hold the lock of the
    /// tracing state.
    ///
    /// Does not wait longer than [`GRACE`], as the caller may have a lock that the thread needs, for example one of the dynamic linker.
    pub(crate) fn wait_until_idle(self) -> JoinHandle<()> {
        let is_idle = self.idle.is_idle.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.idle.changed.wait_timeout_while(is_idle, GRACE, |is_idle| !*is_idle));
        self.thread
    }
}

/// Starts the thread. It blocks all signals except those that instructions raise. So signals to the process go to the program's threads,
/// and a breakpoint in a function that this thread calls still works.
///
/// # Errors
/// The system has no more threads.
pub(crate) fn spawn() -> io::Result<Worker> {
    // The caller holds the lock of the tracing state, so tracing does not end meanwhile.
    let ends = state::ends();
    let idle = Arc::<Idle>::default();
    let busy = Busy(Arc::clone(&idle));
    // SAFETY: `sigfillset` and `pthread_sigmask` initialise both sets before they are used. The last call restores this thread's mask.
    unsafe {
        let mut blocked: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut blocked);
        for signal in RAISED {
            libc::sigdelset(&mut blocked, signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &blocked, &mut before);
        let thread =
            thread::Builder::new().name("sdt-process".to_owned()).spawn(move || run(busy, ends));
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        Ok(Worker { thread: thread?, idle })
    }
}

/// Serves consumers until tracing ends once more than `ends` times: another thread may end it, and start it again with a new worker thread.
/// Drops `busy` before the first wait.
fn run(busy: Busy, ends: u64) {
    let mut busy = Some(busy);
    stack_block::prepare();
    rseq::prepare();
    sampling::note_worker();
    crate::function::note_server();
    let mut ready = Ready::ALL;
    loop {
        while state::is_wanted() {
            thread::yield_now();
        }
        let wait = {
            let mut state = state::lock();
            let state = &mut *state;
            if state::ends() != ends {
                return;
            }
            let is_ending = shutdown::begin_if_requested(state);
            let (Some(attached), Some(server)) = (&state.attached, &mut state.server) else {
                return;
            };
            let Some(wait) = server.turn(attached.dtrace, state.deadline, ready) else {
                state.end();
                return;
            };
            // The ending thread may have given up waiting for the lock during the turn. Then it has not woken this thread.
            if !is_ending && shutdown::begin_if_requested(state) {
                continue;
            }
            wait
        };
        drop(busy.take());
        ready = wait.wait(ends);
    }
}
