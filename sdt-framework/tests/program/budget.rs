//! All clauses of a hit have one budget. The tests count their work as calls of a host with expensive functions.

use std::sync::atomic::{AtomicU64, Ordering};

use dtrace_abi::option::OptionId;
use recording_host::cpus::Threads;
use sdt_framework::kernel::{Costs, Kernel as Knows, Number};
use sdt_framework::{Config, Host, SpinLock};

use crate::run::{CONFIG, Kernel};

/// The cost of its functions.
const COSTS: Costs = Costs { load: 3_000, user: 3_000, stack: 4_000, frame: 2_000 };
/// The number of frames of each stack.
const DEPTH: usize = 250;

/// A host each of whose functions costs as much as a system call, or more.
#[derive(Default)]
pub struct Dear<const UNITS: u32 = { Costs::BUDGET }> {
    threads: Threads,
    /// Units that its functions have taken.
    taken: AtomicU64,
}

impl<const UNITS: u32> Dear<UNITS> {
    fn take(&self, units: u64) {
        self.taken.fetch_add(units, Ordering::Relaxed);
    }

    fn walk(&self, frames: &mut [u64]) -> usize {
        let count = frames.len().min(DEPTH);
        (0x400_000..).zip(&mut frames[..count]).for_each(|(at, frame)| *frame = at);
        self.take(u64::from(COSTS.stack) + count as u64 * u64::from(COSTS.frame));
        count
    }
}

// SAFETY: each function calls the same function of `Threads`, which fulfils the contract.
unsafe impl<const UNITS: u32> Host for Dear<UNITS> {
    type Lock = SpinLock<Self>;

    const BUDGET: u32 = UNITS;

    fn cpu(&self) -> usize {
        self.threads.cpu()
    }

    fn cpus(&self) -> usize {
        self.threads.cpus()
    }

    fn timestamp(&self) -> u64 {
        1
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
}

impl<const UNITS: u32> Knows for Dear<UNITS> {
    fn timestamp(&self) -> u64 {
        1
    }

    fn costs(&self) -> Costs {
        COSTS
    }

    fn load(&self, _: u64, into: &mut [u8]) -> bool {
        self.take(COSTS.load.into());
        into.fill(b'k');
        true
    }

    fn copyin(&self, _: u64, into: &mut [u8]) -> bool {
        self.take(COSTS.user.into());
        into.fill(b'u');
        true
    }

    fn number(&self, which: Number) -> Option<u64> {
        match which {
            Number::Stackdepth | Number::Ustackdepth => Some(self.walk(&mut [0; 256]) as u64),
            Number::Pid => Some(7),
            _ => None,
        }
    }

    fn stack(&self, _: u32, frames: &mut [u64]) -> usize {
        self.walk(frames)
    }

