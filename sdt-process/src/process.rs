//! The handle of a traced process.

use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use sdt_framework::{ConsumerError, Counters, Dtrace};

use crate::shutdown;
use crate::slots::Slots;
use crate::state::{self, GRACE};

/// A process that can be traced until this is dropped, or until the program ends by `exit`. Then consumers have two seconds to fetch the
/// data of their programs, sites become nops again, and the socket is removed.
///
/// If the thread that serves consumers waits for a hit that does not end, dropping this returns after at most four seconds. The thread
/// ends tracing when it can; until then `start` returns [`StartError::Started`](crate::StartError::Started).
///
/// If the program has closed the descriptors of this crate, dropping this ends tracing at once.
///
/// In the child of a `fork`, dropping this does nothing. It does nothing either after a seccomp filter has been installed that may forbid
/// the necessary system calls ([`Options::allowed_by_sandbox`](crate::Options::allowed_by_sandbox)).
#[derive(Debug)]
#[must_use = "tracing ends when this value is dropped: keep it, as in `let _process = sdt_process::start()?`; `let _ =` drops it at once"]
pub struct Process {
    path: PathBuf,
    dtrace: &'static Dtrace<Slots>,
    /// The process that `start` was called in.
    process: u32,
    thread: Option<JoinHandle<()>>,
}

impl Process {
    pub(crate) fn new(
        path: PathBuf,
        dtrace: &'static Dtrace<Slots>,
        thread: JoinHandle<()>,
    ) -> Self {
        Self { path, dtrace, process: std::process::id(), thread: Some(thread) }
    }

    /// Returns the path of the socket.
    pub fn socket(&self) -> &Path {
        &self.path
    }

    /// Enables a program in D without a consumer, in the format that `dtrace -p PID -A` writes. With `-x bufpolicy=ring` it keeps the
    /// latest records, which `dtrace --core` shows after a crash. The program runs until `dtrace -p PID -a` claims it. Returns the number of
    /// probes that its clauses match so far; probes that are made later are enabled, too.
    ///
    /// # Errors
    /// [`ConsumerError::Started`] if there is such a program already, [`ConsumerError::NotPermitted`] in the child of a `fork`, or the reason
    /// for which the framework refuses the program.
    pub fn enable_anonymously(&self, dof: &[u8]) -> Result<u32, ConsumerError> {
        if self.process != std::process::id() {
            return Err(ConsumerError::NotPermitted);
        }
        let state = state::lock();
        let enabled = self.dtrace.enable_anonymously(dof)?;
        // From now on the worker thread cleans up for the program regularly.
        state.wake();
        Ok(enabled)
    }

    /// Returns the counts of all hits since the process was first started, including BEGIN, END, ERROR and timers.
    pub fn counters(&self) -> Counters {
        self.dtrace.counters()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if self.process != std::process::id() {
            // The thread does not exist in the child of a `fork`.
            std::mem::forget(thread);
            return;
        }
        // After the time for consumers, the worker thread gets the same time to close everything.
        if shutdown::end_tracing(2 * GRACE) {
            // The thread does not panic.
            thread.join().ok();
        }
    }
}
