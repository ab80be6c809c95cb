//! The counts of one CPU, by window.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use sdt_protocol::TorturedProbe;

use crate::standin::{self, TORTURED, Which};

/// The maximum number of failures that are stored for one CPU.
const MAX_FAILURES: usize = 4;

/// A window that is being closed, as the driver has announced it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// The number of the window, beginning at 1.
    pub(super) number: u64,
    /// The set of probes that were enabled, or disabled, during the whole window.
    pub(super) stable: u32,
    /// The set of probes that are enabled at the end of the window.
    pub(super) enabled: u32,
}

/// The counts of one probe.
#[derive(Clone, Copy, Debug)]
struct Count {
    passes: u64,
    hits: u64,
}

impl Count {
    const ZERO: Self = Self { passes: 0, hits: 0 };

    fn now(cpu: usize, which: Which) -> Self {
        let account = standin::account(cpu, which);
        Self {
            passes: account.passes.load(Ordering::Relaxed),
            hits: account.hits.load(Ordering::Relaxed),
        }
    }
}

/// The counts of one CPU for its windows.
#[derive(Debug)]
pub(super) struct Ledger {
    /// The counts when the last window was closed; `None` before the first window was closed.
    last: Option<[Count; TORTURED.len()]>,
    /// For each probe, the counts in the windows in which it was stably enabled, and the number of intervals of consecutive
    /// windows of that kind.
    stable: [(Count, u64); TORTURED.len()],
    /// The set of probes that were stably enabled in the last window, so that their interval may continue.
    going_on: u32,
    failures: Vec<String>,
}

impl Ledger {
    pub(super) const fn new() -> Self {
        Self {
            last: None,
            stable: [(Count::ZERO, 0); TORTURED.len()],
            going_on: 0,
            failures: Vec::new(),
        }
    }

    /// Closes a window: compares the counts since the previous window. Must be called on the ledger's CPU, with interrupts off,
    /// while no probe is firing.
    pub(super) fn close(&mut self, cpu: usize, window: Window) {
        let now = TORTURED.map(|which| Count::now(cpu, which));
        let Some(last) = self.last.replace(now) else { return };
        for (index, which) in TORTURED.into_iter().enumerate() {
            let passes = now[index].passes - last[index].passes;
            let hits = now[index].hits - last[index].hits;
            let stable = window.stable & which.bit() != 0;
            let enabled = stable && window.enabled & which.bit() != 0;
            if enabled {
                let (count, stretches) = &mut self.stable[index];
                count.passes += passes;
                count.hits += hits;
                *stretches += u64::from(self.going_on & which.bit() == 0);
                self.going_on |= which.bit();
            } else {
                self.going_on &= !which.bit();
            }
            let wrong = match (stable, enabled) {
                (true, true) => passes != hits,
                (true, false) => hits != 0,
                (false, _) => hits > passes,
            };
            if wrong && self.failures.len() < MAX_FAILURES {
                let name = which.name();
                let state = if enabled {
                    "enabled"
                } else if stable {
                    "disabled"
                } else {
                    "being changed"
                };
                self.failures.push(format!(
                    "CPU {cpu}, window {}: {name}, {state}: {passes} passes, {hits} hits",
                    window.number
                ));
            }
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        !self.failures.is_empty()
    }

    pub(super) fn take_failures(&mut self) -> Vec<String> {
        core::mem::take(&mut self.failures)
    }

    /// Adds the counts of the probe `which` to `probe`.
    pub(super) fn add_to(&self, probe: &mut TorturedProbe, which: Which) {
        for (_, (count, stretches)) in
            TORTURED.iter().zip(&self.stable).filter(|&(&other, _)| other == which)
        {
            probe.intervals += stretches;
            probe.stable_passes += count.passes;
            probe.stable_hits += count.hits;
        }
    }
}
