//! What found no room is counted, each kind apart, and costs nothing else.

use dtrace_abi::option::OptionId;
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
    assert_eq!(x.records(0), (vec![], 0), "it is said once");
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
    assert!(all.values().all(|words| words == &[2]), "what is there goes on counting");
    assert_eq!(drops, 2 * (100 - all.len() as u64));
    let (_, _, drops, _) = x.try_snapshot(0, Which::Aggregations).unwrap();
    assert_eq!(drops, 0, "it is said once");
}

/// A variable without room costs the record of its clause, as in DTrace.
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

/// A full buffer that is filled once takes nothing more, and that is no drop: it is told that it is full.
#[test]
fn nothing_behind_the_end() {
    let kernel = Kernel::new();
    let x = kernel.consumer();
    x.set(OptionId::Bufpolicy, dtrace_abi::option::BufPolicy::Fill.number().into());
    x.set(OptionId::Bufsize, 96);
    x.enable("proc:::a { trace(arg0); @ = count(); } proc:::b { @ = count(); }");
    x.go();
    (0..10).for_each(|n| kernel.hit(0, n));
    // dtrace.c reserves no room for it either, and does nothing where the buffer is full.
    (0..10).for_each(|n| kernel.hit(1, n));
    assert_eq!(kernel.dtrace.status(x.id).unwrap().filled, 1);
    x.stop();
    assert_eq!((x.numbers().len(), x.records(0).1), (4, 0));
    assert_eq!(x.aggregations(0).0.values().map(|words| words[0]).sum::<i64>(), 4);
}
