//! Runtime providers on `sdt-framework`: every error, the state after an error, and concurrent threads.

mod common;

use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use common::{SMALL, Small, Threads, drain, memory, spec};
use recording_host::Done;
use sdt_core::ops::{FrameworkError, Privileges, ProviderAttr};
use sdt_core::runtime::{
    AddError, CloseError, FireError, InProgress, OpenError, Probe, Provider, RemoveError, Slot, arg,
};
use sdt_framework::{Config, Dtrace, Spec};

/// Returns a framework with memory that is never freed.
fn dtrace(config: &Config) -> &'static Small {
    let dtrace: &Small = Box::leak(Box::new(Dtrace::new(Threads::new())));
    dtrace.init(memory(config.memory::<Threads>(recording_host::cpus::CPUS, 3)), config).unwrap();
    dtrace
}

fn provider<const SLOTS: usize>() -> &'static Provider {
    let slots: &[Slot] = Box::leak(Box::new([const { Slot::new() }; SLOTS]));
    Box::leak(Box::new(Provider::new(slots)))
}

fn open(provider: &'static Provider, dtrace: &'static Small, name: &CStr) -> Result<(), OpenError> {
    // SAFETY: the program of the tests is never unloaded.
    unsafe { provider.open_with(dtrace, c"vm", name, &ProviderAttr::SDT, Privileges::USER) }
}

fn listed(dtrace: &Small, text: &str) -> Vec<String> {
    let mut names = Vec::new();
    dtrace.for_each_probe(&spec(text), |probe| names.push(probe.to_string())).unwrap();
    names.sort();
    names
}

#[test]
fn a_provider_is_made_fires_and_goes() {
    Threads::bind(0);
    let (dtrace, script) = (dtrace(&SMALL), provider::<3>());
    assert_eq!(open(script, dtrace, c"script"), Ok(()));
    assert_eq!(listed(dtrace, "script:::"), [""; 0]);
    let lookup = script.add(c"main", c"lookup", &[arg::<i64>(), arg::<&CStr>()]).unwrap();
    let done = script.add(c"main", c"done", &[]).unwrap();
    assert_eq!(listed(dtrace, "script:::"), ["script:vm:main:done", "script:vm:main:lookup"]);
    assert_eq!(lookup.names(), (c"main", c"lookup"));
    let found = script.find(c"main", c"lookup").unwrap().expect("it is there");
    assert_eq!((found.names(), found.args().len()), (lookup.names(), 2));
    assert!(script.find(c"other", c"lookup").unwrap().is_none());

    let consumer = dtrace.open().unwrap();
    assert_eq!(dtrace.enable(consumer, &spec("script:::lookup")), Ok(1));
    dtrace.go(consumer).unwrap();
    assert!(lookup.is_enabled() && found.is_enabled() && !done.is_enabled());
    assert_eq!(lookup.fire(&[u64::MAX, 7]), Ok(()));
    assert_eq!(found.fire(&[1, 2]), Ok(()));
    assert_eq!(done.fire(&[]), Ok(()));
    let hits: Vec<_> = drain(dtrace, consumer, 0).iter().map(|hit| hit.args).collect();
    assert_eq!(hits, [common::and_zeros([u64::MAX, 7]), common::and_zeros([1, 2])]);

    // An enabling also matches probes that are created later.
    assert_eq!(dtrace.enable(consumer, &spec("script:::late-*")), Ok(0));
    let late = script.add(c"main", c"late-1", &[arg::<u8>()]).unwrap();
    assert!(late.is_enabled());
    late.fire(&[9]).unwrap();
    assert_eq!(drain(dtrace, consumer, 0)[0].args[0], 9);
    dtrace.close(consumer).unwrap();
    assert!(!late.is_enabled());
    assert_eq!(script.close(), Ok(()));
    assert_eq!(listed(dtrace, ""), [""; 0]);
    assert_eq!(late.fire(&[9]), Err(FireError::Removed));
}

