//! Speculative records.

use std::sync::atomic::{AtomicBool, Ordering};

use dtrace_abi::option::OptionId;
use recording_host::cpus::Threads;

use crate::run::Kernel;

#[test]
fn what_is_committed_is_recorded_and_what_is_discarded_is_not() {
    let kernel = Kernel::new();
    let x = kernel.consumer();
    x.enable(
        "proc:::a { self->s = speculation(); }
         proc:::b /self->s/ { speculate(self->s); trace(arg0); trace(probename); }
         proc:::c /arg0/ { commit(self->s); }
         proc:::c /!arg0/ { discard(self->s); self->s = 0; }
         proc:::d { speculate(self->s); trace(arg0); discard(self->s); }",
    );
    x.go();
    let round = |values: [u64; 2], commits: u64| {
        kernel.hit(0, 0);
        values.into_iter().for_each(|value| kernel.hit(1, value));
        kernel.hit(2, commits);
    };
    round([1, 2], 1);
    round([3, 4], 0);
    kernel.hit(0, 0);
    kernel.hit(3, 7);
    kernel.hit(2, 1);
    // Only a request for the status cleans these records.
    kernel.dtrace.status(x.id).unwrap();
    round([5, 6], 1);
    x.stop();
    let (records, drops) = x.records(0);
    let numbers: Vec<_> =
        records.iter().map(|record| crate::run::number(&record.data[0])).collect();
    assert_eq!((numbers, drops), (vec![1, 2, 5, 6], 0));
    assert!(records.iter().all(|record| record.data[1].starts_with(b"b\0")));
    let times: Vec<_> = records.iter().map(|record| record.time).collect();
    assert_eq!(times[0], times[1], "both have the time at which they were committed");
    assert!(times[1] < times[2] && times[2] < u64::MAX);
    let status = kernel.dtrace.status(x.id).unwrap();
    assert_eq!((status.speculations_unavailable, status.speculation_drops), (0, 0));
}

/// A clause that discards another speculation, or none, keeps the records of its own speculation.
#[test]
fn another_one_is_discarded() {
    for (discarded, expected) in [("other", vec![7, 8]), ("0", vec![7, 8]), ("own", vec![])] {
        let kernel = Kernel::new();
        let x = kernel.consumer();
        x.enable(&format!(
            "BEGIN {{ own = speculation(); other = speculation(); }}
             proc:::a {{ speculate(own); trace(arg0); discard({discarded}); }}
             proc:::b {{ speculate(own); trace(arg0); }}
             proc:::c {{ commit(own); }}"
        ));
        x.go();
        kernel.hit(0, 7);
        kernel.hit(1, 8);
        kernel.hit(2, 0);
        x.stop();
        let numbers: Vec<_> = x.numbers().concat();
        assert_eq!(numbers, expected, "{discarded}");
    }
}

#[test]
fn there_are_so_many_speculations_and_so_much_room() {
    let kernel = Kernel::new();
    let x = kernel.consumer();
    x.set(OptionId::Nspec, 2);
    x.set(OptionId::Specsize, 96);
    x.enable(
        "proc:::a { trace(speculation()); }
         proc:::b { speculate(arg0); trace(arg1); }
         proc:::c { commit(arg0); }
         ERROR { trace(arg4); }",
    );
    x.go();
    (0..3).for_each(|_| kernel.hit(0, 0));
    assert_eq!(x.numbers(), [[1], [2], [0]]);
    assert_eq!(kernel.dtrace.status(x.id).unwrap().speculations_unavailable, 1);
    // 24 bytes each.
    (0..6).for_each(|_| kernel.hit(1, 2));
    assert_eq!(kernel.dtrace.status(x.id).unwrap().speculation_drops, 2);
    kernel.hit(2, 2);
    assert_eq!(x.numbers(), [[3]; 4]);
    // Nothing is recorded for speculation 0, or for a number that `speculation()` has not returned.
    kernel.hit(1, 0);
    kernel.hit(1, 3);
    kernel.hit(2, 0);
    assert!(x.numbers().is_empty());
    kernel.hit(2, 9);
    assert_eq!(x.numbers(), [[3]]);
    kernel.hit(0, 0);
    assert_eq!(x.numbers(), [[2]], "it is free again");
}

