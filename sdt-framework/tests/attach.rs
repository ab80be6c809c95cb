//! Attaches and detaches an image while the framework refuses each call that can fail, with consumers that list probes
//! and consumers that enable them.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use std::collections::BTreeSet;
use std::ffi::{CStr, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use recording_host::cpus::Uniprocessor;
use sdt_core::arg::Borrows;
use sdt_core::attach::{self, AttachError, Attachment, DetachError};
use sdt_core::ops::{
    Framework, FrameworkError, Privileges, ProbeId, ProviderAttr, ProviderId, ProviderOps,
};
use sdt_core::patch::Mode;
use sdt_core::{sdt_probe, sdt_provider};
use sdt_framework::{Config, ConsumerId, Dtrace, Memory, Record, Spec, Which, records};

sdt_provider!(one);
sdt_provider! {
    two {
        fn d(n: u64);
        fn e(n: u64);
    }
}

/// The number of probes of both providers.
const DECLARED: u32 = 5;

#[inline(never)]
fn fire(n: u64) {
    sdt_probe!(one::a, n);
    sdt_probe!(one::b, n);
    sdt_probe!(one::c, n);
    sdt_probe!(two::d, n);
    sdt_probe!(two::e, n);
    // A second record of one logical probe, and a second site.
    sdt_probe!(one::a, n);
}

static DTRACE: Dtrace<Uniprocessor> =
    // SAFETY: there is one thread at a time.
    Dtrace::new(unsafe { Uniprocessor::new() });

/// Room for the providers and probes of the image, and for no others.
const CONFIG: Config = Config {
    providers: 2,
    probes: DECLARED as usize,
    ecbs: 16,
    consumers: 2,
    buffer: 64 * Record::SIZE,
};

static MEMORY: Memory<{ CONFIG.memory::<Uniprocessor>(1, 2) }> = Memory::new();

/// Passes calls to [`DTRACE`]. Some calls fail, and other code runs before a call.
struct Faulty(Mutex<Plan>);

struct Plan {
    /// Calls so far: whether each creates a probe.
    calls: Vec<bool>,
    /// The numbers of the calls that fail, from 0.
    fail: BTreeSet<u32>,
    /// Simulates another thread before each call.
    meanwhile: fn(call: u32),
}

impl Faulty {
    fn plan(&self, fail: &[u32], meanwhile: fn(u32)) {
        *self.0.lock().unwrap() =
            Plan { calls: Vec::new(), fail: fail.iter().copied().collect(), meanwhile };
    }

    fn calls(&self) -> Vec<bool> {
        self.0.lock().unwrap().calls.clone()
    }

    fn call(&self, creates: bool) -> Result<(), FrameworkError> {
        let (call, fails, meanwhile) = {
            let mut plan = self.0.lock().unwrap();
            let call = plan.calls.len() as u32;
            plan.calls.push(creates);
            // The simulated thread is not interrupted itself.
            (call, plan.fail.contains(&call), std::mem::replace(&mut plan.meanwhile, |_| {}))
        };
        meanwhile(call);
        self.0.lock().unwrap().meanwhile = meanwhile;
        if fails { Err(INJECTED) } else { Ok(()) }
    }
}

const INJECTED: FrameworkError = FrameworkError::Other(5);

// SAFETY: each function calls the same function of a framework that fulfils the contract, or returns an error.
unsafe impl Framework for Faulty {
    unsafe fn register(
        &self,
        name: &CStr,
        attr: &ProviderAttr,
        privileges: Privileges,
        ops: &ProviderOps,
        arg: *mut c_void,
    ) -> Result<ProviderId, FrameworkError> {
        self.call(false)?;
        // SAFETY: the caller fulfils the contract of the same function.
        unsafe { DTRACE.register(name, attr, privileges, ops, arg) }
    }

    unsafe fn unregister(&self, provider: ProviderId) -> Result<(), FrameworkError> {
        self.call(false)?;
        DTRACE.unregister(provider)
    }

    unsafe fn invalidate(&self, provider: ProviderId) {
        // It cannot fail.
        self.call(false).ok();
        let _ = DTRACE.invalidate(provider);
    }

    unsafe fn condense(&self, provider: ProviderId) {
        DTRACE.condense(provider).ok();
    }

    unsafe fn probe_lookup(
        &self,
        provider: ProviderId,
        module: &CStr,
        function: &CStr,
        name: &CStr,
    ) -> Option<ProbeId> {
        self.call(false).ok()?;
        DTRACE.probe_lookup(provider, module, function, name)
    }

    unsafe fn probe_create(
        &self,
        provider: ProviderId,
        module: &CStr,
        function: &CStr,
        name: &CStr,
        aframes: u32,
        parg: *mut c_void,
    ) -> Result<ProbeId, FrameworkError> {
        self.call(true)?;
        // SAFETY: as in `register`.
        unsafe { DTRACE.probe_create(provider, module, function, name, aframes, parg) }
    }

    unsafe fn hit(&self, id: &AtomicU32, args: &[u64; 10], borrows: Borrows) {
        // SAFETY: as in `register`.
        unsafe { DTRACE.hit(id, args, borrows) };
    }
}

static FAULTY: Faulty =
    Faulty(Mutex::new(Plan { calls: Vec::new(), fail: BTreeSet::new(), meanwhile: |_| {} }));
static ATTACHMENT: Attachment = Attachment {
    framework: &FAULTY,
    patcher: &recording_host::Text,
    mode: Mode::Jump,
    module: c"image",
};

/// There is one image, so one test at a time uses it.
static TURN: Mutex<()> = Mutex::new(());

fn attach(fail: &[u32], meanwhile: fn(u32)) -> Result<(), AttachError> {
    FAULTY.plan(fail, meanwhile);
    // SAFETY: sites jump, and for those that trap there is a handler; this program is never unloaded.
    unsafe { attach::attach(&ATTACHMENT) }
}

fn detach(fail: &[u32]) -> Result<(), DetachError> {
    FAULTY.plan(fail, |_| {});
    attach::detach()
}

/// The names of all probes that are listed.
fn listed() -> Vec<String> {
    let mut names = Vec::new();
    DTRACE.for_each_probe(&Spec::ALL, |probe| names.push(probe.to_string())).unwrap();
    names.sort();
    names
}

/// Asserts that both provider slots of the framework are free.
fn nothing_is_registered() {
    assert_eq!(listed(), [""; 0]);
    let (attr, privileges, null) = (&ProviderAttr::SDT, Privileges::USER, std::ptr::null_mut());
    let others = [c"other", c"another"].map(|name| {
        // SAFETY: the ops do nothing, and are statics.
        unsafe { DTRACE.register(name, attr, privileges, &ProviderOps::INERT, null) }
            .expect("there is room")
    });
    for other in others {
        DTRACE.invalidate(other).unwrap();
        DTRACE.unregister(other).unwrap();
    }
}

/// Asserts that the image is attached: every probe is listed once, and fires.
fn all_is_there() {
    let names = ["one:image:none:a", "one:image:none:b", "one:image:none:c"];
    assert_eq!(listed(), [&names[..], &["two:image:none:d", "two:image:none:e"]].concat());
    let consumer = DTRACE.open().unwrap();
    assert_eq!(DTRACE.enable(consumer, &Spec::ALL), Ok(DECLARED));
    DTRACE.go(consumer).unwrap();
    fire(7);
    let mut bytes = [0; 10 * Record::SIZE];
    let found = DTRACE.snapshot(consumer, 0, Which::Records, 0, &mut bytes).unwrap();
    DTRACE.close(consumer).unwrap();
    let records = records(&bytes[..found.size]);
    assert_eq!(records.map(|record| record.args[0]).collect::<Vec<_>>(), [7; 6]);
    let hits = DTRACE.counters().hits;
    fire(8);
    assert_eq!(DTRACE.counters().hits, hits);
}

/// Attaches and detaches once more, without errors.
fn and_it_works_again() {
    assert_eq!(attach(&[], |_| {}), Ok(()));
    all_is_there();
    assert_eq!(detach(&[]), Ok(()));
    nothing_is_registered();
}

/// Returns the calls of the framework that attaching makes if no call fails: whether each creates a probe.
fn calls_of_attach() -> Vec<bool> {
    assert_eq!(attach(&[], |_| {}), Ok(()));
    let calls = FAULTY.calls();
    assert_eq!(detach(&[]), Ok(()));
    calls
}

fn turn() -> std::sync::MutexGuard<'static, ()> {
    let turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    recording_host::host();
    if let Some(memory) = MEMORY.take() {
        DTRACE.init(memory, &CONFIG).unwrap();
    }
    turn
}