#[test]
fn types_are_told() {
    let (dtrace, script) = (dtrace(&SMALL), provider::<1>());
    open(script, dtrace, c"script").unwrap();
    let args = [arg::<i64>(), arg::<&CStr>(), arg::<bool>()];
    let _probe = script.add(c"", c"typed", &args).unwrap();
    let mut id = None;
    dtrace.for_each_probe(&spec("script:::typed"), |probe| id = Some(probe.id())).unwrap();
    let types: Vec<_> = dtrace.arg_descs(id.unwrap()).map(|desc| desc.native.to_string()).collect();
    assert_eq!(types, ["int64_t", "char *", "_Bool"]);
}

#[test]
fn what_cannot_be_opened() {
    let (small, script) = (dtrace(&SMALL), provider::<1>());
    assert_eq!(
        script.open(c"script", &ProviderAttr::SDT, Privileges::USER),
        Err(OpenError::NotAttached)
    );
    assert_eq!(
        open(script, small, &CString::new("x".repeat(64)).unwrap()),
        Err(OpenError::LongName)
    );
    assert_eq!(open(script, small, c"dtrace"), Err(OpenError::Taken));
    assert_eq!(open(script, small, c"pid12"), Err(OpenError::Taken));
    let invalid = Err(OpenError::Framework(FrameworkError::Invalid));
    assert_eq!(open(script, small, c"7up"), invalid);
    assert_eq!(open(script, small, c""), invalid);
    assert_eq!(open(script, small, c"a\nb"), invalid);
    assert!(!script.is_open());
    assert_eq!(script.close(), Err(CloseError::NotOpen));
    assert_eq!(script.add(c"", c"x", &[]).unwrap_err(), AddError::NotOpen);
    assert!(script.find(c"", c"x").unwrap().is_none());

    let none: &Small = Box::leak(Box::new(Dtrace::new(Threads::new())));
    let not_ready = Err(OpenError::Framework(FrameworkError::NotReady));
    assert_eq!(open(script, none, c"script"), not_ready);

    assert_eq!(open(script, small, &CString::new("x".repeat(63)).unwrap()), Ok(()));
    assert_eq!(open(script, small, c"script"), Err(OpenError::Open));
    let more: Vec<_> = (1..SMALL.providers).map(|_| provider::<1>()).collect();
    more.iter().for_each(|more| open(more, small, c"more").unwrap());
    let full = Err(OpenError::Framework(FrameworkError::Full));
    assert_eq!(open(provider::<1>(), small, c"one-too-many"), full);

    // Closed, while a handle of a probe exists.
    let probe = script.add(c"", c"x", &[]).unwrap();
    script.close().unwrap();
    assert_eq!(open(script, small, c"again"), Err(OpenError::Held));
    let other = probe.clone();
    drop(probe);
    assert_eq!(open(script, small, c"again"), Err(OpenError::Held));
    drop(other);
    assert_eq!(open(script, small, c"again"), Ok(()));
}

#[test]
fn what_cannot_be_added() {
    let config = Config { probes: 3, ..SMALL };
    let (dtrace, script) = (dtrace(&config), provider::<4>());
    open(script, dtrace, c"script").unwrap();
    assert_eq!(script.room(), 4);
    let refused = |function: &CStr, name: &CStr, args: usize| {
        script.add(function, name, &vec![arg::<u64>(); args]).unwrap_err()
    };
    assert_eq!(refused(c"", c"", 0), AddError::NoName);
    let long = |bytes: usize| CString::new("x".repeat(bytes)).unwrap();
    assert_eq!(refused(c"", &long(64), 0), AddError::LongName);
    assert_eq!(refused(&long(512), c"x", 0), AddError::LongName);
    for bad in [c"a\nb", c"\x1b[2J", c"x\x7f"] {
        assert_eq!([refused(c"", bad, 0), refused(bad, c"x", 0)], [AddError::BadName; 2]);
    }
    assert_eq!(refused(c"", c"x", 11), AddError::Arguments { given: 11, most: 10 });
    let ten = script.add(c"f", &long(63), &[arg::<u64>(); 10]).unwrap();
    assert_eq!(refused(c"f", &long(63), 1), AddError::Twice);
    let other = script.add(c"g", &long(63), &[]).unwrap();
    let third = script.add(c"", c"third", &[]).unwrap();
    // The framework's table is full: the new probe leaves nothing, and the other probes still exist.
    assert_eq!(refused(c"", c"fourth", 0), AddError::Framework(FrameworkError::Full));
    assert_eq!((script.room(), listed(dtrace, "").len()), (1, 3));
    assert!(script.find(c"", c"fourth").unwrap().is_none());
    third.remove().unwrap();
    let fourth = script.add(c"", c"fourth", &[]).unwrap();
    // A handle of the third probe exists, so all slots are taken.
    assert_eq!(refused(c"", c"fifth", 0), AddError::NoSlot);
    drop(third);
    fourth.remove().unwrap();
    assert_eq!(script.add(c"", c"third", &[]).map(|_| ()), Ok(()), "a name of one that is gone");
    assert_eq!((ten.fire(&[0; 10]), other.fire(&[])), (Ok(()), Ok(())));
}