/// The records of several CPUs arrive with the snapshot of each CPU; only then the speculation is free.
#[test]
fn several_cpus_speculate_together() {
    let kernel = Kernel::new();
    let x = kernel.consumer();
    x.enable(
        "int s;
         proc:::a { s = speculation(); trace(s); }
         proc:::b { speculate(s); trace(arg0); }
         proc:::c { commit(s); }
         proc:::d { discard(s); }",
    );
    x.go();
    let on = |cpu: usize, probe: usize, arg: u64| {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                Threads::bind(cpu);
                kernel.hit(probe, arg);
            });
        });
    };
    on(1, 0, 0);
    for cpu in 0..4 {
        on(cpu, 1, 10 + cpu as u64);
    }
    on(2, 2, 0);
    on(3, 1, 99);
    on(1, 0, 0);
    assert_eq!(kernel.dtrace.status(x.id).unwrap().speculations_busy, 1);
    let all = |cpu: usize| -> Vec<_> {
        x.records(cpu).0.iter().map(|record| record.numbers()[0]).collect()
    };
    let read: Vec<_> = (0..4).map(all).collect();
    assert_eq!(read, [vec![10], vec![1, 0, 11], vec![12], vec![13]]);
    on(1, 0, 0);
    for cpu in 0..2 {
        on(cpu, 1, 0);
    }
    on(3, 3, 0);
    on(1, 0, 0);
    // The request for the status cleans the discarded speculation.
    let status = kernel.dtrace.status(x.id).unwrap();
    assert_eq!((status.speculations_busy, status.speculations_unavailable), (2, 0));
    on(1, 0, 0);
    let read: Vec<_> = (0..4).map(all).collect();
    assert_eq!(read, [vec![], vec![1, 0, 1], vec![], vec![]]);
}

/// Each CPU speculates and commits or discards, while the consumer reads: no record is lost, none comes twice.
#[test]
fn totals_are_exact_whatever_the_cpus_do() {
    const ROUNDS: u64 = 2_000;
    let kernel = Kernel::new();
    let x = kernel.consumer();
    x.set(OptionId::Nspec, 8);
    x.set(OptionId::Bufsize, 1 << 18);
    x.enable(
        "proc:::a { self->s = speculation(); }
         proc:::b /self->s/ { speculate(self->s); trace(arg0); }
         proc:::c /self->s/ { @kept = count(); }
         proc:::c /self->s/ { commit(self->s); self->s = 0; }
         proc:::d /self->s/ { discard(self->s); self->s = 0; }",
    );
    x.go();
    let done = AtomicBool::new(false);
    let (mut records, mut kept) = (0, 0);
    std::thread::scope(|scope| {
        let cpus: Vec<_> = (0..4)
            .map(|cpu| {
                let kernel = &kernel;
                scope.spawn(move || {
                    Threads::bind(cpu);
                    for round in 0..ROUNDS {
                        kernel.hit(0, 0);
                        kernel.hit(1, round);
                        kernel.hit(if round % 3 == 0 { 3 } else { 2 }, 0);
                    }
                })
            })
            .collect();
        // The four threads are CPUs 0 to 3; this thread reads and is none of them.
        Threads::bind(recording_host::cpus::CPUS);
        let mut read = || {
            for cpu in 0..4 {
                let (all, drops) = x.records(cpu);
                assert_eq!(drops, 0);
                records += all.len() as i64;
                kept += x.aggregations(cpu).0.values().map(|words| words[0]).sum::<i64>();
            }
            kernel.dtrace.status(x.id).unwrap();
        };
        while !done.load(Ordering::Relaxed) {
            read();
            done.store(cpus.iter().all(|cpu| cpu.is_finished()), Ordering::Relaxed);
            std::thread::yield_now();
        }
        x.stop();
        read();
    });
    // Each thread has its own speculation, or none.
    assert_eq!(records, kept);
    assert!(kept > 0);
}
