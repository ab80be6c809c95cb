//! The duration of a hit is limited, whatever its programs do.

use std::sync::atomic::Ordering;

use crate::common::Threads;
use crate::machine::machine;
use crate::run::Kernel;
use dtrace_abi::option::OptionId;

/// All clauses of a hit share one budget, whether they fail or not.
#[test]
fn however_many_clauses_there_are_a_hit_ends() {
    let kernel = Kernel::with(Threads::new(), 4 << 20);
    let x = kernel.consumer();
    let much = "x += index(s, t); ".repeat(4);
    let heavy = format!("proc:::a {{ {much} fine++; }}\n").repeat(12);
    x.enable(&format!(
        "string s, t; int fine, light, x;
         BEGIN {{ s = \"{}\"; t = \"{}b\"; }}
         {heavy}
         proc:::a {{ light = strlen(s); }}
         proc:::b {{ trace(fine); trace(light); fine = 0; light = 0; }}",
        "a".repeat(250),
        "a".repeat(100),
    ));
    x.go();
    for _ in 0..2 {
        kernel.hit(0, 0);
        kernel.hit(1, 0);
    }
    let numbers = x.numbers();
    let errors = kernel.dtrace.status(x.id).unwrap().errors;
    for hit in &numbers {
        assert!((1..12).contains(&hit[0]) && hit[1] == 0, "{numbers:?}");
    }
    assert_eq!((numbers.len(), numbers[0][0] + numbers[1][0]), (2, 26 - errors as i64));
}

/// All programs together can hold a CPU for half of each second; more is a fault.
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
