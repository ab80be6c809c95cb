//! What consumers may, how long they live, what timers fire, and what is not looked at twice.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use dtrace_abi::fault::Fault;
use dtrace_abi::option::{BufPolicy, OptionId};
use sdt_core::ops::{Framework as _, Privileges, ProviderAttr, ProviderOps};
use sdt_framework::kernel::{Destruction, Kernel as Knows, Number};
use sdt_framework::{Config, ConsumerError, Host, LONGEST, Rights, SpinLock, Which};
use sdt_host::cpus::Threads;

use crate::common::{OPS, TestProvider, create, spec};
use crate::run::{CONFIG, Kernel, compile};

/// Threads, with a clock that the test sets, a process, a stack, and nothing to lose.
#[derive(Default)]
pub struct Machine {
    threads: Threads,
    now: AtomicU64,
    changes: AtomicUsize,
    /// How often somebody wanted to know which thread runs.
    looks: AtomicUsize,
    /// How many interrupts there are in each other.
    interrupts: AtomicU32,
    destroyed: std::sync::Mutex<Vec<Destruction>>,
}

// SAFETY: `Threads` keeps to it.
unsafe impl Host for Machine {
    type Lock = SpinLock<Self>;

    fn cpu(&self) -> usize {
        self.threads.cpu()
    }

    fn cpus(&self) -> usize {
        self.threads.cpus()
    }

    fn timestamp(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    fn without_interrupts<R>(&self, f: impl FnOnce() -> R) -> R {
        self.threads.without_interrupts(f)
    }

    fn sync(&self) {
        self.threads.sync();
    }

    fn kernel(&self) -> &(dyn Knows + Sync) {
        self
    }

    fn timers_changed(&self) {
        self.changes.fetch_add(1, Ordering::Relaxed);
    }
}

impl Knows for Machine {
    fn timestamp(&self) -> u64 {
        unreachable!("the host is asked")
    }

    fn load(&self, address: u64, into: &mut [u8]) -> bool {
        into.fill(address as u8);
        (0x1000..0x2000).contains(&address)
    }

    fn number(&self, which: Number) -> Option<u64> {
        (which == Number::Pid).then_some(77)
    }

    fn thread(&self) -> u64 {
        self.looks.fetch_add(1, Ordering::Relaxed);
        self.threads.thread()
    }

    fn predicate_cache(&self) -> Option<&AtomicU32> {
        self.threads.predicate_cache()
    }

    fn interrupts(&self) -> u8 {
        self.interrupts.load(Ordering::Relaxed) as u8
    }

    fn stack(&self, own: u32, frames: &mut [u64]) -> usize {
        let count = frames.len().min(3);
        for (frame, address) in frames.iter_mut().zip(u64::from(own)..).take(count) {
            *frame = 0x100 + address;
        }
        count
    }

    fn ustack(&self, frames: &mut [u64]) -> usize {
        frames.iter_mut().take(2).for_each(|frame| *frame = 0x55);
        2
    }

