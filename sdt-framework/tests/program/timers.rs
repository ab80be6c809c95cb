//! Probes that timers fire.

use std::sync::atomic::Ordering;

use crate::common::{Threads, spec};
use crate::machine::{Machine, machine};
use crate::run::Kernel;

#[test]
fn timers_fire_when_they_are_due() {
    let kernel: &'static Kernel<Machine> = Box::leak(Box::new(machine()));
    let dtrace: &'static sdt_framework::Dtrace<Machine> = &kernel.dtrace;
    assert_eq!(dtrace.tick(0, 0), None);
    dtrace.register_profile(2).unwrap();
    assert!(dtrace.register_profile(2).is_err());
    let listed = dtrace.for_each_probe(&spec("profile:::"), |_| {}).unwrap();
    assert_eq!(listed, 0, "the usual ones would leave no room for others");
    assert_eq!(dtrace.tick(0, 0), None);
    let now = |ms: u64| dtrace.host().now.store(ms * 1_000_000, Ordering::Relaxed);
    let x = kernel.consumer();
    assert_eq!(x.enable("profile-97 { trace(arg0); trace(arg1); trace(arg2 / 1000000); }"), 1);
    assert_eq!(x.enable("profile:::profile-199 { trace(arg0); }"), 1);
    assert_eq!(x.enable("profile:::tick-7s { trace(1); }"), 0, "there is no room for it");
    assert!(dtrace.host().changes.load(Ordering::Relaxed) > 0);
    x.go();
    assert_eq!(dtrace.tick(1, 2), Some(1_000_000_000 / 199));
    now(6);
    assert_eq!(dtrace.tick(1, 2), Some(2 * (1_000_000_000 / 199)));
    now(40);
    dtrace.tick(3, 4);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            Threads::bind(2);
            dtrace.tick(5, 6);
        });
    });
    let numbers = x.numbers();
    assert_eq!(numbers, [vec![1], vec![3, 4, 29], vec![3]]);
    assert_eq!(x.records(2).0.len(), 2);
    dtrace.close(x.id).unwrap();
    assert_eq!(dtrace.tick(0, 0), None);
}

/// Timers do not count the time between enabling and start, and a later consumer does not delay the timers of others.
#[test]
fn timers_count_from_when_somebody_goes() {
    const MS: u64 = 1_000_000;
    let kernel: &'static Kernel<Machine> = Box::leak(Box::new(machine()));
    let dtrace: &'static sdt_framework::Dtrace<Machine> = &kernel.dtrace;
    dtrace.register_profile(4).unwrap();
    let now = |ms: u64| dtrace.host().now.store(ms * MS, Ordering::Relaxed);
    let x = kernel.consumer();
    assert_eq!(x.enable("tick-10ms { trace(arg2 / 1000000); }"), 1);
    now(8);
    x.go();
    assert_eq!(dtrace.tick(0, 0), Some(18 * MS));
    now(15);
    let y = kernel.consumer();
    assert_eq!(y.enable("tick-10ms { trace(1); } tick-20ms { trace(2); }"), 2);
    now(17);
    y.go();
    assert_eq!(dtrace.tick(0, 0), Some(18 * MS), "that one ticks already");
    now(18);
    assert_eq!(dtrace.tick(0, 0), Some(28 * MS));
    now(37);
    dtrace.tick(0, 0);
    // A consumer that stops and continues does not restart its timers.
    x.stop();
    x.go();
    assert_eq!(dtrace.tick(0, 0), Some(38 * MS));
    assert_eq!(
        (x.numbers(), y.numbers()),
        (vec![vec![0], vec![9]], vec![vec![1], vec![1], vec![2]])
    );
}

