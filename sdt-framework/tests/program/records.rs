//! Records and aggregations.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use dtrace_abi::aggregation::quantize_bucket;
use dtrace_abi::option::OptionId;
use recording_host::cpus::Threads;
use sdt_core::ops::{Framework as _, Privileges, ProviderAttr, ProviderOps};

use crate::common::{Five as _, create};
use crate::run::{Kernel, Record, buckets};

#[test]
fn begin_and_end_fire_for_who_goes() {
    let kernel = Kernel::new();
    let (one, other) = (kernel.consumer(), kernel.consumer());
    assert_eq!(one.enable("BEGIN { trace(42); trace(1ULL << 40); exit(3); } END { trace(7); }"), 2);
    assert_eq!(other.enable("BEGIN { trace(1); }"), 1);
    one.go();
    assert!(kernel.dtrace.status(one.id).unwrap().exiting);
    one.stop();
    assert_eq!(one.numbers(), [vec![42, 1 << 40, 3], vec![7]]);
    assert!(other.numbers().is_empty());
    other.go();
    assert_eq!(other.numbers(), [[1]]);
    assert!(other.numbers().is_empty(), "what was read is gone");
}

#[test]
fn predicates_arguments_and_variables() {
    let kernel = Kernel::new();
    let x = kernel.consumer();
    x.enable(
        "int seen; string last;
         proc:::a /arg0 > 2/ { trace(arg1); trace(++seen); last = probename; this->x = 3; }
         proc:::a { trace(seen); }
         proc:::b { trace(last); trace(probefunc); counts[arg0]++; trace(counts[arg0]); }",
    );
    kernel.hit(0, 9);
    x.go();
    (1..5).for_each(|n| kernel.hit(0, n));
    kernel.hit(1, 7);
    kernel.hit(1, 7);
    x.stop();
    kernel.hit(0, 9);
    let (records, drops) = x.records(0);
    assert_eq!(drops, 0);
    let (strings, numbers): (Vec<&Record>, Vec<&Record>) =
        records.iter().partition(|record| record.epid == 3);
    let numbers: Vec<_> = numbers.iter().map(|record| record.numbers()).collect();
    assert_eq!(numbers, [vec![0], vec![0], vec![4, 1], vec![1], vec![5, 2], vec![2]]);
    for (record, count) in strings.iter().zip(1..) {
        assert_eq!(record.data[0].len(), 256);
        assert!(record.data[0].starts_with(b"a\0") && record.data[1].starts_with(b"f\0"));
        assert!(record.data[0][1..].iter().all(|byte| *byte == 0));
        assert_eq!(crate::run::number(&record.data[2]), count);
    }
    assert_eq!(strings.len(), 2);
}

