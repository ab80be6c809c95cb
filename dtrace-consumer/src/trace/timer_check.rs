//! Regular checks whether the kernel drives the timers of programs, and samples its threads.

use std::time::{Duration, Instant};

use crate::client::{Client, ClientError};
use crate::kernel::Kernel;

/// Time between two checks of the timers. A timer counts as late after two seconds.
const TIMERS: Duration = Duration::from_secs(3);

/// The checks of one trace.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TimerCheck {
    /// The time of the next check; `None` if no program enables a timer, or a message has reported them.
    next: Option<Instant>,
}

impl TimerCheck {
    /// Begins to check.
    pub(super) fn start(&mut self) {
        self.next = Some(Instant::now() + TIMERS);
    }

    /// Returns messages, once, if the kernel does not drive its timers, or does not sample all threads.
    ///
    /// # Errors
    /// The kernel or the connection failed.
    pub(super) fn work(&mut self, kernel: &Kernel) -> Result<Vec<String>, ClientError> {
        if self.next.is_none_or(|next| Instant::now() < next) {
            return Ok(Vec::new());
        }
        let status = kernel.ask(Client::status)?;
        let mut messages = Vec::new();
        let late = status.late_timers;
        if late != 0 {
            let why = match kernel.is_process() {
                true => "the process is stopped, or its thread sdt-process gets no CPU time",
                false => {
                    "the kernel does not call tick of sdt-framework on each CPU; with a one-shot timer, it has to implement \
                     timers_changed"
                }
            };
            messages.push(format!(
                "{late} of the enabled timers do not fire, or not on every CPU: {why}\n"
            ));
        }
        let unsampled = status.unsampled_threads;
        if unsampled != 0 {
            messages.push(format!(
                "profile-N does not sample {unsampled} of the threads: they block its signal, have a seccomp filter of their own, or get no timer from the system\n"
            ));
        }
        match messages.is_empty() {
            true => self.start(),
            false => self.next = None,
        }
        Ok(messages)
    }
}
