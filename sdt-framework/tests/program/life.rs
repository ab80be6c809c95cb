//! The rights of consumers, and their lifetime.

use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering;

use dtrace_abi::fault::Fault;
use dtrace_abi::option::{BufPolicy, OptionId};
use recording_host::cpus::Threads;
use sdt_core::ops::{Framework as _, Privileges, ProviderAttr, ProviderOps};
use sdt_framework::kernel::Destruction;
use sdt_framework::{Config, ConsumerError, Rights, Which};

use crate::common::{OPS, TestProvider, create, spec};
use crate::machine::{Machine, machine};
use crate::run::{CONFIG, Kernel, compile};

#[test]
fn stacks_and_addresses() {
    let kernel = machine();
    let x = kernel.consumer();
    x.enable("proc:::a { stack(2); ustack(3); sym(arg0); usym(arg0); trace(*(char *)0x1042); }");
    x.go();
    kernel.hit(0, 0x1234);
    let (records, _) = x.records(0);
    let words = |datum: &[u8]| -> Vec<u64> {
        datum.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
    };
    let data: Vec<_> = records[0].data.iter().map(|datum| words(datum)).collect();
    // The probe was created with one frame of the provider's.
    assert_eq!(data[0], [0x101, 0x102]);
    assert_eq!(data[1], [77, 0x55, 0x55, 0]);
    assert_eq!((&data[2][..], &data[3][..]), (&[0x1234][..], &[77, 0x1234][..]));
    assert_eq!(records[0].data[4], [0x42]);
}

/// For a consumer that may trace only processes, hits of processes' probes count only in user mode, and records contain no data
/// of the kernel.
#[test]
fn who_may_trace_processes_sees_nothing_of_the_kernel() {
    unsafe extern "C" fn usermode(_: *mut c_void, _: u32, _: *mut c_void) -> c_int {
        1
    }

    let kernel = machine();
    let register = |name, privileges| {
        let ops: &'static _ = Box::leak(Box::new(ProviderOps { usermode: Some(usermode), ..OPS }));
        let of: &'static TestProvider = Box::leak(Box::default());
        // SAFETY: the provider is never freed.
        unsafe { kernel.dtrace.register(name, &ProviderAttr::SDT, privileges, ops, of.arg()) }
            .unwrap()
    };
    let secret = register(c"secret", Privileges::KERNEL);
    create(&*kernel.dtrace, secret, [c"m", c"f", c"z"], 0);
    let open = register(c"open", Privileges::USER);
    let names = [c"a", c"b", c"c"];
    let probes = names.map(|name| create(&*kernel.dtrace, open, [c"m", c"f", name], 0));
    let x = kernel.consumer_with(Rights::new(Privileges::USER));
    assert_eq!(x.enable("secret:::z { trace(1); }"), 0);
    x.enable(
        "open:::a { trace(*(int *)0x1000); }
         open:::b { trace(arg0); stack(2); sym(5); }
         open:::c { trace(stringof(arg0)); }
         ERROR { trace(arg4); trace(arg5); }",
    );
    x.go();
    let hits = probes.iter().zip([7, 7, 0x1000]);
    hits.for_each(|(&probe, arg)| kernel.dtrace.probe(probe, &[arg; 6]));
    let denied = i64::from(Fault::KernelPrivilege.number());
    let records = x.records(0).0;
    assert_eq!(records[0].numbers(), [denied, 0x1000]);
    assert_eq!(records[1].data[0], 7_u64.to_le_bytes());
    assert!(records[1].data[1..].iter().flatten().all(|byte| *byte == 0));
    assert_eq!(records[2].numbers(), [denied, 0x1000]);
    let y = kernel.consumer();
    assert_eq!(y.enable("secret:::z { trace(1); }"), 1);
}

#[test]
fn destruction_has_to_be_allowed() {
    let kernel = machine();
    let text = "proc:::a { stop(); raise(9); breakpoint(); chill(500); panic(); }";
    let x = kernel.consumer();
    let refused = kernel.dtrace.enable_program(x.id, &compile(text)).unwrap_err();
    assert!(refused.to_string().contains("destructive"), "{refused}");
    x.set(OptionId::Destructive, 1);
    x.enable(text);
    x.go();
    kernel.hit(0, 0);
    use Destruction::{Breakpoint, Chill, Panic, Raise, Stop};
    let destroyed = std::mem::take(&mut *kernel.dtrace.host().destroyed.lock().unwrap());
    assert_eq!(destroyed, [Stop, Raise(9), Breakpoint, Chill(500), Panic]);
    let y = kernel.consumer_with(Rights::new(Privileges::KERNEL));
    let refused = kernel.dtrace.set_option(y.id, OptionId::Destructive.number(), 1);
    assert_eq!(refused, Err(ConsumerError::NotPermitted));
}