    fn destroy(&self, how: Destruction) -> bool {
        self.destroyed.lock().unwrap().push(how);
        true
    }
}

pub fn machine() -> Kernel<Machine> {
    Kernel::with(Machine::default(), 4 << 20)
}

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

/// Probes of processes count for who may trace those alone if they fired in user mode, and tell nothing of the kernel.
#[test]
fn who_may_trace_processes_sees_nothing_of_the_kernel() {
    unsafe extern "C" fn usermode(_: *mut c_void, _: u32, _: *mut c_void) -> c_int {
        1
    }

    let kernel = machine();
    let register = |name, privileges| {
        let ops: &'static _ = Box::leak(Box::new(ProviderOps { usermode: Some(usermode), ..OPS }));
        let of: &'static TestProvider = Box::leak(Box::default());
        // SAFETY: it stays.
        unsafe { kernel.dtrace.register(name, &ProviderAttr::SDT, privileges, ops, of.arg()) }
            .unwrap()
    };
    let secret = register(c"secret", Privileges::KERNEL);
    create(&*kernel.dtrace, secret, [c"m", c"f", c"z"], 0);
    let open = register(c"open", Privileges::USER);
    let probes = [c"a", c"b"].map(|name| create(&*kernel.dtrace, open, [c"m", c"f", name], 0));
    let x = kernel.consumer_with(Rights::new(Privileges::USER));
    assert_eq!(x.enable("secret:::z { trace(1); }"), 0);
    x.enable(
        "open:::a { trace(*(int *)0x1000); }
         open:::b { trace(arg0); stack(2); sym(5); }
         ERROR { trace(arg4); trace(arg5); }",
    );
    x.go();
    probes.iter().for_each(|&probe| kernel.dtrace.probe(probe, &[7; 6]));
    let denied = i64::from(Fault::KernelPrivilege.number());
    let records = x.records(0).0;
    assert_eq!(records[0].numbers(), [denied, 0x1000]);
    assert_eq!(records[1].data[0], 7_u64.to_le_bytes());
    assert!(records[1].data[1..].iter().flatten().all(|byte| *byte == 0));
    let y = kernel.consumer();
    assert_eq!(y.enable("secret:::z { trace(1); }"), 1);
}

/// All clauses of a hit share what they may do, whether they fail or not; and each can do a little.
#[test]
fn however_many_clauses_there_are_a_hit_ends() {
    let kernel = Kernel::with(Threads::new(), 4 << 20);
    let x = kernel.consumer();
    let much = "x += index(s, t); ".repeat(20);
    let heavy = format!("proc:::a {{ {much} fine++; }}\n").repeat(12);
    x.enable(&format!(
        "string s, t; int fine, light, x;
         BEGIN {{ s = \"{}\"; t = \"{}b\"; }}
         {heavy}
         proc:::a {{ light = strlen(s); }}
         proc:::a,proc:::b {{ trace(fine); trace(light); fine = 0; light = 0; }}",
        "a".repeat(250),
        "a".repeat(100),
    ));
    x.go();
    (0..2).for_each(|_| kernel.hit(0, 0));
    let numbers = x.numbers();
    let errors = kernel.dtrace.status(x.id).unwrap().errors;
    for hit in &numbers {
        assert!((1..12).contains(&hit[0]) && hit[1] == 250, "{numbers:?}");
    }
    assert_eq!((numbers.len(), numbers[0][0] + numbers[1][0]), (2, 24 - errors as i64));
}

/// Half of each second, by all programs together: what would be more is a fault.
#[test]
fn a_cpu_is_not_held_for_long() {
    let kernel = machine();
    let [x, y] = [(); 2].map(|()| {
        let x = kernel.consumer();
        x.set(OptionId::Destructive, 1);
        x.enable("proc:::a { chill(arg0); trace(arg0); }");
        x.go();
        x
    });
    let machine = kernel.dtrace.host();
    let hit = |now: u64, nanoseconds: u64| {
        machine.now.store(now, Ordering::Relaxed);
        kernel.hit(0, nanoseconds);
        let errors = [&x, &y].map(|of| kernel.dtrace.status(of.id).unwrap().errors);
        (std::mem::take(&mut *machine.destroyed.lock().unwrap()).len(), errors)
    };
    const SECOND: u64 = 1_000_000_000;
    assert_eq!(hit(2 * SECOND, 200_000_000), (2, [0, 0]));
    assert_eq!(hit(2 * SECOND, 100_000_001), (0, [1, 1]));
    assert_eq!(hit(3 * SECOND, 100_000_000), (1, [1, 2]));
    assert_eq!(hit(3 * SECOND + 1, u64::MAX - 2), (0, [2, 3]));
    assert_eq!(hit(3 * SECOND + 2, 500_000_000), (1, [2, 4]));
    // Another CPU.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            Threads::bind(1);
            assert_eq!(hit(3 * SECOND + 3, 250_000_000), (2, [2, 4]));
        });
    });
    // On the first CPU.
    assert_eq!(x.numbers().len() + y.numbers().len(), 4);
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

/// Nobody looks at the clock for a hit that comes to nothing; but now and then.
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

