//! The path from a hit to a record, on one CPU.

mod common;

use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};

use common::{
    Five as _, OPS, Small, TestProvider, Threads, and_zeros, create, drain, small, spec, try_create,
};
use recording_host::cpus::CPUS;
use sdt_core::ops::{Framework, Privileges, ProbeId, ProviderAttr, ProviderOps};
use sdt_framework::{ConsumerError, ConsumerId, Counters};

/// The arguments that `getargval` of [`fallback`] returns, and its calls.
struct Nested {
    dtrace: Box<Small>,
    inner: Cell<Option<ProbeId>>,
    asked: RefCell<Vec<(u32, usize, c_int, c_int)>>,
    provider: TestProvider,
}

/// Returns a value for an argument, and fires a probe in probe context.
unsafe extern "C" fn fallback(
    arg: *mut c_void,
    id: u32,
    parg: *mut c_void,
    argno: c_int,
    aframes: c_int,
) -> u64 {
    // SAFETY: registered with a `Nested` that is on the caller's stack, and called by its thread.
    let nested = unsafe { &*arg.cast::<Nested>() };
    nested.asked.borrow_mut().push((id, parg.addr(), argno, aframes));
    if let Some(inner) = nested.inner.get() {
        nested.dtrace.probe(inner, &[1; 6]);
        nested.dtrace.five(u32::MAX, [1; 5]);
    }
    60 + u64::from(argno.unsigned_abs())
}

unsafe extern "C" fn nothing(_arg: *mut c_void, _id: u32, _parg: *mut c_void) {}

unsafe extern "C" fn enabled(_arg: *mut c_void, _id: u32, _parg: *mut c_void) -> c_int {
    0
}

unsafe extern "C" fn no_module(_arg: *mut c_void, _module: *mut c_void) {}

/// Ops with `getargval`, which returns the arguments that `dtrace_probe` does not pass.
const WITH_GETARGVAL: ProviderOps = ProviderOps {
    provide: None,
    provide_module: Some(no_module),
    enable: Some(enabled),
    disable: Some(nothing),
    suspend: None,
    resume: None,
    getargdesc: None,
    getargval: Some(fallback),
    usermode: None,
    destroy: Some(nothing),
};

fn nested() -> Nested {
    Nested {
        dtrace: small(),
        inner: Cell::new(None),
        asked: RefCell::new(Vec::new()),
        provider: TestProvider::default(),
    }
}

impl Nested {
    /// The probes `x:::outer`, `x:::inner` and `plain:::other`, all enabled, and the consumer.
    fn start(&self) -> ([ProbeId; 3], ConsumerId) {
        Threads::bind(1);
        let arg = std::ptr::from_ref(self).cast_mut().cast();
        let dtrace = &*self.dtrace;
        // SAFETY: both providers outlive the framework.
        let (x, plain) = unsafe {
            (
                dtrace
                    .register(c"x", &ProviderAttr::SDT, Privileges::USER, &WITH_GETARGVAL, arg)
                    .unwrap(),
                self.provider.register(dtrace, c"plain").unwrap(),
            )
        };
        let outer = try_create(dtrace, x, [c"", c"", c"outer"], 3, 7).unwrap();
        let inner = create(dtrace, x, [c"", c"", c"inner"], 8);
        let other = create(dtrace, plain, [c"", c"", c"other"], 9);
        let consumer = dtrace.open().unwrap();
        dtrace.enable(consumer, &spec("")).unwrap();
        dtrace.go(consumer).unwrap();
        ([outer, inner, other], consumer)
    }
}

