//! The framework, and this kernel as its host.

use alloc::vec;
use core::mem::MaybeUninit;

use sdt_framework::dif::{Kernel, ModuleText, Text};
use sdt_framework::{Config, Dtrace, Host, LONGEST, SpinLock};

use crate::arch::{cpu, timer};
use crate::{arguments, declared, heap, smp, standin};

/// This kernel.
#[derive(Debug)]
pub(crate) struct Machine;

// SAFETY: there is no scheduler, so whoever has interrupts off stays on the CPU, and numbers are the
// CPUs' own; a CPU's threads of execution follow each other on that CPU. `sync` makes every CPU take an
// interrupt, which it cannot while in probe context, and the rendezvous orders memory both ways.
unsafe impl Host for Machine {
    type Lock = SpinLock<Self>;

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
        smp::synchronise();
    }

    fn kernel(&self) -> &(dyn Kernel + Sync) {
        self
    }
}

/// Programs see the heap, where all is that probes hand over.
impl Kernel for Machine {
    fn timestamp(&self) -> u64 {
        Host::timestamp(self)
    }

    fn load(&self, address: u64, into: &mut [u8]) -> bool {
        heap::load(address, into)
    }

    /// There are no processes: what probes hand over as a process's is the kernel's.
    fn copyin(&self, address: u64, into: &mut [u8]) -> bool {
        heap::load(address, into)
    }

    fn text(&self, which: Text) -> Option<&[u8]> {
        match which {
            Text::Execargs => Some(arguments::current()),
            _ => None,
        }
    }

    fn declared(&self, index: usize, show: &mut dyn FnMut(ModuleText<'_>)) {
        declared::show(index, show);
    }
}

/// Records that a consumer's buffer for one CPU holds.
const RECORDS: usize = 1024;

const CONFIG: Config = Config { buffer: RECORDS * LONGEST, ..Config::DEFAULT };

/// DTrace, as far as this kernel has it.
pub(crate) type Framework = Dtrace<Machine>;

/// It.
pub(crate) static DTRACE: Framework = Dtrace::new(Machine);

/// Gives it memory: enough for all the consumers that there can be. The CPUs are online.
pub(crate) fn init() {
    let bytes = CONFIG.memory::<Machine>(smp::online(), CONFIG.consumers + 16);
    let memory = vec![MaybeUninit::uninit(); bytes].leak();
    DTRACE.init(memory, &CONFIG).expect("it is enough, and this happens once");
}