/// Nothing of a buffer that is not switched is read before the CPUs have been waited for that were filling it when its consumer
/// was given up, from whatever byte on.
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
fn timers_fire_when_they_are_due() {
    let kernel: &'static Kernel<Machine> = Box::leak(Box::new(machine()));
    let dtrace: &'static sdt_framework::Dtrace<Machine> = &kernel.dtrace;
    assert_eq!(dtrace.tick(0, 0), None);
    dtrace.register_profile(2).unwrap();
    assert!(dtrace.register_profile(2).is_err());
    let listed = dtrace.for_each_probe(&spec("profile:::"), |_| {});
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

/// The time between enabling and going is nobody's, and who goes later does not stop the clock of others.
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
    // Who stops and goes on has nothing begin anew.
    x.stop();
    x.go();
    assert_eq!(dtrace.tick(0, 0), Some(38 * MS));
    assert_eq!(
        (x.numbers(), y.numbers()),
        (vec![vec![0], vec![9]], vec![vec![1], vec![1], vec![2]])
    );
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

/// A predicate that was false is not looked at again by the thread, until something that it looks at changes.
#[test]
fn predicates_are_cached() {
    let kernel = machine();
    let x = kernel.consumer();
    x.enable("proc:::b { self->on = arg0; } proc:::a /self->on/ { trace(arg0); }");
    x.go();
    // Whoever looks at the predicate has to know whose variable it is.
    let asks = |arg: u64| {
        let before = kernel.dtrace.host().looks.load(Ordering::Relaxed);
        kernel.hit(0, arg);
        kernel.dtrace.host().looks.load(Ordering::Relaxed) - before
    };
    assert_eq!([1, 2, 3].map(asks), [1, 0, 0]);
    kernel.hit(1, 1);
    assert_eq!([4, 5].map(asks), [1, 1]);
    kernel.hit(1, 0);
    assert_eq!([6, 7].map(asks), [1, 0]);
    // Another thread has not looked yet.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            Threads::bind(1);
            assert_eq!([8, 9].map(asks), [1, 0]);
        });
    });
    // Somebody else has it enabled as well.
    let y = kernel.consumer();
    y.enable("proc:::a { trace(arg0); }");
    y.go();
    assert_eq!(asks(10), 1);
    kernel.dtrace.close(y.id).unwrap();
    assert_eq!([11, 12].map(asks), [0, 0]);
    assert_eq!(x.numbers(), [[4], [5]]);
}

/// What was false for a thread need not be for an interrupt, which has variables of its own.
#[test]
fn interrupts_are_no_threads() {
    let kernel = machine();
    let x = kernel.consumer();
    x.enable("proc:::b { self->on = arg0; } proc:::a /self->on/ { trace(arg0); }");
    x.go();
    let interrupts = |count| kernel.dtrace.host().interrupts.store(count, Ordering::Relaxed);
    interrupts(1);
    kernel.hit(1, 1);
    kernel.hit(0, 1);
    interrupts(0);
    (2..4).for_each(|n| kernel.hit(0, n));
    interrupts(1);
    kernel.hit(0, 4);
    assert_eq!(x.numbers(), [[1], [4]]);
}

/// Whatever assigns a variable of the thread's makes its predicates be looked at again; and a predicate that assigns one is
/// looked at each time.
#[test]
fn cached_predicates_are_forgotten() {
    for (assigns, asks) in [
        ("proc:::b { self->on = 1; }", "self->on"),
        ("proc:::b /(self->on = 1) == 0/ { trace(-1); }", "self->on"),
        ("proc:::b /(self->on = 1) == *(int *)8/ { trace(-1); }", "self->on"),
        ("proc:::b { self->on[1] = 1; }", "self->on[1]"),
        ("proc:::b /(self->on[1] = 1) == 0/ { }", "self->on[1]"),
    ] {
        let kernel = machine();
        let x = kernel.consumer();
        x.enable(&format!("{assigns} proc:::a /{asks}/ {{ trace(arg0); }}"));
        x.go();
        (1..4).for_each(|n| kernel.hit(0, n));
        kernel.hit(1, 0);
        (4..6).for_each(|n| kernel.hit(0, n));
        assert_eq!(x.numbers(), [[4], [5]], "{assigns}");
    }
    let kernel = machine();
    let x = kernel.consumer();
    x.enable("proc:::a /self->n++ == 3/ { trace(arg0); }");
    x.go();
    (0..6).for_each(|n| kernel.hit(0, n));
    assert_eq!(x.numbers(), [[3]]);
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
        assert_eq!(x.try_snapshot(0, Which::Records), Err(ConsumerError::Going(x.id)));
        x.stop();
        let status = kernel.dtrace.status(x.id).unwrap();
        assert_eq!(status.filled, u64::from(policy == BufPolicy::Fill));
        let expected: Vec<_> = expected.map(|n| vec![n]).chain([vec![-1]]).collect();
        assert_eq!(x.numbers(), expected, "{policy:?}");
        assert_eq!(x.numbers(), expected, "it stays");
    }
}

