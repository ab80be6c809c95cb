//! The framework, and this kernel as its host.

use alloc::vec;
use core::mem::MaybeUninit;

use sdt_framework::kernel::{Destruction, Kernel, ModuleText, Number, Symbol, Text};
use sdt_framework::{Config, Dtrace, Host, Record, SpinLock};

use crate::arch::{cpu, timer};
use crate::{clock, declared, load, process, smp, stack, standin, symbols, system};

/// The stand-in kernel as the host of the framework.
#[derive(Debug)]
pub(crate) struct Machine;

// SAFETY: there is no scheduler, so a thread with interrupts off stays on its CPU, and the number of a CPU never changes. The
// threads of a CPU run one after the other on that CPU. `sync` waits until every CPU has taken an interrupt; a CPU takes none in
// probe context. The rendezvous orders memory both ways.
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

/// The kernel's data for the actions of D programs. `load` can read all mapped memory.
impl Kernel for Machine {
    fn timestamp(&self) -> u64 {
        timer::now_ns()
    }

    fn load(&self, address: u64, into: &mut [u8]) -> bool {
        load::load(address, into)
    }

    /// Processes have no memory of their own: the addresses that probes pass as user addresses are in the kernel.
    fn copyin(&self, address: u64, into: &mut [u8]) -> bool {
        load::load(address, into)
    }

    fn thread(&self) -> u64 {
        process::thread()
    }

    fn interrupts(&self) -> u8 {
        process::interrupts() as u8
    }

    fn number(&self, which: Number) -> Option<u64> {
        Some(match which {
            Number::Pid => process::pid().into(),
            Number::Tid | Number::Curthread => process::thread(),
            // Threads never wait for a CPU.
            Number::Vtimestamp => timer::now_ns(),
            // All threads run as root, outside a jail, and no system call has failed.
            Number::Uid | Number::Gid | Number::Jid | Number::Errno => 0,
            // The log does not say which process forked the one that executes an image.
            Number::Ppid => 1,
            Number::Ipl => u64::from(process::interrupts() != 0),
            // The kernel never executes an instruction of a process.
            Number::Ustackdepth | Number::Ucaller => 0,
            Number::Walltimestamp => return clock::now_ns(),
            Number::Stackdepth | Number::Caller => return None,
        })
    }

    fn text(&self, which: Text) -> Option<&[u8]> {
        match which {
            Text::Execname => Some(process::name()),
            Text::Zonename => Some(b"global"),
            Text::Jailname => Some(b"0"),
            Text::Execargs => Some(process::arguments()),
            Text::Threadname => None,
        }
    }

    fn stack(&self, own: u32, frames: &mut [u64]) -> usize {
        stack::walk(own, frames)
    }

    fn symbol(&self, address: u64, show: &mut dyn FnMut(Symbol<'_>)) {
        if !system::current().symbol(address, show) {
            symbols::at(address, show);
        }
    }

    fn destroy(&self, how: Destruction) -> bool {
        match how {
            Destruction::Chill(nanoseconds) => {
                let until = timer::now_ns().saturating_add(nanoseconds);
                while timer::now_ns() < until {
                    core::hint::spin_loop();
                }
                true
            }
            Destruction::Panic => panic!("dtrace: panic action"),
            // The kernel has no debugger, and no process that could be stopped.
            Destruction::Breakpoint | Destruction::Stop | Destruction::Raise(_) => false,
        }
    }

    fn declared(&self, index: usize, show: &mut dyn FnMut(ModuleText<'_>)) {
        declared::show(index, show);
    }
}

/// The number of records that a consumer's buffer for one CPU can hold.
pub(crate) const RECORDS: usize = 1024;

/// The maximum number of fbt probes, and of their enablings.
const FUNCTIONS: usize = 4096;

const CONFIG: Config = Config {
    probes: Config::DEFAULT.probes + FUNCTIONS,
    ecbs: Config::DEFAULT.ecbs + FUNCTIONS,
    buffer: RECORDS * Record::SIZE,
    ..Config::DEFAULT
};

/// DTrace, as far as this kernel has it.
pub(crate) type Framework = Dtrace<Machine>;

/// The DTrace of the stand-in kernel.
pub(crate) static DTRACE: Framework = Dtrace::new(Machine);

/// The maximum number of different rates of `profile` probes.
const TIMERS: usize = 64;

/// Gives the framework enough memory for the maximum number of consumers, and registers the framework's own providers. Must run
/// before any other provider is registered, so that the probes of `dtrace` have the same ids as in DTrace. The CPUs are online.
pub(crate) fn init() {
    let bytes = CONFIG.memory::<Machine>(smp::online(), CONFIG.consumers + 16);
    let memory = vec![MaybeUninit::uninit(); bytes].leak();
    DTRACE.init(memory, &CONFIG).expect("it is enough, and this happens once");
    DTRACE.register_own().expect("there is room for three probes");
    DTRACE.register_profile(TIMERS).expect("there is room for its timers");
}