#[test]
fn arguments_that_a_hit_does_not_bring_along_are_asked_for() {
    let nested = nested();
    let ([outer, _, other], consumer) = nested.start();
    let args =
        |records: Vec<common::Firing>| records.iter().map(|record| record.args).collect::<Vec<_>>();
    nested.dtrace.five(outer.get(), [1, 2, 3, 4, 5]);
    let questions = |id: ProbeId| [5, 6, 7, 8, 9].map(|argno| (id.get(), 7, argno, 3));
    assert_eq!(nested.asked.take(), questions(outer));
    nested.dtrace.probe(outer, &[1, 2, 3, 4, 5, 6]);
    assert_eq!(nested.asked.take(), []);
    nested.dtrace.five(other.get(), [1, 2, 3, 4, 5]);
    let asked = [1, 2, 3, 4, 5, 65, 66, 67, 68, 69];
    let [given, none] = [and_zeros([1, 2, 3, 4, 5, 6]), and_zeros([1, 2, 3, 4, 5])];
    assert_eq!(args(drain(&nested.dtrace, consumer, 1)), [asked, given, none]);
    // Without a recording consumer, `getargval` is not called.
    nested.dtrace.stop(consumer).unwrap();
    nested.dtrace.five(outer.get(), [1, 2, 3, 4, 5]);
    assert_eq!(nested.asked.take(), []);
    // Two enablings of one consumer: each calls `getargval`, and makes an equal record.
    nested.dtrace.enable(consumer, &spec("outer")).unwrap();
    nested.dtrace.go(consumer).unwrap();
    nested.dtrace.five(outer.get(), [9; 5]);
    assert_eq!(nested.asked.take(), [questions(outer); 2].concat());
    let asked = [9, 9, 9, 9, 9, 65, 66, 67, 68, 69];
    assert_eq!(args(drain(&nested.dtrace, consumer, 1)), [asked; 2]);
}

#[test]
fn a_probe_that_fires_in_probe_context_is_counted_and_not_recorded() {
    let nested = nested();
    let ([outer, inner, _], consumer) = nested.start();
    nested.inner.set(Some(inner));
    for _ in 0..3 {
        nested.dtrace.five(outer.get(), [0; 5]);
    }
    let records = drain(&nested.dtrace, consumer, 1);
    assert_eq!(records.iter().map(|record| record.probe).collect::<Vec<_>>(), [outer; 3]);
    let expected = Counters { hits: 3, records: 3, reentered: 30, ..Counters::default() };
    let counters = nested.dtrace.counters();
    assert!(counters.most_work > 0, "a hit of clauses is work");
    assert_eq!(Counters { most_work: 0, ..counters }, expected);
    // The flag of probe context was reset: the probe fires alone.
    nested.inner.set(None);
    nested.dtrace.probe(inner, &[0; 6]);
    assert_eq!(drain(&nested.dtrace, consumer, 1).len(), 1);
}

#[test]
fn ids_that_are_no_probes_are_counted() {
    let nested = nested();
    let ([outer, ..], consumer) = nested.start();
    for id in [0, 4, 16, 17, u32::MAX] {
        nested.dtrace.five(id, [0; 5]);
    }
    assert_eq!(nested.dtrace.counters(), Counters { unknown: 5, ..Counters::default() });
    // The id of a destroyed probe is unknown, too.
    nested.dtrace.close(consumer).unwrap();
    assert_eq!(nested.dtrace.destroy_module(c""), Ok(3));
    nested.dtrace.probe(outer, &[0; 6]);
    assert_eq!(nested.dtrace.counters(), Counters { unknown: 6, ..Counters::default() });
}

#[test]
fn a_cpu_without_room_is_counted() {
    let dtrace = common::with_memory(Threads::new(), &common::SMALL);
    let provider = TestProvider::default();
    // SAFETY: the provider outlives the framework.
    let p = unsafe { provider.register(&*dtrace, c"p") }.unwrap();
    let probe = create(&*dtrace, p, [c"", c"", c"n"], 0);
    Threads::bind(CPUS);
    dtrace.probe(probe, &[0; 6]);
    Threads::bind(0);
    dtrace.probe(probe, &[0; 6]);
    let expected = Counters { hits: 1, unclaimed: 1, stray: 1, ..Counters::default() };
    assert_eq!(dtrace.counters(), expected);
}

/// Each error states the object and the defect in one line.
#[test]
fn errors_read_well() {
    let full = ConsumerError::TooManyEnablings { needed: 3, left: 2 };
    assert_eq!(full.to_string(), "3 probes match, and only 2 more can be enabled; enable fewer");
    let closed = ConsumerError::NotOpen(ConsumerId::new(4).unwrap());
    assert_eq!(closed.to_string(), "consumer 4 is not open");
    let ops = ProviderOps { destroy: None, ..OPS };
    let missing = sdt_framework::registration::check(c"p", Privileges::USER, &ops).unwrap_err();
    assert_eq!(missing.to_string(), "the op 'destroy' is missing");
}
