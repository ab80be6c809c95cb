//! Processes that are stopped, and therefore do not answer.

use std::fmt;
use std::fs;

/// How a process is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped {
    id: u32,
    /// The debugger that has stopped it.
    debugger: Option<u32>,
}

impl Stopped {
    /// Returns how a process is stopped; `None` if it is not stopped, or the system does not tell.
    pub(super) fn of(id: u32) -> Option<Self> {
        Self::parse(id, &fs::read_to_string(format!("/proc/{id}/status")).ok()?)
    }

    /// Reads `/proc/PID/status` (proc_pid_status(5)): the state `T` is that of a signal, `t` that of a debugger.
    fn parse(id: u32, status: &str) -> Option<Self> {
        let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        let state = line("State:")?.trim_start();
        let tracer = || line("TracerPid:")?.trim().parse().ok();
        match state.chars().next()? {
            'T' => Some(Self { id, debugger: None }),
            't' => Some(Self { id, debugger: Some(tracer()?) }),
            _ => None,
        }
    }
}

impl fmt::Display for Stopped {
    /// Writes the predicate of a sentence about the process.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, debugger } = self;
        match debugger {
            None => {
                write!(f, "is stopped, as by SIGSTOP or Ctrl-Z; continue it with kill -CONT {id}")
            }
            Some(debugger) => {
                write!(f, "is stopped by a debugger, process {debugger}; continue it there")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_read() {
        let of = |state: &str| {
            let status = format!("Name:\tState: T\nState:\t{state}\nPid:\t7\nTracerPid:\t9\n");
            Stopped::parse(7, &status).map(|how| how.to_string())
        };
        let signal = "is stopped, as by SIGSTOP or Ctrl-Z; continue it with kill -CONT 7";
        assert_eq!(of("T (stopped)").as_deref(), Some(signal));
        let debugger = "is stopped by a debugger, process 9; continue it there";
        assert_eq!(of("t (tracing stop)").as_deref(), Some(debugger));
        assert_eq!(of("S (sleeping)"), None);
        assert_eq!(of("R (running)"), None);
        assert_eq!(Stopped::parse(7, ""), None);
        assert_eq!(Stopped::of(std::process::id()), None);
    }
}