/// Arrays that are not associative take strings (as FreeBSD's dtrace(1) compiles and prints them), which are values and keys like others.
#[test]
fn strings_stand_in_arrays() {
    let kernel = Kernel::new();
    let x = kernel.consumer();
    x.enable(
        "string x[5]; long seen[string];
         proc:::a { x[arg0] = probename; x[arg0 + 1] = \"other\"; trace(strlen(x[arg0 + 1])); trace(x[arg0] == \"a\"); }
         proc:::a { seen[x[arg0 + 1]] += 2; trace(seen[\"other\"]); trace(seen[\"a\"]); @[x[arg0]] = count(); }
         proc:::b { trace(strlen(x[arg0])); trace(strlen(x[0])); }
         proc:::c { x[arg0] = \"beyond\"; trace(1); }
         ERROR { trace(arg4); }",
    );
    x.go();
    kernel.hit(0, 3);
    kernel.hit(1, 4);
    kernel.hit(2, 5);
    let bad = i64::from(dtrace_abi::fault::Fault::BadAddress.number());
    assert_eq!(x.numbers(), [vec![5, 1], vec![2, 0], vec![5, 0], vec![bad]]);
    let (all, _) = x.aggregations(0);
    let ((_, keys), count) = all.iter().next().unwrap();
    assert!(keys[0].starts_with(b"a\0") && count == &[1]);
}

#[test]
fn formats_are_kept_once() {
    let kernel = Kernel::new();
    let x = kernel.consumer();
    x.enable("BEGIN { printf(\"%d and more\\n\", 5); printf(\"%s\", \"x\"); printf(\"%d and more\\n\", 6); }");
    assert!(x.format(1).unwrap().contains("and more"));
    assert!(x.format(2).unwrap().contains("%s"));
    assert_eq!(x.format(3), None);
    assert_eq!(x.format(0), None);
    x.go();
    let (records, _) = x.records(0);
    assert_eq!(records[0].data.len(), 3);
}

#[test]
fn aggregations_by_key() {
    let kernel = Kernel::new();
    let x = kernel.consumer();
    x.enable(
        "proc:::a { @n = count(); @s[arg0 % 2, probename] = sum(arg0); @q = quantize(arg0);
                    @a = avg(arg0); @low = min(arg0); @high = max(arg0); @l = lquantize(arg0, 0, 100, 10, arg1); }",
    );
    x.go();
    (0..10).for_each(|n| kernel.hit(0, n));
    x.stop();
    assert!(x.numbers().is_empty());
    let (all, drops) = x.aggregations(0);
    assert_eq!(drops, 0);
    let of =
        |variable: u32| -> Vec<_> { all.iter().filter(|((it, _), _)| *it == variable).collect() };
    let first = all.keys().map(|(variable, _)| *variable).min().unwrap();
    assert_eq!(of(first)[0].1, &[10]);
    let sums: Vec<_> = of(first + 1).iter().map(|((_, keys), sum)| (keys[0][0], sum[0])).collect();
    assert_eq!(sums, [(0, 20), (1, 25)]);
    let mut expected = [0; 5];
    (0..10).for_each(|n| expected[quantize_bucket(n) - quantize_bucket(0)] += 1);
    let found: Vec<_> = buckets(of(first + 2)[0].1).iter().map(|(_, count)| *count).collect();
    assert_eq!(found, expected);
    assert_eq!(of(first + 3)[0].1, &[10, 45]);
    assert_eq!((of(first + 4)[0].1[0], of(first + 5)[0].1[0]), (0, 9));
    // Each value counts as often as its second argument says.
    assert_eq!(of(first + 6)[0].1[1..].iter().sum::<i64>(), (1..=10).sum());
    assert!(x.aggregations(0).0.is_empty());
}

#[test]
fn faults_cost_their_clause_and_fire_error() {
    let kernel = Kernel::new();
    let x = kernel.consumer();
    x.enable(
        "BEGIN { trace(1); trace(1 / (arg0 - arg0)); exit(1); }
         BEGIN { trace(*(int *)0x1000); }
         BEGIN /1 / (arg0 - arg0)/ { trace(3); }
         BEGIN { trace(4); }
         ERROR { trace(arg1); trace(arg2); trace(arg3 > 0); trace(arg4); trace(arg5); }
         ERROR { trace(1 / (arg0 - arg0)); }",
    );
    x.go();
    let numbers = x.numbers();
    assert_eq!(
        numbers,
        [vec![1, 2, 1, 4, 0], vec![2, 1, 1, 1, 0x1000], vec![3, 0, 1, 4, 0], vec![4]]
    );
    let status = kernel.dtrace.status(x.id).unwrap();
    assert_eq!((status.errors, status.double_errors), (3, 3));
    assert!(!status.exiting);
}

/// Four CPUs count, while the consumer reads: totals are exact.
#[test]
fn totals_are_exact_on_all_cpus() {
    const HITS: u64 = 5_000;
    let kernel = Kernel::new();
    let x = kernel.consumer();
    x.set(OptionId::Dynvarsize, 1 << 18);
    x.enable(
        "self long n; self long sum; long seen[uint64_t];
         proc:::a { @n[arg0 % 3] = count(); @s = sum(arg0); self->n++; self->sum += arg0; }
         proc:::b { trace(self->n); trace(self->sum); self->n = 0; self->sum = 0; }
         proc:::c { seen[(uint64_t)arg0]++; trace(seen[(uint64_t)arg0]); seen[(uint64_t)arg0] = 0; }",
    );
    x.go();
    let done = AtomicBool::new(false);
    let (mut counts, mut sum) = ([0; 3], 0);
    let mut records = vec![Vec::new(); 4];
    std::thread::scope(|scope| {
        let cpus: Vec<_> = (0..4)
            .map(|cpu| {
                let kernel = &kernel;
                scope.spawn(move || {
                    Threads::bind(cpu);
                    for round in 0..10 {
                        (0..HITS / 10).for_each(|n| kernel.hit(0, n + round));
                        kernel.hit(1, 0);
                        // Each has elements of its own.
                        (0..20).for_each(|n| kernel.hit(2, cpu as u64 * 100 + n));
                    }
                })
            })
            .collect();
        // The four threads are the CPUs.
        Threads::bind(recording_host::cpus::CPUS);
        let mut read = || {
            for (cpu, records) in records.iter_mut().enumerate() {
                let (read, drops) = x.records(cpu);
                assert_eq!(drops, 0);
                records.extend(read.iter().map(Record::numbers));
                for ((_, keys), words) in x.aggregations(cpu).0 {
                    match &keys[..] {
                        [key] => counts[key[0] as usize] += words[0],
                        _ => sum += words[0],
                    }
                }
            }
            let status = kernel.dtrace.status(x.id).unwrap();
            assert_eq!((status.errors, status.dynamic_drops), (0, 0));
        };
        while !done.load(Ordering::Relaxed) {
            read();
            done.store(cpus.iter().all(|cpu| cpu.is_finished()), Ordering::Relaxed);
            std::thread::yield_now();
        }
        x.stop();
        read();
    });
    let values = || (0..10).flat_map(|round| (0..HITS / 10).map(move |n| n + round));
    assert_eq!(sum as u64, 4 * values().sum::<u64>());
    for (rest, count) in (0..).zip(counts) {
        assert_eq!(count as usize, 4 * values().filter(|value| value % 3 == rest).count());
    }
    for records in records {
        let (threads, elements): (Vec<_>, Vec<_>) =
            records.into_iter().partition(|record| record.len() == 2);
        assert_eq!(threads.len(), 10);
        for (round, record) in (0..).zip(threads) {
            let expected: u64 = (0..HITS / 10).map(|n| n + round).sum();
            assert_eq!(record, [(HITS / 10) as i64, expected as i64]);
        }
        assert_eq!(elements, vec![[1]; 200]);
    }
}

/// Returns 100 times the index of the argument.
unsafe extern "C" fn asked(
    _: *mut c_void,
    _: u32,
    _: *mut c_void,
    index: c_int,
    _aframes: c_int,
) -> u64 {
    u64::from(index.unsigned_abs()) * 100
}

/// A predicate on arguments that the hit does not contain calls the provider at every hit.
#[test]
fn predicates_ask_the_provider() {
    const OPS: ProviderOps = ProviderOps { getargval: Some(asked), ..ProviderOps::INERT };
    let kernel = Kernel::new();
    let (privileges, null) = (Privileges::USER, std::ptr::null_mut());
    // SAFETY: the ops use none of their pointers.
    let provider =
        unsafe { kernel.dtrace.register(c"five", &ProviderAttr::SDT, privileges, &OPS, null) };
    let probe = create(&*kernel.dtrace, provider.unwrap(), [c"m", c"f", c"n"], 0);
    let consumer = kernel.consumer();
    consumer.enable(
        "five:::n /arg7 == 700/ { @a = count(); } five:::n /arg5 != 500/ { @b = count(); }
         five:::n /arg6 == 0/ { @c = count(); } five:::n /arg1 == 2/ { @d = count(); }",
    );
    consumer.go();
    for _ in 0..300 {
        kernel.dtrace.five(probe.get(), [1, 2, 3, 4, 5]);
    }
    consumer.stop();
    let (counted, _) = consumer.aggregations(0);
    let totals: Vec<_> = counted.values().map(|words| words[0]).collect();
    assert_eq!(totals, [300, 300], "{counted:?}");
}

/// The state of `strtok` survives a clause that fails.
#[test]
fn a_fault_between_takes_nothing_with_it() {
    let kernel = Kernel::new();
    let x = kernel.consumer();
    x.enable(
        "proc:::a { trace(strtok(\"one,two\", \",\")); } proc:::a { trace(*(int *)arg0); }
         proc:::a { trace(strtok(NULL, \",\")); }",
    );
    x.go();
    kernel.hit(0, 8);
    let (records, _) = x.records(0);
    assert!(records[0].data[0].starts_with(b"one\0") && records[1].data[0].starts_with(b"two\0"));
    assert_eq!(kernel.dtrace.status(x.id).unwrap().errors, 1);
}
