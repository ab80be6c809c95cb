//! Drops are counted separately by kind, and have no other effect.

use dtrace_abi::option::OptionId;
use recording_host::cpus::Threads;
use sdt_framework::Which;

use crate::run::Kernel;

#[test]
fn records() {
    let kernel = Kernel::new();
    let x = kernel.consumer();
    x.set(OptionId::Bufsize, 96);
    x.enable("proc:::a { trace(arg0); }");
    x.go();
    (0..10).for_each(|n| kernel.hit(0, n));
    let (records, drops) = x.records(0);
    assert_eq!((records.len(), drops), (4, 6), "24 bytes each");
    assert_eq!(x.records(0), (vec![], 0), "drops are reported once");
    kernel.hit(0, 1);
    assert_eq!(x.records(0).0.len(), 1);
    let counters = kernel.dtrace.counters();
    assert_eq!((counters.records, counters.drops), (5, 6));
}

#[test]
fn aggregations() {
    let kernel = Kernel::new();
    let x = kernel.consumer();
    x.set(OptionId::Aggsize, 1024);
    x.enable("proc:::a { @[arg0] = count(); }");
    x.go();
    (0..2).for_each(|_| (0..100).for_each(|n| kernel.hit(0, n)));
    let (all, drops) = x.aggregations(0);
    assert!(all.len() > 10 && all.len() < 100, "{}", all.len());
    assert!(all.values().all(|words| words == &[2]), "present tuples continue to count");
    assert_eq!(drops, 2 * (100 - all.len() as u64));
    let (_, _, drops, _) = x.try_snapshot(0, Which::Aggregations).unwrap();
    assert_eq!(drops, 0, "drops are reported once");
}

/// If there is no room for a variable, the record of the clause is dropped, as in DTrace.
#[test]
fn dynamic_variables() {
    let kernel = Kernel::new();
    let x = kernel.consumer();
    x.set(OptionId::Dynvarsize, 1024);
    x.enable("proc:::a { seen[arg0] = arg0; trace(arg0); } proc:::b { trace(seen[arg0]); }");
    x.go();
    (0..100).for_each(|n| kernel.hit(0, n + 1));
    let (records, drops) = x.records(0);
    let dropped = kernel.dtrace.status(x.id).unwrap().dynamic_drops;
    assert!(records.len() >= 3 && dropped > 0);
    assert_eq!((records.len() as u64 + dropped, drops), (100, 0));
    (0..100).for_each(|n| kernel.hit(1, n + 1));
    let kept = x.numbers().iter().filter(|numbers| numbers[0] != 0).count();
    assert_eq!(kept, records.len(), "what there was room for stays");
}

/// The status reports a buffer that is more than half full, until it is read.
#[test]
fn half_full_buffers_are_reported() {
    let kernel = Kernel::new();
    let x = kernel.consumer();
    // Eight records of 24 bytes.
    x.set(OptionId::Bufsize, 192);
    x.enable("proc:::a { trace(arg0); }");
    x.go();
    let half_filled = || kernel.dtrace.status(x.id).unwrap().half_filled;
    for _ in 0..3 {
        (0..4).for_each(|n| kernel.hit(0, n));
        assert_eq!(half_filled(), 0);
        kernel.hit(0, 4);
        assert_eq!(half_filled(), 1);
        (5..9).for_each(|n| kernel.hit(0, n));
        assert_eq!(half_filled(), 1);
        let (records, drops) = x.records(0);
        assert_eq!((records.len(), drops), (8, 1));
        assert_eq!(half_filled(), 0);
    }
}

/// A buffer that is filled once accepts no more records when it is full. This is no drop; the status reports it.
#[test]
fn nothing_behind_the_end() {
    let kernel = Kernel::new();
    let x = kernel.consumer();
    x.set(OptionId::Bufpolicy, dtrace_abi::option::BufPolicy::Fill.number().into());
    x.set(OptionId::Bufsize, 96);
    x.enable("proc:::a { trace(arg0); @ = count(); } proc:::b { @ = count(); }");
    x.go();
    (0..10).for_each(|n| kernel.hit(0, n));
    // A clause without a record, as in dtrace.c: it reserves no room, and does nothing if the buffer is full.
    (0..10).for_each(|n| kernel.hit(1, n));
    assert_eq!(kernel.dtrace.status(x.id).unwrap().filled, 1);
    x.stop();
    assert_eq!((x.numbers().len(), x.records(0).1), (4, 0));
    assert_eq!(x.aggregations(0).0.values().map(|words| words[0]).sum::<i64>(), 4);
}