#[test]
fn a_refusal_while_attaching_leaves_nothing() {
    let _turn = turn();
    let calls = calls_of_attach();
    assert_eq!(calls.iter().filter(|creates| **creates).count(), DECLARED as usize);
    assert_eq!(calls.len() as u32, 2 + DECLARED);
    for with_consumer in [false, true] {
        for (call, &creates) in (0..).zip(&calls) {
            let consumer = with_consumer.then(|| DTRACE.open().unwrap());
            let error = attach(&[call], |_| {}).unwrap_err();
            let AttachError::Framework(refusal) = error else { panic!("{call}: {error}") };
            assert_eq!((refusal.error, error.must_stay()), (INJECTED, false));
            assert_eq!(refusal.probe.is_some(), creates, "{refusal}");
            nothing_is_registered();
            consumer.into_iter().for_each(|consumer| DTRACE.close(consumer).unwrap());
            and_it_works_again();
        }
    }
}

/// One call fails, and then one of the calls that undo the registration. A provider stays registered, but invalidated, until the
/// next attempt to attach or detach.
#[test]
fn a_refusal_on_the_way_back_is_said() {
    let _turn = turn();
    let calls = calls_of_attach().len() as u32;
    let mut stayed = 0;
    for first in 0..calls {
        for second in first + 1..first + 8 {
            for detach_first in [false, true] {
                let consumer = DTRACE.open().unwrap();
                let error = attach(&[first, second], |_| {}).unwrap_err();
                assert_eq!(listed(), [""; 0], "{first}, {second}");
                DTRACE.close(consumer).unwrap();
                if error.must_stay() {
                    stayed += 1;
                    let AttachError::MustStay { cause, held } = error else { panic!("{error}") };
                    assert_eq!((cause.error, held.error), (INJECTED, INJECTED));
                    // The result is the same as long as the framework refuses.
                    assert_eq!(detach(&[0]), Err(DetachError::Refused(held)));
                    assert_eq!(attach(&[0], |_| {}), Err(AttachError::Leaving(held)));
                    if detach_first {
                        assert_eq!(detach(&[]), Ok(()));
                        nothing_is_registered();
                    }
                } else {
                    nothing_is_registered();
                }
                and_it_works_again();
            }
        }
    }
    assert!(stayed > 0);
}