    fn ustack(&self, frames: &mut [u64]) -> usize {
        self.walk(frames)
    }
}

const CLAUSES: usize = 200;

fn dear<const UNITS: u32>() -> Kernel<Dear<UNITS>> {
    let config = Config { ecbs: 2 * CLAUSES + 16, ..CONFIG };
    Kernel::configured(Dear::default(), 64 << 20, &config)
}

/// The actions of a clause that needs much work of the host.
const MUCH: [&str; 12] = [
    "stack(1000);",
    "ustack(1000);",
    "jstack(1000);",
    "@[stack(1000)] = count();",
    "@ = sum(ustackdepth + ustackdepth + ustackdepth + ustackdepth);",
    "x = stackdepth;",
    "@[*(int *)arg0, *(int *)arg1] = count();",
    "x = strlen(stringof(arg0)); x = strlen(stringof(arg0));",
    "s = stringof(arg0);",
    "trace(copyinstr(arg0));",
    "x = index(stringof(arg0), stringof(arg1));",
    "tracemem(arg0, 8192);",
];

/// With any number of clauses, the work of the host stays within the budget, each clause that does not run is an error
/// for the consumer, and the next hit has a new budget.
#[test]
fn what_a_host_is_asked_for_at_a_hit_is_within_the_budget() {
    for much in MUCH {
        let kernel = dear::<{ Costs::BUDGET }>();
        let host = kernel.dtrace.host();
        let x = kernel.consumer();
        let clauses = format!("proc:::a {{ {much} {much} {much} {much} }}\n").repeat(CLAUSES);
        x.set(OptionId::Bufsize, 4 << 20);
        x.set(OptionId::Aggsize, 1 << 20);
        x.enable(&format!("int x; string s;\n{clauses}"));
        x.go();
        let mut errors = 0;
        for _ in 0..2 {
            let before = host.taken.load(Ordering::Relaxed);
            kernel.hit(0, 0x1000);
            let taken = host.taken.load(Ordering::Relaxed) - before;
            let budget = u64::from(Costs::BUDGET);
            assert!((budget / 3..=budget).contains(&taken), "{much}: {taken} of {budget}");
            let now = kernel.dtrace.status(x.id).unwrap().errors;
            assert!(now - errors > 10, "{much}: {now}");
            errors = now;
        }
    }
}

/// The work of one consumer does not reduce the share of another one, in either order.
#[test]
fn a_consumer_has_its_share_whatever_others_do() {
    for is_first in [true, false] {
        let kernel = dear::<{ Costs::BUDGET }>();
        let host = kernel.dtrace.host();
        let [x, y] = [(); 2].map(|()| kernel.consumer());
        let heavy = "proc:::a { @ = sum(ustackdepth); }\n".repeat(CLAUSES);
        let light = "proc:::a { trace(strlen(stringof(arg0))); }";
        if is_first {
            y.enable(light);
            x.enable(&heavy);
        } else {
            x.enable(&heavy);
            y.enable(light);
        }
        [&x, &y].into_iter().for_each(|of| of.go());
        (0..3).for_each(|_| kernel.hit(0, 0x1000));
        assert_eq!(y.numbers(), [[256]; 3]);
        let errors = [&x, &y].map(|of| kernel.dtrace.status(of.id).unwrap().errors);
        assert!(errors[0] > 3 * (CLAUSES as u64 - 16) && errors[1] == 0, "{errors:?}");
        let taken = host.taken.load(Ordering::Relaxed) / 3;
        assert!(taken < u64::from(Costs::BUDGET / 2 + 20_000), "{taken}");
        // A consumer that alone has enabled a probe gets all records.
        y.dtrace.close(y.id).unwrap();
        let before = host.taken.load(Ordering::Relaxed);
        kernel.hit(0, 0x1000);
        let taken = host.taken.load(Ordering::Relaxed) - before;
        assert!(taken > u64::from(Costs::BUDGET / 4 * 3), "{taken}");
    }
}

/// Two consumers whose clauses run one after the other, alternately.
#[test]
fn shares_are_kept_however_clauses_are_mixed() {
    let kernel = dear::<{ Costs::BUDGET }>();
    let [x, y] = [(); 2].map(|()| kernel.consumer());
    for _ in 0..40 {
        x.enable("proc:::a { @ = sum(ustackdepth); }");
        y.enable("proc:::a { trace(pid); }");
    }
    [&x, &y].into_iter().for_each(|of| of.go());
    kernel.hit(0, 0);
    assert_eq!(y.numbers(), vec![[7]; 40]);
    let taken = kernel.dtrace.host().taken.load(Ordering::Relaxed);
    assert!(taken < u64::from(Costs::BUDGET / 2), "{taken}");
    let status = kernel.dtrace.status(x.id).unwrap();
    assert!((30..40).contains(&status.errors), "{status:?}");
}

/// ERROR fires when a consumer's budget is used up. The work of ERROR is charged to the reserve, and errors without it are counted.
#[test]
fn error_tells_that_the_budget_is_used_up() {
    let kernel = dear::<{ Costs::BUDGET }>();
    let x = kernel.consumer();
    let heavy = "proc:::a { @ = sum(ustackdepth); }\n".repeat(CLAUSES);
    x.enable(&format!(
        "{heavy} dtrace:::ERROR {{ trace(arg4); trace(caller != 0); trace(arg3 == 0xffffffff); }}"
    ));
    x.go();
    kernel.hit(0, 0);
    // DTRACEFLT_ILLOP.
    let told = x.numbers();
    assert!(!told.is_empty() && told.iter().all(|of| of[..2] == [3, 1]), "{told:?}");
    // The clauses after the first one are not run, so no instruction of theirs has failed.
    assert!(told[1..].iter().all(|of| of[2] == 1), "{told:?}");
    let status = kernel.dtrace.status(x.id).unwrap();
    assert!(status.double_errors > 100, "{status:?}");
    let taken = kernel.dtrace.host().taken.load(Ordering::Relaxed);
    assert!(taken <= u64::from(Costs::BUDGET), "{taken}");
}

/// A host states a smaller budget, and no hit uses more. The counter shows how much the longest hit used, for one consumer or two, with
/// errors or without.
#[test]
fn a_host_limits_the_work_of_a_hit_and_sees_it() {
    const UNITS: u32 = 200_000;
    let kernel = dear::<UNITS>();
    let most = || kernel.dtrace.counters().most_work;
    let taken = || kernel.dtrace.host().taken.swap(0, Ordering::Relaxed);
    kernel.hit(0, 0);
    assert_eq!(most(), 0, "no clause runs");

    let x = kernel.consumer();
    x.enable("proc:::a { trace(*(int *)arg0); } proc:::b { trace(strlen(stringof(arg0))); }");
    x.go();
    kernel.hit(0, 0x1000);
    let (one, host) = (most(), taken());
    assert!((host..host + 2_000).contains(&one) && host > 0, "{one} {host}");
    kernel.hit(1, 0x1000);
    let (longer, host) = (most(), taken());
    assert!((host..host + 10_000).contains(&longer) && longer > one, "{longer} {host}");
    kernel.hit(0, 0x1000);
    assert_eq!(most(), longer, "the shorter hit does not count");

    let y = kernel.consumer();
    y.enable("proc:::b { trace(strlen(stringof(arg0))); }");
    y.go();
    taken();
    kernel.hit(1, 0x1000);
    let (both, host) = (most(), taken());
    assert!(both > longer && (host..host + 20_000).contains(&both), "{both} {host}");

    let z = kernel.consumer();
    let heavy = "proc:::c { stack(20); }\n".repeat(CLAUSES);
    z.enable(&format!("{heavy} dtrace:::ERROR {{ stack(1); }}"));
    z.go();
    taken();
    kernel.hit(2, 0);
    let host = taken();
    assert!(host <= u64::from(UNITS) && host > u64::from(UNITS / 2), "{host}");
    let most = most();
    assert!(most <= u64::from(UNITS) && most > u64::from(UNITS - UNITS / 16), "{most}");
}
