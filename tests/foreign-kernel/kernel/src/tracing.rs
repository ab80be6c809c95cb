//! This kernel as the host of its probes: all that tracing adds to it.

use core::mem::MaybeUninit;

use sdt_framework::console::Console;
use sdt_framework::kernel::{self, Readable};
use sdt_framework::smp::{Machine, Tracing};
use sdt_framework::server::{NoSites, Polled, Server, Stream};
use sdt_framework::{Config, Rights};
use x86_64::instructions::interrupts;

use crate::Port;
use crate::machine::{CPUS, call_others, cpu, fault, now};

/// The functions of this kernel that tracing calls.
pub struct Kernel;

// SAFETY: no thread leaves its CPU; the interrupt of `call_others` calls `TRACING.called`.
unsafe impl Machine for Kernel {
    fn cpu() -> usize {
        cpu()
    }

    fn cpus() -> usize {
        CPUS
    }

    fn timestamp() -> u64 {
        now()
    }

    fn without_interrupts<R>(f: impl FnOnce() -> R) -> R {
        interrupts::without_interrupts(f)
    }

    fn interrupt_others() {
        call_others();
    }

    fn kernel() -> &'static (dyn kernel::Kernel + Sync) {
        &READABLE
    }
}

/// What D may read: the image, and all up to the end of the heap.
// SAFETY: it is RAM, which boot.rs maps for good.
static READABLE: Readable = unsafe { Readable::new(&[0x20_0000..128 << 20]) };

/// DTrace, as far as this kernel has it.
pub static TRACING: Tracing<Kernel, CPUS> = Tracing::new(c"kernel");

/// The consumer in this kernel's shell.
pub type Tracer = Console<'static>;

sdt_core::breakpoint_entry! {
    /// Vector 3.
    pub fn breakpoint() else fault;
}

/// Half a MiB of buffer for each CPU and consumer, of which there are three at most.
const CONFIG: Config = Config { consumers: 3, buffer: 512 << 10, ..Config::DEFAULT };

/// Registers the probes; returns what answers consumers. All CPUs are up, with a handler of breakpoints.
pub fn start() -> Server<'static> {
    let memory = alloc::vec![MaybeUninit::uninit(); Tracing::<Kernel, CPUS>::memory(&CONFIG, 3)];
    // SAFETY: every CPU has `breakpoint` as vector 3, and a kernel is never unloaded.
    let dtrace =
        unsafe { TRACING.start(memory.leak(), &CONFIG) }.expect("the records hold together");
    dtrace.register_profile(8).expect("there is room for eight timers");
    Server::new(dtrace, &NoSites, Rights::ALL)
}

/// The line to the consumers.
pub fn line(port: Port) -> impl Stream {
    Polled::new(
        port,
        |port, room| port.inner_mut().receive_bytes(room),
        |port, bytes| port.inner_mut().send_bytes(bytes),
    )
}
