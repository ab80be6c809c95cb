//! Several CPUs: a consumer is closed on one while another records for it, and functions of a host are called meanwhile.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use sdt_core::patch::Patcher as _;
use sdt_framework::Host as _;
use sdt_framework::kernel::Kernel;
use sdt_framework::smp::{Machine, Tracing};

use crate::common::{TestProvider, create, memory};
use crate::world::compile;

thread_local! {
    static CPU: Cell<usize> = const { Cell::new(0) };
}

/// Two CPUs, each a thread. A CPU takes part in a rendezvous only when its thread calls [`Tracing::called`].
struct Two;

static TWO: Tracing<Two, 2> = Tracing::new(c"two");
/// Interrupts that were sent.
static SENT: AtomicUsize = AtomicUsize::new(0);
static LOADED: AtomicBool = AtomicBool::new(false);
static CLOSED: AtomicBool = AtomicBool::new(false);

// SAFETY: each CPU is one thread. CPU 1 calls `called` until CPU 0, which alone waits for a rendezvous, has closed the consumer.
unsafe impl Machine for Two {
    fn cpu() -> usize {
        CPU.get()
    }

    fn cpus() -> usize {
        2
    }

    fn timestamp() -> u64 {
        1
    }

    fn without_interrupts<R>(f: impl FnOnce() -> R) -> R {
        f()
    }

    fn interrupt_others() {
        SENT.fetch_add(1, Ordering::Release);
    }

    fn kernel() -> &'static (dyn Kernel + Sync) {
        &Calling
    }

    fn relax() {
        thread::yield_now();
    }
}

/// Its `load` waits until the other CPU waits for this CPU. Then it calls every safe function by which a host could falsely
/// report that this CPU has left probe context.
struct Calling;

impl Kernel for Calling {
    fn timestamp(&self) -> u64 {
        0
    }

    fn load(&self, _address: u64, into: &mut [u8]) -> bool {
        let before = SENT.load(Ordering::Acquire);
        if !LOADED.swap(true, Ordering::AcqRel) {
            while SENT.load(Ordering::Acquire) == before {
                thread::yield_now();
            }
            for _ in 0..2_000 {
                TWO.called();
                TWO.dtrace().host().sync();
                TWO.dtrace().host().synchronise();
                thread::yield_now();
                assert!(!CLOSED.load(Ordering::Acquire), "closed while its clause runs");
            }
        }
        into.fill(1);
        true
    }
}

#[test]
fn a_consumer_is_closed_when_its_clause_has_ended_whatever_that_calls() {
    const CONFIG: sdt_framework::Config =
        sdt_framework::Config { providers: 2, probes: 8, ecbs: 8, consumers: 2, buffer: 16 << 10 };
    // SAFETY: this program has no probes of its own.
    let dtrace = unsafe { TWO.start(memory(1 << 20), &CONFIG) };
    // The thread of CPU 1 does not run yet, so no CPU acknowledges for it. `start` does not wait for it.
    let dtrace = dtrace.unwrap();
    let provider: &'static TestProvider = Box::leak(Box::default());
    // SAFETY: the provider is never freed.
    let provider = unsafe { provider.register(dtrace, c"p") }.unwrap();
    let probe = create(dtrace, provider, [c"m", c"f", c"hit"], 0);
    let consumer = dtrace.open().unwrap();
    let program = compile("p:::hit { trace(*(int *)arg0); printf(\"%s\", stringof(arg0)); }");
    dtrace.enable_program(consumer, &program).unwrap();
    dtrace.go(consumer).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            CPU.set(1);
            dtrace.probe(probe, &[0x1000]);
            while !CLOSED.load(Ordering::Acquire) {
                TWO.called();
                thread::yield_now();
            }
        });
        while !LOADED.load(Ordering::Acquire) {
            thread::yield_now();
        }
        dtrace.close(consumer).unwrap();
        CLOSED.store(true, Ordering::Release);
    });
    assert_eq!(dtrace.counters().records, 1);
}