#[test]
fn who_is_not_heard_of_is_given_up() {
    let kernel = machine();
    let (x, y) = (kernel.consumer(), kernel.consumer());
    [&x, &y].iter().for_each(|of| assert_eq!(of.enable("proc:::a { trace(1); }"), 1));
    [&x, &y].iter().for_each(|of| of.go());
    let seconds =
        |count: u64| kernel.dtrace.host().now.store(count * 1_000_000_000, Ordering::Relaxed);
    kernel.hit(0, 0);
    seconds(20);
    assert!(!kernel.dtrace.status(y.id).unwrap().killed);
    kernel.hit(0, 0);
    seconds(40);
    kernel.hit(0, 0);
    seconds(41);
    kernel.hit(0, 0);
    assert!(kernel.dtrace.status(x.id).unwrap().killed);
    assert!(!kernel.dtrace.status(y.id).unwrap().killed);
    assert_eq!((x.numbers().len(), y.numbers().len()), (2, 4));
    x.stop();
    assert!(kernel.dtrace.status(x.id).unwrap().killed, "that does not change");
}

/// A hit without a record does not read the clock, except that some hits check the timeout.
#[test]
fn who_is_not_heard_of_is_given_up_even_if_it_records_nothing() {
    for program in ["proc:::a /arg0 == 1/ { trace(1); }", "proc:::a { @ = count(); }"] {
        let kernel = machine();
        let x = kernel.consumer();
        assert_eq!(x.enable(program), 1);
        x.go();
        kernel.dtrace.host().now.store(40_000_000_000, Ordering::Relaxed);
        (0..256).for_each(|_| kernel.hit(0, 0));
        assert!(kernel.dtrace.status(x.id).unwrap().killed, "{program}");
    }
}

/// A buffer that is not switched is read only after waiting for the CPUs that were filling it when its consumer was
/// aborted, at any position.
#[test]
fn what_was_given_up_is_waited_for() {
    for at in [0, 16] {
        let kernel = machine();
        let x = kernel.consumer();
        x.set(OptionId::Bufpolicy, BufPolicy::Ring.number().into());
        x.enable("proc:::a { trace(arg0); }");
        x.go();
        kernel.hit(0, 0);
        let host = kernel.dtrace.host();
        host.now.store(40_000_000_000, Ordering::Relaxed);
        kernel.hit(0, 0);
        let syncs = host.threads.syncs.load(Ordering::Relaxed);
        let read = kernel.dtrace.snapshot(x.id, 0, Which::Records, at, &mut [0; 64]).unwrap();
        assert_eq!((read.size, read.read), (24, 24 - at));
        assert_eq!(host.threads.syncs.load(Ordering::Relaxed), syncs + 1, "{at}");
    }
}

#[test]
fn buffers_that_are_not_switched() {
    for (policy, expected) in [(BufPolicy::Fill, 0..9), (BufPolicy::Ring, 91..100)] {
        let kernel = Kernel::new();
        let x = kernel.consumer();
        x.set(OptionId::Bufpolicy, policy.number().into());
        x.set(OptionId::Bufsize, 240);
        x.enable("proc:::a { trace(arg0); } END { trace(-1); }");
        x.go();
        (0..100).for_each(|n| kernel.hit(0, n));
        assert_eq!(x.try_snapshot(0, Which::Records), Err(ConsumerError::Started(x.id)));
        x.stop();
        let status = kernel.dtrace.status(x.id).unwrap();
        assert_eq!(status.filled, u64::from(policy == BufPolicy::Fill));
        let expected: Vec<_> = expected.map(|n| vec![n]).chain([vec![-1]]).collect();
        assert_eq!(x.numbers(), expected, "{policy:?}");
        assert_eq!(x.numbers(), expected, "it stays");
    }
}