/// A consumer that enables, before the call with this number, all probes that exist.
static EAGER: Mutex<Option<(u32, ConsumerId)>> = Mutex::new(None);

#[test]
fn what_is_enabled_meanwhile_stays_and_the_error_says_so() {
    let _turn = turn();
    let calls = calls_of_attach();
    let mut stayed = 0;
    for fails in 0..calls.len() as u32 {
        for enables in 0..=fails {
            let consumer = DTRACE.open().unwrap();
            DTRACE.go(consumer).unwrap();
            *EAGER.lock().unwrap() = Some((enables, consumer));
            let error = attach(&[fails], |call| {
                if let Some((at, consumer)) = *EAGER.lock().unwrap()
                    && at == call
                {
                    DTRACE.enable(consumer, &Spec::ALL).unwrap();
                }
            })
            .unwrap_err();
            // The enablings are retained, so the consumer has enabled both existing probes and those created later.
            let before = &calls[..fails as usize];
            let enabled = before.iter().filter(|creates| **creates).count() as u64;
            assert_eq!(error.must_stay(), enabled > 0, "{fails}, {enables}: {error}");
            let hits = DTRACE.counters().hits;
            fire(1);
            let fired = DTRACE.counters().hits - hits;
            // The first probe has two sites.
            assert!(fired == enabled || fired == enabled + 1, "{fired}");
            assert_eq!(listed(), [""; 0]);
            if enabled > 0 {
                stayed += 1;
                assert!(matches!(error, AttachError::MustStay { .. }), "{error}");
                assert!(matches!(detach(&[]), Err(DetachError::Refused(_))));
                assert!(matches!(attach(&[], |_| {}), Err(AttachError::Leaving(_))));
            }
            DTRACE.close(consumer).unwrap();
            let hits = DTRACE.counters().hits;
            fire(2);
            assert_eq!(DTRACE.counters().hits, hits, "a disabled probe does not fire");
            assert_eq!(detach(&[]), Ok(()));
            nothing_is_registered();
            and_it_works_again();
        }
    }
    assert!(stayed > 0);
}

