//! A thread that hits a probe is preempted. When it continues, the id belongs to a probe of another provider.

mod common;

use std::ffi::{CStr, c_int, c_void};
use std::ptr::null_mut;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use common::{drain, spec};
use sdt_core::arg::Borrows;
use sdt_core::ops::{Framework as _, Privileges, ProbeId, ProviderAttr, ProviderId, ProviderOps};
use sdt_framework::{Config, Dtrace, Host};

/// The work of other threads before the firing thread has turned interrupts off.
static OTHERS: Mutex<Option<fn()>> = Mutex::new(None);

struct Uniprocessor;

// SAFETY: the test has one thread.
unsafe impl Host for Uniprocessor {
    type Lock = sdt_framework::SpinLock<Self>;

    fn cpu(&self) -> usize {
        0
    }
    fn cpus(&self) -> usize {
        1
    }
    fn timestamp(&self) -> u64 {
        1
    }
    fn without_interrupts<R>(&self, f: impl FnOnce() -> R) -> R {
        let others = OTHERS.lock().unwrap().take();
        others.into_iter().for_each(|others| others());
        f()
    }
    fn sync(&self) {}
}

static DTRACE: Dtrace<Uniprocessor> = Dtrace::new(Uniprocessor);

/// Room for one probe, so that the id is used again.
const CONFIG: Config = Config { providers: 2, probes: 1, ecbs: 8, consumers: 2, buffer: 1664 };

/// The place where the provider stores its probe's id while the probe is enabled.
static ID: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" fn enable(_: *mut c_void, id: u32, parg: *mut c_void) -> c_int {
    if !parg.is_null() {
        ID.store(id, Ordering::Release);
    }
    0
}
unsafe extern "C" fn disable(_: *mut c_void, _: u32, parg: *mut c_void) {
    if !parg.is_null() {
        ID.store(0, Ordering::Release);
    }
}

const OPS: ProviderOps =
    ProviderOps { enable: Some(enable), disable: Some(disable), ..ProviderOps::INERT };

/// Registers a provider with one probe, which stores its id in [`ID`] if `keeps_id`.
fn register(provider: &CStr, probe: &CStr, keeps_id: bool) -> (ProviderId, ProbeId) {
    let parg = if keeps_id { (&raw const ID).cast_mut().cast() } else { null_mut() };
    // SAFETY: the ops only test whether the pointer is null, and are statics.
    unsafe {
        let id = DTRACE.register(provider, &ProviderAttr::SDT, Privileges::USER, &OPS, null_mut());
        let id = id.unwrap();
        (id, DTRACE.probe_create(id, c"m", c"none", probe, 1, parg).unwrap())
    }
}

#[test]
fn it_is_no_hit_of_that_one() {
    static FIRST: Mutex<Option<ProviderId>> = Mutex::new(None);
    DTRACE.init(common::memory(CONFIG.memory::<Uniprocessor>(1, 2)), &CONFIG).unwrap();
    let (first, exec) = register(c"proc", c"exec", true);
    *FIRST.lock().unwrap() = Some(first);
    let consumer = DTRACE.open().unwrap();
    assert_eq!(DTRACE.enable(consumer, &spec("proc:::")), Ok(1));
    DTRACE.go(consumer).unwrap();
    let hit = || {
        // SAFETY: only the ops `enable` and `disable` change the id, as `hit` requires.
        unsafe { DTRACE.hit(&ID, &[42; 10], Borrows::NOTHING) };
    };
    hit();
    let probes = |id| drain(&DTRACE, id, 0).iter().map(|record| record.probe).collect::<Vec<_>>();
    assert_eq!(probes(consumer), [exec]);
    DTRACE.close(consumer).unwrap();

    let consumer = DTRACE.open().unwrap();
    DTRACE.enable(consumer, &spec("proc:::")).unwrap();
    static SECOND: Mutex<Option<sdt_framework::ConsumerId>> = Mutex::new(None);
    *SECOND.lock().unwrap() = Some(consumer);
    *OTHERS.lock().unwrap() = Some(|| {
        let mut consumer = SECOND.lock().unwrap();
        DTRACE.close(consumer.unwrap()).unwrap();
        DTRACE.unregister(FIRST.lock().unwrap().unwrap()).unwrap();
        let (_, unlock) = register(c"vault", c"unlock", false);
        assert_eq!(unlock.get(), 1, "the id is used again");
        let other = DTRACE.open().unwrap();
        assert_eq!(DTRACE.enable(other, &spec("vault:::unlock")), Ok(1));
        DTRACE.go(other).unwrap();
        *consumer = Some(other);
    });
    hit();
    let consumer = SECOND.lock().unwrap().unwrap();
    assert_eq!(probes(consumer), [], "vault:::unlock never fired");
    let counters = DTRACE.counters();
    assert_eq!((counters.hits, counters.records, counters.unclaimed), (2, 1, 1));
}