/// Sizes that exceed the memory are halved until they fit. If the option `bufresize` forbids this, the request is refused.
#[test]
fn sizes_are_as_large_as_there_is_room() {
    let kernel = Kernel::with(Threads::new(), 1 << 20);
    let all = kernel.dtrace.memory_left().unwrap();
    let x = kernel.consumer();
    for option in [OptionId::Bufsize, OptionId::Aggsize, OptionId::Dynvarsize] {
        x.set(option, 4 << 20);
    }
    x.enable("proc:::a { @[arg0] = count(); a[arg0] = 1; trace(arg0); }");
    x.go();
    kernel.hit(0, 1);
    assert_eq!((x.numbers().len(), x.aggregations(0).0.len()), (1, 1));
    assert_eq!(kernel.dtrace.set_option(x.id, 0, 4096), Err(ConsumerError::Started(x.id)));
    kernel.dtrace.close(x.id).unwrap();
    assert_eq!(kernel.dtrace.memory_left().unwrap(), all, "everything comes back");

    let x = kernel.consumer();
    x.set(OptionId::Bufsize, 4 << 20);
    x.set(OptionId::Bufresize, 1);
    x.enable("proc:::a { trace(arg0); }");
    assert!(matches!(kernel.dtrace.go(x.id), Err(ConsumerError::NoMemory { .. })));
    x.set(OptionId::Bufsize, 8);
    let small = ConsumerError::SmallBuffer { bytes: 8, least: 24 };
    assert_eq!(kernel.dtrace.go(x.id), Err(small));
    for (option, value) in [(77, 0), (OptionId::Bufpolicy.number(), 9), (0, -1)] {
        let bad = ConsumerError::BadOption { option, value };
        assert_eq!(kernel.dtrace.set_option(x.id, option, value), Err(bad));
    }
    kernel.dtrace.close(x.id).unwrap();
    assert_eq!(kernel.dtrace.memory_left().unwrap(), all);
}

/// A program that is enabled at boot traces later probes, for the consumer that claims it.
#[test]
fn a_boot_is_traced() {
    let kernel = machine();
    let dtrace = &kernel.dtrace;
    let options = dtrace_abi::option::OptionId::Bufpolicy.number();
    let text = "BEGIN { trace(1); } late:::* { trace(arg0); @ = count(); }";
    assert!(dtrace.enable_anonymously(b"no DOF").is_err());
    assert_eq!(dtrace.enable_anonymously(&compile(text)), Ok(1));
    assert!(matches!(dtrace.enable_anonymously(&compile(text)), Err(ConsumerError::Started(_))));
    let late: &'static TestProvider = Box::leak(Box::default());
    // SAFETY: the provider is never freed.
    let provider = unsafe { late.register(&**dtrace, c"late") }.unwrap();
    let probe = create(&**dtrace, provider, [c"m", c"f", c"first"], 0);
    dtrace.probe(probe, &[7; 6]);
    dtrace.host().now.store(100_000_000_000, Ordering::Relaxed);
    dtrace.probe(probe, &[8; 6]);
    assert_eq!(dtrace.claim(Rights::new(Privileges::USER)), None, "it is the kernel's");
    let id = dtrace.claim(Rights::new(Privileges::KERNEL)).unwrap();
    assert_eq!(dtrace.claim(Rights::ALL), None);
    let x = crate::run::Consumer { dtrace, id };
    assert_eq!(dtrace.set_option(id, options, 0), Err(ConsumerError::Started(id)));
    assert_eq!(x.numbers(), [[1], [7], [8]]);
    assert_eq!(x.aggregations(0).0.values().collect::<Vec<_>>(), [&[2]]);
    assert!(!dtrace.status(id).unwrap().killed);
    dtrace.host().now.store(200_000_000_000, Ordering::Relaxed);
    dtrace.probe(probe, &[9; 6]);
    assert!(dtrace.status(id).unwrap().killed, "now it has to be heard of");
    assert!(dtrace.unregister(provider).is_err());
    dtrace.close(id).unwrap();
    dtrace.unregister(provider).unwrap();
}