/// Sizes that there is no room for are halved, unless they are not to be; what cannot be is refused.
#[test]
fn sizes_are_as_large_as_there_is_room() {
    let kernel = Kernel::with(Threads::new(), 1 << 20);
    let all = kernel.dtrace.memory_left();
    let x = kernel.consumer();
    for option in [OptionId::Bufsize, OptionId::Aggsize, OptionId::Dynvarsize] {
        x.set(option, 4 << 20);
    }
    x.enable("proc:::a { @[arg0] = count(); a[arg0] = 1; trace(arg0); }");
    x.go();
    kernel.hit(0, 1);
    assert_eq!((x.numbers().len(), x.aggregations(0).0.len()), (1, 1));
    assert_eq!(kernel.dtrace.set_option(x.id, 0, 4096), Err(ConsumerError::Going(x.id)));
    kernel.dtrace.close(x.id).unwrap();
    assert_eq!(kernel.dtrace.memory_left(), all, "everything comes back");

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
    assert_eq!(kernel.dtrace.memory_left(), all);
}

/// What is enabled at boot traces what comes later, for whoever claims it.
#[test]
fn a_boot_is_traced() {
    let kernel = machine();
    let dtrace = &kernel.dtrace;
    let options = dtrace_abi::option::OptionId::Bufpolicy.number();
    let text = "BEGIN { trace(1); } late:::* { trace(arg0); @ = count(); }";
    assert!(dtrace.enable_anonymously(b"no DOF").is_err());
    assert_eq!(dtrace.enable_anonymously(&compile(text)), Ok(1));
    assert!(matches!(dtrace.enable_anonymously(&compile(text)), Err(ConsumerError::Going(_))));
    let late: &'static TestProvider = Box::leak(Box::default());
    // SAFETY: it stays.
    let provider = unsafe { late.register(&**dtrace, c"late") }.unwrap();
    let probe = create(&**dtrace, provider, [c"m", c"f", c"first"], 0);
    dtrace.probe(probe, &[7; 6]);
    dtrace.host().now.store(100_000_000_000, Ordering::Relaxed);
    dtrace.probe(probe, &[8; 6]);
    assert_eq!(dtrace.claim(Rights::new(Privileges::USER)), None, "it is the kernel's");
    let id = dtrace.claim(Rights::new(Privileges::KERNEL)).unwrap();
    assert_eq!(dtrace.claim(Rights::ALL), None);
    let x = crate::run::Consumer { dtrace, id };
    assert_eq!(dtrace.set_option(id, options, 0), Err(ConsumerError::Going(id)));
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

/// A program of which the last clause finds no room leaves nothing behind, and those before it go on.
#[test]
fn what_is_refused_while_it_is_enabled_keeps_no_memory() {
    let kernel = machine();
    let x = kernel.consumer();
    assert_eq!(x.enable("uint64_t n; proc:::a { n++; trace(n); @[\"before\"] = count(); }"), 1);
    (0..15).for_each(|_| assert_eq!(x.enable("proc::: { @ = count(); }"), 4));
    let left = kernel.dtrace.memory_left();
    let refused = compile(
        "uint64_t n; string s; proc:::a { s = \"a text\"; n = 7; printf(\"%s\", s); } proc::: { trace(2); }",
    );
    for _ in 0..3 {
        let result = kernel.dtrace.enable_program(x.id, &refused);
        assert_eq!(result, Err(ConsumerError::TooManyEnablings { needed: 4, left: 2 }));
        assert_eq!(kernel.dtrace.memory_left(), left);
    }
    x.go();
    kernel.hit(0, 0);
    kernel.hit(0, 0);
    assert_eq!(x.numbers(), [[1], [2]]);
}

/// However little room there is to be for dynamic variables, one has it; and one that is only read takes none.
/// Who could not go, as there is no room for one of the buffers, goes later with all that has been sent by then.
#[test]
fn who_could_not_go_may_send_more() {
    let kernel = Kernel::configured(Machine::default(), 1 << 20, &Config { buffer: 8, ..CONFIG });
    let x = kernel.consumer();
    let left = kernel.dtrace.memory_left();
    x.set(OptionId::Bufsize, 4096);
    assert_eq!(x.enable("string a; proc:::a { a = \"first\"; trace(a); }"), 1);
    assert_eq!(kernel.dtrace.enable(x.id, &spec("proc:::b")), Ok(1));
    let small = ConsumerError::SmallBuffer { bytes: 8, least: LONGEST };
    assert_eq!(kernel.dtrace.go(x.id), Err(small));
    assert_eq!(x.enable("string a, b; proc:::a { b = \"second\"; trace(b); trace(a); }"), 1);
    kernel.dtrace.set_buffer(x.id, LONGEST).unwrap();
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
    assert_eq!(kernel.dtrace.open().map(|_| kernel.dtrace.memory_left()), Ok(left));
}

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

/// `strtok` goes on in the next clauses of the same firing.
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