/// The variable that a predicate assigns has no memory: the clause does not run.
#[test]
fn a_predicate_that_drops_is_not_true() {
    for does in ["", "hits++;", "stack(1);", "trace(arg0);", "@ = count();"] {
        let kernel = Kernel::with(Threads::new(), 4 << 20);
        let x = kernel.consumer();
        x.set(OptionId::Dynvarsize, 1024);
        x.enable(&format!(
            "int hits; proc:::a /(seen[arg0] = 1)/ {{ {does} }} proc:::b {{ trace(hits); }}"
        ));
        x.go();
        (1..=100).for_each(|n| kernel.hit(0, n));
        let dropped = kernel.dtrace.status(x.id).unwrap().dynamic_drops as usize;
        assert!((1..100).contains(&dropped), "{dropped}");
        let records = x.records(0).0.len();
        kernel.hit(1, 0);
        let hits = x.numbers()[0][0] as usize;
        let counted = x.aggregations(0).0.values().map(|values| values[0] as usize).sum();
        let done = [records, hits, counted].into_iter().max();
        assert_eq!(done, Some(100 - dropped), "{does}: {records} {hits} {counted}");
    }
}

/// A clause with a drop and a fault counts as a drop, and not as an error.
#[test]
fn what_drops_and_fails_is_a_drop() {
    let kernel = Kernel::with(Threads::new(), 4 << 20);
    let x = kernel.consumer();
    x.set(OptionId::Dynvarsize, 1024);
    x.enable("proc:::a { trace((seen[arg0] = 1) + *(int *)8); } ERROR { @ = count(); }");
    x.go();
    (1..=100).for_each(|n| kernel.hit(0, n));
    let status = kernel.dtrace.status(x.id).unwrap();
    assert!(status.dynamic_drops > 0);
    assert_eq!(status.errors + status.dynamic_drops, 100);
    let told: Vec<_> = x.aggregations(0).0.values().map(|values| values[0] as u64).collect();
    assert_eq!(told, [status.errors]);
}

/// Removed variables are cleaned, even if there are clean chunks already.
#[test]
fn a_few_clean_ones_hold_up_nobody() {
    let kernel = Kernel::with(Threads::new(), 4 << 20);
    let x = kernel.consumer();
    x.set(OptionId::Dynvarsize, 8192);
    x.enable("proc:::a { a[arg0] = 1; } proc:::b { a[arg0] = 0; }");
    x.go();
    let elsewhere = |from: u64, to: u64| {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                Threads::bind(1);
                (from..to).for_each(|n| kernel.hit(1, n));
            });
        });
    };
    let drops = || {
        let status = kernel.dtrace.status(x.id).unwrap();
        [status.dynamic_drops, status.dynamic_drops_dirty, status.dynamic_drops_rinsing]
    };
    (1..=60).for_each(|n| kernel.hit(0, n));
    elsewhere(1, 2);
    assert_eq!(drops(), [0; 3]);
    elsewhere(2, 61);
    drops();
    (101..160).for_each(|n| kernel.hit(0, n));
    assert_eq!(drops(), [0; 3]);
}

/// The host cleans for the anonymous consumer.
#[test]
fn a_boot_does_not_run_out_of_variables() {
    let program = "#pragma D option dynvarsize=4096
        proc:::a { self->t = arg0; } proc:::b /self->t/ { @ = count(); self->t = 0; }";
    let kernel = Kernel::with(Threads::new(), 4 << 20);
    let dtrace = &kernel.dtrace;
    assert_eq!(dtrace.clean_anonymous(), Ok(false));
    dtrace.enable_anonymously(&crate::run::compile(program)).unwrap();
    for n in 1..=1000 {
        kernel.hit(0, n);
        kernel.hit(1, n);
        assert!(n % 4 != 0 || dtrace.clean_anonymous().unwrap());
    }
    let x = crate::run::Consumer { dtrace, id: dtrace.claim(sdt_framework::Rights::ALL).unwrap() };
    assert_eq!(dtrace.clean_anonymous(), Ok(false));
    assert_eq!(x.aggregations(0).0.values().collect::<Vec<_>>(), [&[1000]]);
}
