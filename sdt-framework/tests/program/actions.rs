//! Every action, and its data in the record.

use std::collections::BTreeSet;

use dtrace_abi::action::Action;
use dtrace_abi::option::OptionId;
use dtrace_abi::record::RecordDesc;

use crate::machine::machine;

/// Returns a number in the form of a record.
fn number(value: i64, size: usize) -> Vec<u8> {
    value.to_le_bytes()[..size].to_vec()
}

fn words<const N: usize>(words: [u64; N]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Actions in D, with their numbers and their data. The probe fires with the arguments 0x1034, 0x1035 and 0x1036. The byte at
/// each address from 0x1000 on is the lowest byte of the address.
fn recorded() -> Vec<(&'static str, Action, Vec<Vec<u8>>)> {
    use Action::*;
    let text = |text: &str| {
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(256, 0);
        bytes
    };
    vec![
        ("trace((short)arg0)", DifExpr, vec![number(0x1034, 2)]),
        ("trace(probename)", DifExpr, vec![text("a")]),
        ("printf(\"%d %s\", arg0, probefunc)", Printf, vec![number(0x1034, 8), text("f")]),
        ("tracemem(arg0, 4)", Tracemem, vec![vec![0x34; 4]]),
        ("tracemem(arg0, 6, 2)", TracememDynsize, vec![number(2, 8), vec![0x34, 0x34, 0, 0, 0, 0]]),
        ("system(\"date %d\", arg0)", System, vec![number(0x1034, 8)]),
        ("freopen(\"%s\", probename)", Freopen, vec![text("a")]),
        ("stack(2)", Stack, vec![words([0x101, 0x102])]),
        ("ustack(3)", Ustack, vec![words([77, 0x55, 0x55, 0])]),
        ("jstack(2, 16)", Jstack, vec![words([77, 0x55, 0x55, 0, 0])]),
        ("sym(arg0)", Sym, vec![words([0x1034])]),
        ("func(arg0)", Sym, vec![words([0x1034])]),
        ("mod(arg0)", Mod, vec![words([0x1034])]),
        ("usym(arg0)", Usym, vec![words([77, 0x1034])]),
        ("umod(arg0)", Umod, vec![words([77, 0x1034])]),
        ("uaddr(arg0)", Uaddr, vec![words([77, 0x1034])]),
        ("stop()", Stop, vec![]),
        ("raise(9)", Raise, vec![]),
        ("breakpoint()", Breakpoint, vec![]),
        ("panic()", Panic, vec![]),
        ("chill(500)", Chill, vec![]),
        ("speculate(speculation())", Speculate, vec![]),
        ("commit(0)", Commit, vec![]),
        ("discard(0)", Discard, vec![]),
        ("exit(3)", Exit, vec![number(3, 4)]),
    ]
}

#[test]
fn actions_record_what_they_are_for() {
    let mut seen = BTreeSet::new();
    for (action, kind, expected) in recorded() {
        let kernel = machine();
        let x = kernel.consumer();
        x.set(OptionId::Destructive, 0);
        x.enable(&format!("proc:::a {{ {action}; }}"));
        x.go();
        kernel.hit(0, 0x1034);
        let mut descs = [RecordDesc::EMPTY; 8];
        let found = kernel.dtrace.eprobe(x.id, 1, 0, &mut descs).unwrap().unwrap();
        let descs = &descs[..found.records as usize];
        assert!(descs.iter().any(|desc| desc.action == kind.number()), "{action}: {descs:?}");
        seen.extend(descs.iter().map(|desc| desc.action));
        let (records, drops) = x.records(0);
        let data: Vec<_> = records.iter().flat_map(|record| record.data.clone()).collect();
        assert_eq!((data, drops), (expected, 0), "{action}");
        let status = kernel.dtrace.status(x.id).unwrap();
        assert_eq!((status.errors, status.exiting), (0, kind == Action::Exit), "{action}");
    }
    // Actions between aggregations and their printing, which the consumer performs.
    let kernel = machine();
    let x = kernel.consumer();
    x.enable(
        "proc:::a { @a = count(); printa(@a); printa(\"%@d\", @a); clear(@a); trunc(@a, 5);
                    normalize(@a, 7); denormalize(@a); setopt(\"quiet\"); ftruncate(); }",
    );
    x.go();
    kernel.hit(0, 1);
    let mut descs = [RecordDesc::EMPTY; 32];
    let found = kernel.dtrace.eprobe(x.id, 1, 0, &mut descs).unwrap().unwrap();
    seen.extend(descs[..found.records as usize].iter().map(|desc| desc.action));
    let (records, drops) = x.records(0);
    let variable = x.aggregations(0).0.keys().next().unwrap().0;
    let numbers = records[0].data.iter().filter(|datum| datum.len() <= 8);
    let numbers: Vec<_> = numbers.map(|datum| crate::run::number(datum)).collect();
    assert!(numbers.iter().filter(|number| **number == i64::from(variable)).count() >= 6);
    assert!(numbers.contains(&7) && numbers.contains(&5));
    assert_eq!((records.len(), drops), (1, 0));

    // The datum of `printm` is the number of bytes, followed by the bytes.
    let kernel = machine();
    let x = kernel.consumer();
    x.enable("proc:::a { printm(16, memref((void *)arg0, 3)); }");
    x.go();
    kernel.hit(0, 0x1034);
    let (records, _) = x.records(0);
    assert_eq!(records[0].data[0][..11], [3, 0, 0, 0, 0, 0, 0, 0, 0x34, 0x34, 0x34]);
    seen.insert(Action::Printm.number());

    let missing = Action::ALL.iter().filter(|action| !action.is_aggregation());
    let missing = missing.filter(|action| !seen.contains(&action.number()));
    assert_eq!(missing.collect::<Vec<_>>(), [&Action::None]);
}

/// Returns whether these are the right words for a function.
type Check = fn(&[i64]) -> bool;

/// Every aggregating function, with its words after one value.
#[test]
fn functions_aggregate_what_they_are_for() {
    use Action::*;
    let cases: [(&str, Action, Check); 9] = [
        ("count()", Count, |words| words == [3]),
        ("sum(arg0)", Sum, |words| words == [60]),
        ("min(arg0)", Min, |words| words == [10]),
        ("max(arg0)", Max, |words| words == [30]),
        ("avg(arg0)", Avg, |words| words == [3, 60]),
        ("stddev(arg0)", Stddev, |words| words == [3, 60, 1400, 0]),
        ("quantize(arg0)", Quantize, |words| words.iter().sum::<i64>() == 3),
        ("lquantize(arg0, 0, 40, 10)", Lquantize, |words| words[1..] == [0, 0, 1, 1, 1, 0]),
        ("llquantize(arg0, 10, 0, 2, 10)", Llquantize, |words| words[1..].iter().sum::<i64>() == 3),
    ];
    let all = Action::ALL.iter().filter(|action| action.is_aggregation());
    assert_eq!(all.count(), cases.len());
    for (text, kind, is_right) in cases {
        // Plain, with a key that is not simple, and behind a predicate.
        for clause in [
            format!("proc:::a {{ @ = {text}; }}"),
            format!("proc:::a {{ @[arg0 - arg0, probename] = {text}; }}"),
            format!("proc:::a /arg0 != 99/ {{ @[pid] = {text}; }}"),
        ] {
            let kernel = machine();
            let x = kernel.consumer();
            x.enable(&clause);
            x.go();
            [10, 20, 30].into_iter().for_each(|value| kernel.hit(0, value));
            let (all, drops) = x.aggregations(0);
            assert_eq!((all.len(), drops), (1, 0), "{clause}");
            let words = all.values().next().unwrap();
            assert!(is_right(words), "{clause}: {words:?}");
            let mut descs = [RecordDesc::EMPTY; 8];
            let found = kernel.dtrace.aggregation(x.id, 1, 0, &mut descs).unwrap().unwrap();
            assert_eq!(descs[found.records as usize - 1].action, kind.number(), "{clause}");
        }
    }
}