/// If there is no room for the last clause of a program, the program keeps no memory, and earlier programs continue.
#[test]
fn what_is_refused_while_it_is_enabled_keeps_no_memory() {
    let kernel = machine();
    let x = kernel.consumer();
    assert_eq!(x.enable("uint64_t n; proc:::a { n++; trace(n); @[\"before\"] = count(); }"), 1);
    (0..15).for_each(|_| assert_eq!(x.enable("proc::: { @ = count(); }"), 4));
    let left = kernel.dtrace.memory_left().unwrap();
    let refused = compile(
        "uint64_t n; string s; proc:::a { s = \"a text\"; n = 7; printf(\"%s\", s); } proc::: { trace(2); }",
    );
    for _ in 0..3 {
        let result = kernel.dtrace.enable_program(x.id, &refused);
        assert_eq!(result, Err(ConsumerError::TooManyEnablings { needed: 4, left: 2 }));
        assert_eq!(kernel.dtrace.memory_left().unwrap(), left);
    }
    x.go();
    kernel.hit(0, 0);
    kernel.hit(0, 0);
    assert_eq!(x.numbers(), [[1], [2]]);
}

/// A consumer that could not start, because a buffer was too small, can add programs and start later with all of them.
#[test]
fn who_could_not_go_may_send_more() {
    let kernel = Kernel::configured(Machine::default(), 1 << 20, &Config { buffer: 8, ..CONFIG });
    let x = kernel.consumer();
    let left = kernel.dtrace.memory_left().unwrap();
    assert_eq!(x.enable("string a; proc:::a { a = \"first\"; trace(a); }"), 1);
    assert_eq!(kernel.dtrace.enable(x.id, &spec("proc:::b")), Ok(1));
    let refused = kernel.dtrace.go(x.id);
    assert!(matches!(refused, Err(ConsumerError::SmallBuffer { bytes: 8, .. })), "{refused:?}");
    assert_eq!(x.enable("string a, b; proc:::a { b = \"second\"; trace(b); trace(a); }"), 1);
    x.set(OptionId::Bufsize, 4096);
    x.go();
    kernel.hit(0, 0);
    let (records, _) = x.records(0);
    let texts = |datum: &Vec<u8>| {
        String::from_utf8(datum.iter().copied().take_while(|byte| *byte != 0).collect()).unwrap()
    };
    let texts: Vec<Vec<_>> =
        records.iter().map(|record| record.data.iter().map(texts).collect()).collect();
    assert_eq!(texts, [vec!["first"], vec!["second", "first"]]);
    kernel.dtrace.close(x.id).unwrap();
    assert_eq!(kernel.dtrace.open().map(|_| kernel.dtrace.memory_left().unwrap()), Ok(left));
}

/// There is room for one dynamic variable, however small `dynvarsize` is. A variable that is only read needs no room.
#[test]
fn a_variable_that_is_read_takes_no_room() {
    let kernel = machine();
    let x = kernel.consumer();
    x.set(OptionId::Dynvarsize, 12);
    x.enable("self int x, y, w; proc:::a { trace(self->x); trace(self->y); self->w = 9; trace(self->w); }");
    x.go();
    kernel.hit(0, 0);
    assert_eq!(x.numbers(), [[0, 0, 9]]);
    assert_eq!(kernel.dtrace.status(x.id).unwrap().dynamic_drops, 0);
}

/// Variables of two consumers have the same numbers, and different memory.
#[test]
fn a_thread_has_variables_for_each_consumer() {
    let kernel = machine();
    let (x, y) = (kernel.consumer(), kernel.consumer());
    x.enable("self int n; proc:::a { self->n = 5; trace(self->n); }");
    y.enable("self int m; int a[int]; proc:::a { a[1] = 9; trace(self->m); self->m = arg0; }");
    x.go();
    y.go();
    kernel.hit(0, 3);
    kernel.hit(0, 4);
    assert_eq!((x.numbers(), y.numbers()), (vec![vec![5], vec![5]], vec![vec![0], vec![3]]));
}

/// `strtok` continues in later clauses at the same hit.
#[test]
fn a_string_is_taken_apart_by_several_clauses() {
    let kernel = machine();
    let x = kernel.consumer();
    x.enable(
        "proc:::a { trace(strtok(\"one,two,three\", \",\")); } proc:::a { trace(arg0); } \
         proc:::a /strtok(NULL, \",\") == \"two\"/ { trace(strtok(NULL, \",\")); }",
    );
    x.go();
    kernel.hit(0, 5);
    let (records, _) = x.records(0);
    let text = |at: usize| {
        let datum: &[u8] = &records[at].data[0];
        std::ffi::CStr::from_bytes_until_nul(datum).unwrap().to_str().unwrap().to_owned()
    };
    assert_eq!((text(0), text(2)), ("one".to_owned(), "three".to_owned()));
    assert_eq!(records.len(), 3, "{records:?}");
}
