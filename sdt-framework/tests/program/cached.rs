//! The predicate cache: predicates that are not evaluated a second time.

use std::sync::atomic::Ordering;

use crate::common::Threads;
use crate::machine::machine;

/// A thread does not evaluate a predicate again that was false, until a value that the predicate uses changes.
#[test]
fn predicates_are_cached() {
    let kernel = machine();
    let x = kernel.consumer();
    x.enable("proc:::b { self->on = arg0; } proc:::a /self->on/ { trace(arg0); }");
    x.go();
    // The evaluation of the predicate calls `thread`, because it uses a thread-local variable. So the test counts these calls.
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
    // Another thread has not evaluated the predicate yet.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            Threads::bind(1);
            assert_eq!([8, 9].map(asks), [1, 0]);
        });
    });
    // Another consumer has enabled the probe, too.
    let y = kernel.consumer();
    y.enable("proc:::a { trace(arg0); }");
    y.go();
    assert_eq!(asks(10), 1);
    kernel.dtrace.close(y.id).unwrap();
    assert_eq!([11, 12].map(asks), [0, 0]);
    assert_eq!(x.numbers(), [[4], [5]]);
}

/// A predicate that was false for a thread can be true for an interrupt, which has variables of its own.
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

/// Each assignment of a thread-local variable clears the thread's cache. A predicate that assigns a variable is evaluated at each
/// hit.
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
