//! The framework, and this kernel as its host.

use sdt_framework::{Dtrace, Host};

use crate::arch::{cpu, timer};
use crate::{smp, standin};

/// This kernel.
#[derive(Debug)]
pub(crate) struct Machine;

// SAFETY: there is no scheduler, so whoever has interrupts off stays on the CPU, and numbers are the
// CPUs' own; a CPU's threads of execution follow each other on that CPU. `sync` makes every CPU take an
// interrupt, which it cannot while in probe context, and the rendezvous orders memory both ways.
unsafe impl Host for Machine {
    fn cpu(&self) -> usize {
        cpu::current()
    }

    fn cpus(&self) -> usize {
        smp::online()
    }

    fn timestamp(&self) -> u64 {
        standin::inside_probe();
        timer::now_ns()
    }

    fn without_interrupts<R>(&self, f: impl FnOnce() -> R) -> R {
        let were_on = cpu::interrupts_off();
        let result = f();
        cpu::restore_interrupts(were_on);
        result
    }

    fn sync(&self) {
        smp::rendezvous(&|_| {});
    }
}

/// Records that a consumer's buffer for one CPU holds.
const RECORDS: usize = 1024;

/// DTrace, as far as this kernel has it.
pub(crate) type Framework = Dtrace<Machine, { cpu::MAX_CPUS }, RECORDS>;

/// It.
pub(crate) static DTRACE: Framework = Dtrace::new(Machine);
