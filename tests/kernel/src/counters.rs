//! Counts since boot that the host can ask for.

use core::sync::atomic::{AtomicU64, Ordering};

use sdt_protocol::Counters;

use crate::dtrace::DTRACE;
use crate::stack::Origin;
use crate::{process, standin};

static BREAKPOINTS: AtomicU64 = AtomicU64::new(0);
static TICKS: AtomicU64 = AtomicU64::new(0);

/// Counts a breakpoint that was claimed. Probe context.
pub(crate) fn breakpoint() {
    BREAKPOINTS.fetch_add(1, Ordering::Relaxed);
}

/// Counts a breakpoint at a site of the kernel and returns the address at which to resume; `None` if the kernel has no site at
/// `address`. The breakpoint exception calls this function before the handlers of modules. Interrupts off, probe context.
pub(crate) fn resume_address(address: u64) -> Option<u64> {
    standin::inside_breakpoint();
    let resume = sdt_core::trap::resume_address(address as usize)?;
    breakpoint();
    Some(resume as u64)
}

/// The resolver of `breakpoint_entry!`: [`resume_address`], with 0 for `None`.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) extern "C" fn resolve(address: usize) -> usize {
    resume_address(address as u64).map_or(0, |resume| resume as usize)
}

/// Counts a timer interrupt and fires the probes of timers. `pc` is the interrupted instruction, `frame` the frame pointer of the
/// interrupted function.
pub(crate) fn tick(pc: u64, frame: u64) {
    TICKS.fetch_add(1, Ordering::Relaxed);
    process::in_interrupt(|| {
        standin::on_tick();
        Origin::interrupted(pc, frame).of(|| DTRACE.tick(pc, 0));
    });
}

/// Returns all counts.
pub(crate) fn now() -> Counters {
    let framework = DTRACE.counters();
    Counters {
        breakpoints: breakpoints(),
        hits: framework.hits,
        unclaimed: framework.unclaimed,
        reentered: framework.reentered,
        ticks: ticks(),
    }
}

/// Breakpoints claimed so far.
pub(crate) fn breakpoints() -> u64 {
    BREAKPOINTS.load(Ordering::Relaxed)
}

/// Timer interrupts so far, all CPUs.
pub(crate) fn ticks() -> u64 {
    TICKS.load(Ordering::Relaxed)
}