/// Two providers with the same slots: the second one cannot be opened, not even when the first one is closed.
#[test]
fn slots_are_of_one_provider() {
    static SLOTS: [Slot; 2] = [const { Slot::new() }; 2];
    static ONE: Provider = Provider::new(&SLOTS);
    static OTHER: Provider = Provider::new(&SLOTS);
    Threads::bind(0);
    let dtrace = dtrace(&SMALL);
    open(&ONE, dtrace, c"one").unwrap();
    assert_eq!(open(&OTHER, dtrace, c"other"), Err(OpenError::Shared));
    ONE.close().unwrap();
    assert_eq!(open(&OTHER, dtrace, c"other"), Err(OpenError::Shared));
    assert_eq!(open(&ONE, dtrace, c"one"), Ok(()));
}

#[test]
fn what_is_enabled_is_not_removed() {
    Threads::bind(0);
    let (dtrace, script) = (dtrace(&SMALL), provider::<4>());
    open(script, dtrace, c"script").unwrap();
    let [a, b] = [c"a", c"b"].map(|name| script.add(c"", name, &[arg::<u64>()]).unwrap());
    let consumer = dtrace.open().unwrap();
    dtrace.enable(consumer, &spec("script:::a")).unwrap();
    dtrace.go(consumer).unwrap();
    assert_eq!(a.remove(), Err(RemoveError::Enabled));
    assert_eq!(script.close(), Err(CloseError::Framework(FrameworkError::Busy)));
    a.fire(&[1]).unwrap();
    // A probe that is not enabled is removed even while a consumer is open; the other one does not change.
    assert_eq!(b.remove(), Ok(()));
    assert_eq!(b.remove(), Err(RemoveError::Removed));
    assert_eq!(b.fire(&[1]), Err(FireError::Removed));
    a.fire(&[2]).unwrap();
    assert_eq!(
        drain(dtrace, consumer, 0).iter().map(|hit| hit.args[0]).collect::<Vec<_>>(),
        [1, 2]
    );
    assert_eq!(listed(dtrace, "script:::"), ["script:vm::a"]);
    // A new probe is none of the removed probes.
    let c = script.add(c"", c"c", &[]).unwrap();
    assert_eq!(b.fire(&[]), Err(FireError::Removed));
    assert_eq!(c.fire(&[1]), Err(FireError::Arguments { takes: 0, given: 1 }));
    assert_eq!(a.fire(&[]), Err(FireError::Arguments { takes: 1, given: 0 }), "enabled or not");
    dtrace.disable(consumer, &Spec::ALL).unwrap();
    assert_eq!(a.remove(), Ok(()));
    assert_eq!(listed(dtrace, "script:::"), ["script:vm::c"]);
    dtrace.close(consumer).unwrap();
    assert_eq!(script.close(), Ok(()));
}

/// The framework destroys probes, as FreeBSD's does with the probes of a module that may be unloaded soon. They are created
/// again.
#[test]
fn what_the_framework_destroys_is_provided_again() {
    let (dtrace, script) = (dtrace(&SMALL), provider::<2>());
    open(script, dtrace, c"script").unwrap();
    let a = script.add(c"", c"a", &[]).unwrap();
    assert_eq!(dtrace.destroy_module(c"vm"), Ok(1));
    assert_eq!(a.fire(&[]), Ok(()));
    assert_eq!(listed(dtrace, "script:::"), ["script:vm::a"]);
    assert_eq!(dtrace.destroy_module(c"vm"), Ok(1));
    assert_eq!(a.remove(), Ok(()));
    assert_eq!(listed(dtrace, "script:::"), [""; 0]);
}

