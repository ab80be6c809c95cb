//! The memory of a configuration.

use sdt_core::ops::ARGS;

use crate::base::arena::{Arena, Bundle};
use crate::base::counters::PerCpu;
use crate::base::host::Host;
use crate::base::word::Word;
use crate::control::config::Config;
use crate::control::programs::Sent;
use crate::control::retained::Retained;
use crate::control::session::Session;
use crate::control::{dump, tables};
use crate::machine::{self, Slot};
use crate::run::clause::{Clause, ClauseAction};
use crate::run::consumer::Consumer;
use crate::run::state::{Cpu, RunState};
use crate::run::step::Step;

impl Config {
    /// Returns the size of the tables in bytes on a machine with this number of CPUs.
    pub const fn tables<H: Host>(&self, cpus: usize) -> usize {
        let consumers = self.consumers;
        let probe_context = [
            Arena::footprint::<Consumer>(consumers),
            Arena::footprint::<PerCpu>(cpus),
            Arena::footprint::<Word>(cpus.saturating_mul(consumers)),
        ];
        // The given memory may be unaligned.
        let mut sum = tables::footprint(self).saturating_add(2 * align_of::<u64>());
        let mut at = 0;
        while at < probe_context.len() {
            sum = sum.saturating_add(probe_context[at]);
            at += 1;
        }
        sum
    }

    /// Returns the size in bytes of memory for the tables and for this number of consumers. Each has buffers of the
    /// size `buffer` and one enabling.
    pub const fn memory<H: Host>(&self, cpus: usize, consumers: usize) -> usize {
        let each = Arena::footprint::<Retained>(1)
            .saturating_add(Arena::footprint::<Session>(1))
            .saturating_add(arguments_footprint())
            .saturating_add(state_footprint(cpus, self.buffer));
        self.tables::<H>(cpus).saturating_add(each.saturating_mul(consumers))
    }
}

/// Returns the greatest size in bytes of the clause that records arguments.
const fn arguments_footprint() -> usize {
    Bundle::footprint::<Clause>(1)
        + Bundle::footprint::<ClauseAction>(ARGS)
        + ARGS * Bundle::footprint::<Slot>(2)
        + Bundle::footprint::<Step>(ARGS)
        + Bundle::footprint::<Sent>(1)
        + Bundle::footprint::<machine::Memory<'static>>(1)
}

/// Returns the largest size in bytes of the state of a run whose programs only record numbers, and of its description
/// for dumps.
const fn state_footprint(cpus: usize, buffer: usize) -> usize {
    let buffers = Bundle::footprint::<u8>(buffer).saturating_mul(2).saturating_mul(cpus);
    (Bundle::footprint::<RunState>(1) + Bundle::footprint::<Cpu>(cpus))
        .saturating_add(Bundle::footprint::<machine::PerCpu>(cpus))
        .saturating_add(dump::session_footprint(cpus, 1, ARGS))
        .saturating_add(buffers)
}
