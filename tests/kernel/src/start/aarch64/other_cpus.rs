//! Starting the other CPUs, by PSCI.

use core::arch::asm;
use core::sync::atomic::{AtomicBool, Ordering};

use smccc::{Hvc, psci};

use super::{leave_lower_half, new_stack};
use crate::arch::layout::KERNEL_BASE;
use crate::arch::{cpu, gic, timer};
use crate::{exec, paging, traps};

/// The time limit for the start of a CPU, in nanoseconds.
const START_TIMEOUT_NS: u64 = 60_000_000_000;

/// Whether the CPU that is being started runs. That CPU sets it.
static UP: AtomicBool = AtomicBool::new(false);

unsafe extern "C" {
    static other_start: u8;
}

/// Parameters of a CPU that is being started. Aligned, so that they are in one page.
#[derive(Debug)]
#[repr(C, align(32))]
struct Start {
    /// Physical address of the kernel's root table.
    root: u64,
    /// The top of the CPU's stack.
    stack: u64,
    /// The number of the CPU.
    number: u64,
}

/// Physical address where the other CPUs start, with the physical address of a [`Start`] in x0.
fn other_entry() -> u64 {
    &raw const other_start as u64 - KERNEL_BASE
}

/// Starts the CPUs with these MPIDR affinities, one after the other, and numbers them from 1. Returns the number of CPUs,
/// including the first.
///
/// # Panics
/// If a CPU does not start within [`START_TIMEOUT_NS`].
pub(super) fn start(affinities: &[u64]) -> usize {
    for (index, &affinity) in affinities.iter().enumerate() {
        let number = index + 1;
        let start = Start { root: paging::root(), stack: new_stack(number), number: number as u64 };
        let context = paging::physical(&raw const start as u64).expect("stacks are mapped");
        UP.store(false, Ordering::Release);
        // The other CPU reads `start` with its caches on. The barrier waits until the stores to `start` are visible to it.
        // SAFETY: a barrier changes no memory and no registers.
        unsafe { asm!("dsb ish", options(nostack, preserves_flags)) };
        psci::cpu_on::<Hvc>(affinity, other_entry(), context)
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

/// First Rust code of another CPU, on its own stack and in the kernel's tables.
///
/// # Safety
/// Called once on each CPU by the boot code.
#[unsafe(no_mangle)]
unsafe extern "C" fn other_cpu_entry(number: u64) -> ! {
    let number = number as usize;
    leave_lower_half();
    cpu::init(number);
    traps::init();
    gic::enable_cpu(number);
    timer::start();
    UP.store(true, Ordering::Release);
    exec::work_forever()
}
