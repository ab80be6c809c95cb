//! The thread `sdt-process`, which serves consumers and fires timers.

use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use crate::breakpoint::RAISED;
use crate::server::Ready;
use crate::state::{self, GRACE};
use crate::{rseq, sampling, shutdown, stack_block};

/// The worker thread, as `start` sees it.
pub(crate) struct Worker {
    pub(crate) thread: JoinHandle<()>,
    waits: Receiver<()>,
}

impl Worker {
    /// Waits until the worker thread is ready for consumers. By then it has made the system calls with which a thread
    /// begins, so the program can install a seccomp filter that forbids them. The caller does not hold the lock of the
    /// tracing state.
    ///
    /// Does not wait longer than [`GRACE`], as the caller may have a lock that the thread needs, for example one of the dynamic linker.
    pub(crate) fn wait_until_idle(self) -> JoinHandle<()> {
        self.waits.recv_timeout(GRACE).ok();
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
    let (sender, waits) = mpsc::channel();
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
            thread::Builder::new().name("sdt-process".to_owned()).spawn(move || run(sender, ends));
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        Ok(Worker { thread: thread?, waits })
    }
}

/// Serves consumers until tracing ends once more than `ends` times: another thread may end it, and start it again with a new worker thread.
/// Sends a message before the first wait.
fn run(waits: Sender<()>, ends: u64) {
    let mut waits = Some(waits);
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
        if let Some(waits) = waits.take() {
            // Fails if `start` has waited too long.
            waits.send(()).ok();
        }
        ready = wait.wait(ends);
    }
}