/// A host whose timer is one-shot has to arm it when a timer is enabled.
#[test]
fn timers_that_the_host_does_not_drive_are_counted() {
    let kernel: &'static Kernel<Machine> = Box::leak(Box::new(machine()));
    let dtrace: &'static sdt_framework::Dtrace<Machine> = &kernel.dtrace;
    assert_eq!(dtrace.late_timers(), 0);
    dtrace.register_profile(4).unwrap();
    let now = |ms: u64| dtrace.host().now.store(ms * 1_000_000, Ordering::Relaxed);
    let x = kernel.consumer();
    assert_eq!(x.enable("tick-1s { trace(1); } profile-10ms { trace(2); }"), 2);
    x.go();
    for (ms, late) in [(2005, 0), (2500, 1), (3500, 2)] {
        now(ms);
        assert_eq!(dtrace.late_timers(), late, "{ms} ms");
    }
    // CPU 1 drives the profile, but not CPU 0, on which BEGIN has fired.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            Threads::bind(1);
            dtrace.tick(0, 0);
        });
    });
    assert_eq!(dtrace.late_timers(), 2);
    dtrace.tick(0, 0);
    assert_eq!(dtrace.late_timers(), 0);
    now(9000);
    assert_eq!(dtrace.late_timers(), 2);
    dtrace.close(x.id).unwrap();
    assert_eq!(dtrace.late_timers(), 0);
}

/// A CPU that has hit a probe exists, so `profile-N` has to fire on it.
#[test]
fn a_profile_on_some_cpus_only_counts_as_late() {
    let kernel: &'static Kernel<Machine> = Box::leak(Box::new(machine()));
    let dtrace: &'static sdt_framework::Dtrace<Machine> = &kernel.dtrace;
    dtrace.register_profile(4).unwrap();
    let x = kernel.consumer();
    assert_eq!(x.enable("profile-10ms { trace(1); }"), 1);
    x.go();
    dtrace.host().now.store(3_000_000_000, Ordering::Relaxed);
    dtrace.tick(0, 0);
    assert_eq!(dtrace.late_timers(), 0, "the other CPUs may not exist");
    let on_another = |f: &(dyn Fn() + Sync)| {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                Threads::bind(1);
                f();
            });
        });
    };
    let id = sdt_core::ops::ProbeId::new(1).unwrap();
    on_another(&|| dtrace.probe(id, &[0; 5]));
    assert_eq!(dtrace.late_timers(), 1);
    on_another(&|| {
        dtrace.tick(0, 0);
    });
    assert_eq!(dtrace.late_timers(), 0);
}

/// A host that samples its threads fires `profile-N` itself, and `tick` fires only `tick-N`.
#[test]
fn a_host_can_sample_threads() {
    let kernel: &'static Kernel<Machine> = Box::leak(Box::new(machine()));
    let dtrace: &'static sdt_framework::Dtrace<Machine> = &kernel.dtrace;
    dtrace.host().samples.store(true, Ordering::Relaxed);
    dtrace.register_profile(4).unwrap();
    let x = kernel.consumer();
    assert_eq!(x.enable("profile-10ms { trace(arg0); trace(arg1); trace(arg2); }"), 1);
    assert_eq!(x.enable("tick-20ms { trace(1); }"), 1);
    let samplings = || std::mem::take(&mut *dtrace.host().samplings.lock().unwrap());
    assert_eq!(samplings(), [(0, Some(10_000_000))]);
    x.go();
    dtrace.host().now.store(5_000_000_000, Ordering::Relaxed);
    assert_eq!(dtrace.late_timers(), 1, "the tick");
    dtrace.tick(7, 7);
    assert_eq!(dtrace.late_timers(), 0);
    for timer in [0, 1, 2, 99] {
        dtrace.sample(timer, 0, 5, 6);
    }
    let mut numbers = x.numbers();
    numbers.sort();
    assert_eq!(numbers, [vec![0, 5, 6], vec![1]]);
    dtrace.close(x.id).unwrap();
    assert_eq!(samplings(), [(0, None)]);
    let hits = dtrace.counters().hits;
    dtrace.sample(0, 0, 5, 6);
    assert_eq!(dtrace.counters().hits, hits, "it is disabled");
}