/// Threads add, remove, enable, disable, search and fire probes at the same time. No hit has an id that belongs to no probe, no
/// probe is lost by an error, and in the end all slots are free.
#[test]
fn threads_come_between_each_other() {
    const ROUNDS: u64 = 400;
    let config = Config { probes: 8, ecbs: 16, buffer: 1 << 16, ..SMALL };
    let (dtrace, script) = (dtrace(&config), provider::<2>());
    open(script, dtrace, c"script").unwrap();
    static STOP: AtomicBool = AtomicBool::new(false);
    static HITS: AtomicU64 = AtomicU64::new(0);
    let (send, receive) = std::sync::mpsc::channel::<(u64, Probe)>();
    let changes = move || {
        let mut n = 0;
        let mut held = Vec::new();
        while n < ROUNDS && !STOP.load(Ordering::Acquire) {
            let name = CString::new(format!("p{n}")).unwrap();
            match script.add(c"", &name, &[arg::<u64>(), arg::<u64>()]) {
                Ok(probe) => {
                    send.send((n, probe.clone())).unwrap();
                    held.push(probe);
                    n += 1;
                }
                Err(AddError::NoSlot | AddError::InProgress) => {}
                Err(error) => panic!("{error}"),
            }
            // No other thread removes these probes.
            held.retain(|probe| match probe.remove() {
                Ok(()) => false,
                Err(RemoveError::Enabled | RemoveError::InProgress) => true,
                Err(error) => panic!("{error}"),
            });
            thread::yield_now();
        }
        drop(send);
        held
    };
    let fires = move || {
        Threads::bind(1);
        // Keeps the previous handle, whose probe may have been removed long ago.
        let mut last: Option<(u64, Probe)> = None;
        for (n, probe) in receive {
            for (n, probe) in last.iter().chain([&(n, probe.clone())]) {
                for i in 0..20 {
                    match probe.fire(&[*n, i]) {
                        Ok(()) | Err(FireError::Removed) => HITS.fetch_add(1, Ordering::Relaxed),
                        Err(error) => panic!("{error}"),
                    };
                }
            }
            last = Some((n, probe));
        }
    };
    let traces = move || {
        // Ends the other threads if this thread fails, because only this thread disables the probes that it has enabled.
        let _stop = Done(&STOP);
        let consumer = dtrace.open().unwrap();
        dtrace.go(consumer).unwrap();
        while !STOP.load(Ordering::Acquire) {
            dtrace.enable(consumer, &spec("script:::")).ok();
            dtrace.for_each_probe(&spec("script:::"), |_| ()).unwrap();
            for hit in drain(dtrace, consumer, 1) {
                assert!(hit.args[0] < ROUNDS && hit.args[1] < 20, "{hit:?}");
            }
            dtrace.disable(consumer, &Spec::ALL).ok();
        }
        dtrace.close(consumer).unwrap();
    };
    thread::scope(|scope| {
        let stop = Done(&STOP);
        let changes = scope.spawn(changes);
        let fires = scope.spawn(fires);
        let traces = scope.spawn(traces);
        let held = changes.join().unwrap();
        fires.join().unwrap();
        drop(stop);
        traces.join().unwrap();
        drop(held);
    });
    assert!(HITS.load(Ordering::Relaxed) > ROUNDS);
    assert_eq!(script.close(), Ok(()));
    assert_eq!(script.room(), 2);
    assert_eq!(dtrace.counters().unknown, 0, "no thread fired a removed probe");
}

#[test]
fn errors_say_what_is_wrong() {
    let errors: [(&dyn std::error::Error, &str); 8] = [
        (&InProgress, "another thread"),
        (&OpenError::Held, "drop it"),
        (&OpenError::Framework(FrameworkError::Full), "full"),
        (&CloseError::NotOpen, "not open"),
        (
            &AddError::Arguments { given: 7, most: 5 },
            "7 arguments, and the framework supports at most 5",
        ),
        (&AddError::NoSlot, "slots"),
        (&RemoveError::Enabled, "enabled"),
        (&FireError::Arguments { takes: 1, given: 2 }, "has 1 arguments, and 2 were given"),
    ];
    for (error, says) in errors {
        assert!(error.to_string().contains(says), "{error}");
    }
}
