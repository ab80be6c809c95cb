//! Probes fire with all that consumers can enable: D programs, actions, aggregations, speculations. The program contains the code
//! that runs in probe context, without a lock, and not the code that enables probes.

use core::ffi::c_void;
use core::hint::black_box;
use core::sync::atomic::AtomicU32;

use sdt_core::arg::Borrows;
use sdt_core::ops::{Framework, ProbeId};
use sdt_framework::kernel::{Destruction, Kernel, LockQuestion, Number, Text};
use sdt_framework::{Dtrace, Host, SpinLock};

/// A kernel that answers every query, so that no code path is unreachable.
struct Knowing;

/// A value that the compiler cannot know.
fn unknown<T>(value: T) -> T {
    black_box(value)
}

// SAFETY: the test links this program and never runs it.
unsafe impl Host for Knowing {
    type Lock = SpinLock<Self>;

    fn cpu(&self) -> usize {
        unknown(0)
    }

    fn cpus(&self) -> usize {
        unknown(1)
    }

    fn timestamp(&self) -> u64 {
        unknown(0)
    }

    fn without_interrupts<R>(&self, f: impl FnOnce() -> R) -> R {
        f()
    }

    fn sync(&self) {}

    fn kernel(&self) -> &(dyn Kernel + Sync) {
        self
    }
}

impl Kernel for Knowing {
    fn timestamp(&self) -> u64 {
        unknown(0)
    }

    fn load(&self, address: u64, into: &mut [u8]) -> bool {
        into.fill(unknown(address as u8));
        #[cfg(with_a_panic)]
        assert!(into.len() < unknown(9));
        unknown(true)
    }

    fn is_toxic(&self, _: u64, _: u64) -> bool {
        unknown(false)
    }

    fn aligned(&self) -> bool {
        unknown(false)
    }

    fn thread(&self) -> u64 {
        unknown(1)
    }

    fn interrupts(&self) -> u8 {
        unknown(0)
    }

    fn number(&self, which: Number) -> Option<u64> {
        unknown(Some(which as u64))
    }

    fn text(&self, _: Text) -> Option<&[u8]> {
        unknown(Some(b"text"))
    }

    fn argument(&self, index: u64) -> u64 {
        unknown(index)
    }

    fn user_register(&self, index: u64) -> Option<u64> {
        unknown(Some(index))
    }

    fn copyin(&self, address: u64, into: &mut [u8]) -> bool {
        into.fill(unknown(address as u8));
        unknown(true)
    }

    fn copyout(&self, from: &[u8], _: u64) -> bool {
        unknown(from.is_empty())
    }

    fn lock(&self, _: LockQuestion, address: u64) -> Option<u64> {
        unknown(Some(address))
    }

    fn progenyof(&self, _: u64) -> Option<bool> {
        unknown(Some(true))
    }

    fn stack(&self, _: u32, frames: &mut [u64]) -> usize {
        frames.fill(unknown(0));
        unknown(frames.len())
    }

    fn ustack(&self, frames: &mut [u64]) -> usize {
        frames.fill(unknown(0));
        unknown(frames.len())
    }

    fn destroy(&self, _: Destruction) -> bool {
        unknown(true)
    }

    fn predicate_cache(&self) -> Option<&AtomicU32> {
        static CACHE: AtomicU32 = AtomicU32::new(0);
        unknown(Some(&CACHE))
    }
}

static DTRACE: Dtrace<Knowing> = Dtrace::new(Knowing);

#[unsafe(no_mangle)]
extern "C" fn main(count: i32, _: *const *const c_void) -> i32 {
    // The compiler knows neither the memory of the framework nor its enablings.
    let dtrace = unknown(&DTRACE);
    let number = unknown(count as u32);
    if let Some(id) = ProbeId::new(number) {
        dtrace.probe(id, &[u64::from(number); 10]);
        dtrace.probe(id, &[u64::from(number); 3]);
    }
    // SAFETY: no consumer has enabled the probe.
    unsafe { dtrace.hit(&AtomicU32::new(number), &[0; 10], Borrows::NOTHING) };
    // SAFETY: no provider of this program has a `getargval`.
    unsafe { dtrace.probe5(number, [0; 5]) };
    dtrace.tick(0, unknown(0));
    dtrace.sample(unknown(0) as usize, 0, unknown(0), unknown(0));
    dtrace.suspend();
    dtrace.resume();
    dtrace.counters().hits as i32
}