#[test]
fn a_refused_detach_changes_nothing_or_says_so() {
    let _turn = turn();
    let (mut refused, mut reduced) = (0, 0);
    for first in 0..2 {
        for second in first..first + 10 {
            assert_eq!(attach(&[], |_| {}), Ok(()));
            match detach(&[first, second]).unwrap_err() {
                DetachError::Refused(refusal) => {
                    refused += 1;
                    assert_eq!(refusal.error, INJECTED);
                    all_is_there();
                }
                DetachError::Reduced(refusal) => {
                    reduced += 1;
                    assert_eq!(refusal.error, INJECTED);
                    // The next refused attempt registers the missing providers again.
                    assert!(matches!(detach(&[0]), Err(DetachError::Refused(_))));
                    all_is_there();
                }
                other => panic!("{other}"),
            }
            assert_eq!(detach(&[]), Ok(()));
            nothing_is_registered();
            and_it_works_again();
        }
    }
    assert!(refused > 0 && reduced > 0, "{refused}, {reduced}");
    // While a consumer is open, the framework itself refuses.
    assert_eq!(attach(&[], |_| {}), Ok(()));
    let consumer = DTRACE.open().unwrap();
    let busy = detach(&[]).unwrap_err();
    assert_eq!(busy.errno(), FrameworkError::Busy.errno());
    // Like FreeBSD before it calls the module: the probes are destroyed, and created again if the module stays loaded.
    assert_eq!(DTRACE.destroy_module(c"image"), Ok(DECLARED as usize));
    assert_eq!(detach(&[]), Err(busy));
    DTRACE.close(consumer).unwrap();
    all_is_there();
    assert_eq!(detach(&[]), Ok(()));
    nothing_is_registered();
}

/// A consumer lists probes, which calls the op `provide`, before and after every call of the framework by `attach`. At these
/// moments it could find different sets of probes.
#[test]
fn a_probe_is_created_once_whoever_looks_on() {
    let _turn = turn();
    let calls = calls_of_attach();
    static LISTINGS: AtomicU32 = AtomicU32::new(0);
    let list = |_| {
        let names = listed();
        assert_eq!(names.len(), names.iter().collect::<BTreeSet<_>>().len(), "{names:?}");
        LISTINGS.fetch_add(1, Ordering::Relaxed);
    };
    assert_eq!(attach(&[], list), Ok(()));
    assert_eq!(LISTINGS.load(Ordering::Relaxed), calls.len() as u32);
    all_is_there();
    assert_eq!(detach(&[]), Ok(()));
}

/// The same test, with a thread that lists probes continuously.
#[test]
fn a_probe_is_created_once_under_load() {
    let _turn = turn();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let names = listed();
                assert_eq!(names.len(), names.iter().collect::<BTreeSet<_>>().len(), "{names:?}");
            }
        });
        let _done = recording_host::Done(&done);
        for _ in 0..300 {
            assert_eq!(attach(&[], |_| {}), Ok(()));
            assert_eq!(listed().len(), DECLARED as usize);
            assert_eq!(detach(&[]), Ok(()));
        }
    });
}

/// A call during the call of another thread is refused at once.
#[test]
fn two_at_once_are_told_apart() {
    let _turn = turn();
    let again = |_| {
        // SAFETY: as in `attach`.
        assert_eq!(unsafe { attach::attach(&ATTACHMENT) }, Err(AttachError::InProgress));
        assert_eq!(attach::detach(), Err(DetachError::InProgress));
    };
    assert_eq!(attach(&[], again), Ok(()));
    assert_eq!(attach(&[], |_| {}), Err(AttachError::Attached));
    assert_eq!(detach(&[]), Ok(()));
    assert_eq!(detach(&[]), Ok(()), "once more is no harm");
}
