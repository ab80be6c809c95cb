//! Starting the other CPUs, by PSCI.

use core::arch::asm;
use core::sync::atomic::{AtomicBool, Ordering};

use smccc::{Hvc, psci};

use super::boot::{self, Start};
use super::{cpu, gic, timer, traps};
use crate::arch::paging;

/// Time limit for a CPU to come up.
const START_TIMEOUT_NS: u64 = 60_000_000_000;

/// The CPU that is being started says here that it is there.
static UP: AtomicBool = AtomicBool::new(false);

/// Starts the CPUs with these MPIDR affinities, one after the other, numbered from 1. Returns how many
/// CPUs there are now, the first one included.
///
/// # Panics
/// When a CPU does not come up within some seconds.
pub(super) fn start(affinities: &[u64]) -> usize {
    for (index, &affinity) in affinities.iter().enumerate() {
        let number = index + 1;
        let start =
            Start { root: paging::root(), stack: super::new_stack(number), number: number as u64 };
        let context = paging::physical(&raw const start as u64).expect("stacks are mapped");
        UP.store(false, Ordering::Release);
        // The other CPU reads it with its caches on; what it reads must have left the store buffer.
        // SAFETY: a barrier.
        unsafe { asm!("dsb ish", options(nostack, preserves_flags)) };
        psci::cpu_on::<Hvc>(affinity, boot::other_entry(), context)
            .unwrap_or_else(|error| panic!("CPU {number} (MPIDR {affinity:#x}): {error}"));
        let deadline = timer::now_ns() + START_TIMEOUT_NS;
        while !UP.load(Ordering::Acquire) {
            let late = timer::now_ns() >= deadline;
            assert!(!late, "CPU {number} (MPIDR {affinity:#x}) does not start");
            core::hint::spin_loop();
        }
    }
    affinities.len() + 1
}

/// Runs on a CPU that has been started.
pub(super) fn arrive(number: usize) -> ! {
    cpu::init(number);
    traps::init();
    gic::enable_cpu(number);
    timer::start();
    UP.store(true, Ordering::Release);
    crate::other_cpu_main()
}
