//! Workloads: they run while dtrace traces, and can end the run.

use std::time::Duration;

/// Longest pause between two steps of a workload that does nothing itself.
const BEAT: Duration = Duration::from_millis(50);

/// An error of a workload.
pub type WorkloadError = Box<dyn std::error::Error + Send + Sync>;

/// A workload that runs while dtrace traces: a command, a log that is replayed, or nothing.
pub trait Workload {
    /// Runs a part of the workload. Returns whether there is more; after the last part, dtrace prints what was recorded and
    /// ends the run.
    ///
    /// # Errors
    /// The workload failed; the run ends with this error.
    fn step(&mut self) -> Result<bool, WorkloadError>;

    /// Returns the longest pause before the next step. If it is zero, dtrace reads all buffers after each step.
    fn pause(&self) -> Duration;

    /// Returns the message for the end of the workload, if there is one.
    fn end_message(&self) -> Option<String> {
        None
    }

    /// Returns the message for the exit of the traced process, if the run is to trace until then. The end of the connection is
    /// no failure in such a run.
    fn exit_message(&self) -> Option<String> {
        None
    }
}

/// No workload: dtrace traces until the user interrupts it or all traced processes have exited.
#[derive(Clone, Debug)]
pub struct UntilExit(
    /// The process IDs.
    pub Vec<u32>,
);

impl Workload for UntilExit {
    fn step(&mut self) -> Result<bool, WorkloadError> {
        Ok(true)
    }

    fn pause(&self) -> Duration {
        BEAT
    }

    fn exit_message(&self) -> Option<String> {
        let ids: Vec<String> = self.0.iter().map(u32::to_string).collect();
        Some(match &ids[..] {
            [id] => format!("pid {id} has exited"),
            _ => format!("pids {} have exited", ids.join(", ")),
        })
    }
}

/// A workload that has ended: dtrace prints the existing records.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recorded;

impl Workload for Recorded {
    fn step(&mut self) -> Result<bool, WorkloadError> {
        Ok(false)
    }

    fn pause(&self) -> Duration {
        Duration::ZERO
    }
}

/// No workload: dtrace traces until the user interrupts it.
#[derive(Clone, Copy, Debug, Default)]
pub struct UntilInterrupted;

impl Workload for UntilInterrupted {
    fn step(&mut self) -> Result<bool, WorkloadError> {
        Ok(true)
    }

    fn pause(&self) -> Duration {
        BEAT
    }
}
