//! A machine of counters: stores to text and their order, CPUs that start late, and the needed memory.

mod common;

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use common::{Five as _, TestProvider, create, drain, memory, spec};
use dtrace_abi::option::{BufResize, OptionId};
use sdt_core::patch::Patcher;
use sdt_framework::smp::{Machine, Tracing};
use sdt_framework::{Config, ConsumerError};

/// A machine with two CPUs, of which CPU 1 starts later.
struct Late;

/// The time. CPU 1 takes a while to answer.
static NOW: AtomicU64 = AtomicU64::new(0);
const ANSWER: u64 = 700;

static CPU: AtomicUsize = AtomicUsize::new(0);
static UP: AtomicUsize = AtomicUsize::new(1);
static LATE: Tracing<Late, 2> = Tracing::new(c"late");

// SAFETY: the test has one thread, and `interrupt_others` acknowledges for CPU 1.
unsafe impl Machine for Late {
    fn cpu() -> usize {
        CPU.load(Ordering::Relaxed)
    }

    fn cpus() -> usize {
        UP.load(Ordering::Relaxed)
    }

    fn possible() -> usize {
        2
    }

    fn timestamp() -> u64 {
        NOW.load(Ordering::Relaxed)
    }

    fn without_interrupts<R>(f: impl FnOnce() -> R) -> R {
        f()
    }

    fn interrupt_others() {
        if Self::cpus() == 2 {
            CPU.store(1, Ordering::Relaxed);
            LATE.called();
            CPU.store(0, Ordering::Relaxed);
            NOW.fetch_add(ANSWER, Ordering::Relaxed);
        }
    }
}

#[test]
fn a_cpu_that_comes_late_is_recorded() {
    const CONFIG: Config =
        Config { providers: 2, probes: 8, ecbs: 8, consumers: 3, buffer: 64 << 10 };
    let bytes = Tracing::<Late, 2>::memory(&CONFIG, 2);
    // SAFETY: this program has no probes.
    let dtrace = unsafe { LATE.start(memory(bytes), &CONFIG) }.unwrap();
    let provider = TestProvider::default();
    // SAFETY: the provider is never freed.
    let id = unsafe { Box::leak(Box::new(provider)).register(dtrace, c"cpus") }.unwrap();
    let probe = create(dtrace, id, [c"", c"", c"up"], 0);

    // As documented, the memory suffices for two consumers with their buffers, and not for a third, unless the buffers
    // may be smaller.
    let start = || {
        let consumer = dtrace.open()?;
        let manual = BufResize::Manual.number().into();
        dtrace.set_option(consumer, OptionId::Bufresize.number(), manual)?;
        assert_eq!(dtrace.enable(consumer, &spec("cpus:::up"))?, 1);
        dtrace.go(consumer)?;
        Ok(consumer)
    };
    let [consumer, _] = [(), ()].map(|()| start().unwrap());
    let third = start();
    assert!(matches!(third, Err(ConsumerError::NoMemory { .. })), "{third:?}");

    dtrace.five(probe.get(), [7; 5]);
    assert_eq!(dtrace.counters().longest_sync, 0, "one CPU waits for no other one");
    UP.store(2, Ordering::Relaxed);
    CPU.store(1, Ordering::Relaxed);
    LATE.called();
    dtrace.five(probe.get(), [8; 5]);
    CPU.store(0, Ordering::Relaxed);
    let [first, second] = [0, 1].map(|cpu| drain(dtrace, consumer, cpu));
    assert_eq!((first.len(), second.len()), (1, 1));
    assert_eq!((first[0].args[0], second[0].args[0]), (7, 8));
    assert_eq!(dtrace.counters().stray, 0);
    // Both take part now.
    dtrace.close(consumer).unwrap();
    assert_eq!(dtrace.counters().longest_sync, ANSWER);
}

/// The numbers of the guide for a small kernel.
#[test]
fn it_takes_little() {
    let room = Config { probes: 64, ecbs: 64, buffer: 16 << 10, ..Config::DEFAULT };
    let memory = |room: &Config| Tracing::<Late, 2>::memory(room, 1);
    let bytes = memory(&room);
    assert!((98_000..100_000).contains(&bytes), "{bytes}");
    // Names take whole pages, so these are averages.
    let each = |more: Config| (memory(&more) - bytes).div_ceil(6400);
    let per_probe = each(Config { probes: 6464, ..room });
    let per_ecb = each(Config { ecbs: 6464, ..room });
    assert_eq!((per_probe, per_ecb), (113, 56));
}

/// Text with many sites, and a machine that counts the stores to it.
struct Patched;

const SITES: usize = 300;

struct Text(UnsafeCell<[u32; SITES]>);

// SAFETY: the test has one thread.
unsafe impl Sync for Text {}

static TEXT: Text = Text(UnsafeCell::new([0; SITES]));
static STORES: AtomicUsize = AtomicUsize::new(0);
static RENDEZVOUS: AtomicUsize = AtomicUsize::new(0);
static PATCHED: Tracing<Patched, 1> = Tracing::new(c"patched");

// SAFETY: it has one CPU.
unsafe impl Machine for Patched {
    fn cpu() -> usize {
        0
    }

    fn cpus() -> usize {
        1
    }

    fn timestamp() -> u64 {
        0
    }

    fn without_interrupts<R>(f: impl FnOnce() -> R) -> R {
        f()
    }

    fn interrupt_others() {
        RENDEZVOUS.fetch_add(1, Ordering::Relaxed);
    }

    fn writable(address: usize) -> *mut u8 {
        STORES.fetch_add(1, Ordering::Relaxed);
        std::ptr::with_exposed_provenance_mut(address)
    }
}

/// Returns the numbers of stores and rendezvous since the last call.
fn done() -> (usize, usize) {
    (STORES.swap(0, Ordering::Relaxed), RENDEZVOUS.swap(0, Ordering::Relaxed))
}

#[test]
fn text_is_stored_twice() {
    let patcher = PATCHED.dtrace().host();
    let site = |at: usize| TEXT.0.get().expose_provenance() + 4 * at;
    // SAFETY: there is no reference to the static's content.
    let text = || unsafe { TEXT.0.get().read_volatile() };
    let store = |at: usize, bytes: &[u8]| {
        // SAFETY: at most 4 bytes of the static, which only this test uses.
        unsafe { patcher.store(site(at), bytes) };
    };

    store(0, &[1, 2, 3, 4]);
    store(1, &[5]);
    assert_eq!(done(), (2, 0));
    patcher.synchronise();
    assert_eq!(done(), (2, 1), "once more");
    patcher.synchronise();
    assert_eq!(done(), (0, 1), "and not again");
    assert_eq!(text()[..2], [u32::from_ne_bytes([1, 2, 3, 4]), u32::from_ne_bytes([5, 0, 0, 0])]);

    // More stores than the list contains: a rendezvous happens in between, and each store is still repeated.
    for at in 0..SITES {
        store(at, &(at as u32).to_ne_bytes());
    }
    let (stores, rendezvous) = done();
    patcher.synchronise();
    let (again, last) = done();
    assert_eq!(
        (stores + again, last),
        (2 * SITES + rendezvous, 1),
        "one more is for whom there was no room"
    );
    assert!((1..10).contains(&rendezvous), "{rendezvous}");
    assert!(text().iter().enumerate().all(|(at, &word)| word == at as u32));
}