#[test]
fn a_tick_fires_on_one_cpu() {
    let kernel: &'static Kernel<Machine> = Box::leak(Box::new(machine()));
    let dtrace: &'static sdt_framework::Dtrace<Machine> = &kernel.dtrace;
    dtrace.register_profile(14).unwrap();
    let x = kernel.consumer();
    assert_eq!(x.enable("tick-10ms { trace(1); }"), 1, "beside 13 that are listed");
    assert_eq!(x.enable("profile:::tick-100 { trace(2); }"), 1);
    x.go();
    dtrace.host().now.store(25_000_000, Ordering::Relaxed);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            Threads::bind(1);
            assert_eq!(dtrace.tick(0, 0), None);
        });
    });
    dtrace.tick(0, 0);
    let mut numbers = x.numbers();
    numbers.sort();
    assert_eq!((numbers, x.records(1).0.len()), (vec![vec![1], vec![2]], 0));
}

/// A consumer that lists or matches probes, and enables none, takes no timer away from others.
#[test]
fn a_listing_keeps_no_timer() {
    let kernel: &'static Kernel<Machine> = Box::leak(Box::new(machine()));
    let dtrace: &'static sdt_framework::Dtrace<Machine> = &kernel.dtrace;
    dtrace.register_profile(3).unwrap();
    let list = |name: &str| {
        let mut id = None;
        let found = dtrace.for_each_probe(&spec(&format!("profile:::{name}")), |probe| {
            id = Some(probe.id());
        });
        assert!(found.unwrap() <= 1);
        id
    };
    let x = kernel.consumer();
    assert_eq!(x.enable("tick-10ms { trace(7); }"), 1);
    let ticks = list("tick-10ms").unwrap();
    for minutes in 1..=60 {
        assert!(list(&format!("tick-{minutes}min")).is_some(), "{minutes}");
        // The probe that was listed last still exists.
        assert!(minutes == 1 || list(&format!("tick-{}min", minutes - 1)).is_some(), "{minutes}");
    }
    assert_eq!(list("tick-10ms"), Some(ticks));
    let y = kernel.consumer();
    assert_eq!(y.enable("tick-20ms { trace(8); } profile-97 { trace(9); }"), 2);
    assert_eq!(list("tick-5min"), None, "all of them are enabled");
    x.go();
    y.go();
    dtrace.host().now.store(25_000_000, Ordering::Relaxed);
    dtrace.tick(0, 0);
    assert_eq!(list("tick-10ms"), Some(ticks));
    assert_eq!((x.numbers(), y.numbers()), (vec![vec![7]], vec![vec![8], vec![9]]));
    dtrace.close(y.id).unwrap();
    assert!(list("tick-5min").is_some() && list("tick-6min").is_some());
    assert_eq!(list("tick-10ms"), Some(ticks));
}

/// The usual probes are replaced last.
#[test]
fn usual_timers_stay_listed_while_others_can_go() {
    let kernel: &'static Kernel<Machine> = Box::leak(Box::new(machine()));
    let dtrace: &'static sdt_framework::Dtrace<Machine> = &kernel.dtrace;
    dtrace.register_profile(15).unwrap();
    let count = |text: &str| dtrace.for_each_probe(&spec(text), |_| {}).unwrap();
    assert_eq!(count("profile:::"), 13);
    for minutes in 1..=30 {
        assert_eq!(count(&format!("profile:::tick-{minutes}min")), 1);
    }
    assert_eq!((count("profile:::"), count("profile:::profile-*")), (15, 7));
    let x = kernel.consumer();
    let names: Vec<String> =
        (1..=15).map(|n| format!("tick-{}ms {{ trace(1); }}", n * 7)).collect();
    assert_eq!(x.enable(&names.concat()), 15);
    assert_eq!(count("profile:::"), 15);
}
