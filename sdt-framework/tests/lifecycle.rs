//! Who may go while who is there.

mod common;

use common::{Call, Five as _, Small, TestProvider, and_zeros, create, drain, small, spec};
use sdt_core::ops::{FrameworkError, ProbeId, ProviderId};
use sdt_framework::{ConsumerError, ConsumerId, Counters};

/// A provider `p` with the probes `m:f:a` and `m:f:b`, and its calls so far forgotten.
fn with_two_probes<'a>(
    dtrace: &'a Small,
    provider: &'a TestProvider,
) -> (ProviderId, ProbeId, ProbeId) {
    // SAFETY: callers keep the provider longer than the framework.
    let p = unsafe { provider.register(dtrace, c"p") }.unwrap();
    let a = create(dtrace, p, [c"m", c"f", c"a"], 10);
    let b = create(dtrace, p, [c"m", c"f", c"b"], 20);
    provider.calls();
    (p, a, b)
}

/// What it was asked, apart from providing.
fn asked(provider: &TestProvider) -> Vec<Call> {
    provider.calls().into_iter().filter(|call| !matches!(call, Call::Provide(_))).collect()
}

#[test]
fn the_first_enabling_enables_and_the_last_disables() {
    let provider = TestProvider::default();
    let dtrace = small();
    let (_, a, b) = with_two_probes(&dtrace, &provider);
    let [x, y, z] = [(); 3].map(|()| dtrace.open().unwrap());

    assert_eq!(dtrace.enable(x, &spec("a")), Ok(1));
    assert_eq!(asked(&provider), [Call::Enable(a.get(), 10)]);
    assert_eq!(dtrace.enable(y, &spec("p:::")), Ok(2));
    assert_eq!(asked(&provider), [Call::Enable(b.get(), 20)]);
    assert_eq!(dtrace.enable(z, &spec("a")), Ok(1));
    assert_eq!(dtrace.enable(z, &spec("a")), Ok(1));
    assert_eq!(dtrace.enable(z, &spec("nothing")), Ok(0));
    assert_eq!(asked(&provider), []);

    assert_eq!(dtrace.disable(x, &spec("p:::")), Ok(1));
    assert_eq!(dtrace.disable(x, &spec("p:::")), Ok(0));
    assert_eq!(asked(&provider), []);
    assert_eq!(dtrace.disable(y, &spec("b")), Ok(1));
    assert_eq!(asked(&provider), [Call::Disable(b.get(), 20)]);
    // Both enablings of z go at once; y is still there.
    assert_eq!(dtrace.disable(z, &spec("a")), Ok(1));
    assert_eq!(asked(&provider), []);
    assert_eq!(dtrace.close(y), Ok(()));
    assert_eq!(asked(&provider), [Call::Disable(a.get(), 10)]);
}

#[test]
fn records_go_to_those_who_enabled_once_for_each_enabling() {
    common::Threads::bind(0);
    let provider = TestProvider::default();
    let dtrace = small();
    let (_, a, b) = with_two_probes(&dtrace, &provider);
    let [x, y] = [(); 2].map(|()| dtrace.open().unwrap());
    dtrace.enable(x, &spec("a")).unwrap();
    dtrace.enable(x, &spec("p:::")).unwrap();
    dtrace.enable(y, &spec("b")).unwrap();

    dtrace.probe(a, &[0; 6]);
    dtrace.go(x).unwrap();
    dtrace.go(y).unwrap();
    dtrace.probe(a, &[1, 2, 3, 4, 5, 6]);
    dtrace.probe(b, &[7; 6]);
    dtrace.stop(x).unwrap();
    dtrace.probe(b, &[8; 6]);

    let of_x = drain(&dtrace, x, 0);
    let brief: Vec<_> = of_x.iter().map(|r| (r.probe, r.cpu, r.args)).collect();
    let first = (a.get(), 0, and_zeros([1, 2, 3, 4, 5, 6]));
    assert_eq!(brief, [first, first, (b.get(), 0, and_zeros([7; 6]))]);
    assert_eq!(of_x[0].timestamp, of_x[1].timestamp);
    assert!(of_x[1].timestamp < of_x[2].timestamp);
    let of_y: Vec<_> = drain(&dtrace, y, 0).iter().map(|r| (r.probe, r.args[0])).collect();
    assert_eq!(of_y, [(b.get(), 7), (b.get(), 8)]);
    assert_eq!(drain(&dtrace, y, 1), []);
    assert_eq!(dtrace.counters(), Counters { hits: 4, ..Counters::default() });
}

#[test]
fn a_full_buffer_drops_the_newest_and_counts() {
    common::Threads::bind(2);
    let provider = TestProvider::default();
    let dtrace = small();
    let (_, a, _) = with_two_probes(&dtrace, &provider);
    let x = dtrace.open().unwrap();
    dtrace.enable(x, &spec("a")).unwrap();
    dtrace.go(x).unwrap();
    let fire = |range: std::ops::Range<u64>| range.for_each(|n| dtrace.probe(a, &[n; 6]));
    let values = || drain(&dtrace, x, 2).iter().map(|r| r.args[5]).collect::<Vec<_>>();

    fire(0..11);
    assert_eq!(values(), (0..8).collect::<Vec<_>>());
    assert_eq!(dtrace.drops(x, 2), Ok(3));
    assert_eq!(dtrace.drops(x, 2), Ok(0));
    fire(11..16);
    assert_eq!(values(), (11..16).collect::<Vec<_>>());
    fire(16..30);
    assert_eq!(values(), (16..24).collect::<Vec<_>>());
    assert_eq!(dtrace.drops(x, 2), Ok(6));
    assert_eq!(dtrace.drops(x, 0), Ok(0));

    // What a consumer leaves behind is not its successor's.
    fire(0..20);
    dtrace.close(x).unwrap();
    let y = dtrace.open().unwrap();
    assert_ne!(x, y);
    assert_eq!(drain(&dtrace, y, 2), []);
    assert_eq!(dtrace.drops(y, 2), Ok(0));
}

#[test]
fn a_provider_cannot_go_while_a_consumer_is_there() {
    let provider = TestProvider::default();
    let dtrace = small();
    let (p, a, b) = with_two_probes(&dtrace, &provider);
    let x = dtrace.open().unwrap();
    // Open is enough, nothing needs to be enabled.
    assert_eq!(dtrace.unregister(p), Err(FrameworkError::Busy));
    dtrace.enable(x, &spec("a")).unwrap();
    assert_eq!(dtrace.unregister(p), Err(FrameworkError::Busy));
    assert_eq!(dtrace.destroy_module(c"m"), Err(FrameworkError::Busy));
    // Refused, and nothing has changed.
    assert_eq!(dtrace.probe_lookup(p, c"m", c"f", c"b"), Some(b));
    assert_eq!(asked(&provider), [Call::Enable(a.get(), 10)]);

    dtrace.close(x).unwrap();
    let syncs = dtrace.host().syncs.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(dtrace.unregister(p), Ok(()));
    assert!(dtrace.host().syncs.load(std::sync::atomic::Ordering::Relaxed) > syncs);
    assert_eq!(
        asked(&provider),
        [Call::Disable(a.get(), 10), Call::Destroy(a.get(), 10), Call::Destroy(b.get(), 20)]
    );
    assert_eq!(dtrace.for_each_probe(&sdt_framework::Spec::ALL, |_| {}), 0);
    assert_eq!(dtrace.unregister(p), Err(FrameworkError::NotFound));
}

#[test]
fn a_module_takes_its_probes_along_whoever_provides_them() {
    let (one, two) = (TestProvider::default(), TestProvider::default());
    let dtrace = small();
    let (_, a, b) = with_two_probes(&dtrace, &one);
    // SAFETY: the provider outlives the framework.
    let q = unsafe { two.register(&*dtrace, c"q") }.unwrap();
    let c = create(&*dtrace, q, [c"m", c"g", c"c"], 30);
    let other = create(&*dtrace, q, [c"mm", c"g", c"c"], 40);
    let x = dtrace.open().unwrap();
    // An enabled probe of another module is no hindrance, nor is an open consumer.
    dtrace.enable(x, &spec("mm::")).unwrap();
    two.calls();
    assert_eq!(dtrace.destroy_module(c"m"), Ok(3));
    assert_eq!(asked(&one), [Call::Destroy(a.get(), 10), Call::Destroy(b.get(), 20)]);
    assert_eq!(asked(&two), [Call::Destroy(c.get(), 30)]);
    assert_eq!(dtrace.destroy_module(c"m"), Ok(0));
    assert_eq!(dtrace.destroy_module(c"mm"), Err(FrameworkError::Busy));
    assert_eq!(dtrace.probe_lookup(q, c"mm", c"g", c"c"), Some(other));
}

#[test]
fn condensing_takes_what_nobody_enabled() {
    let provider = TestProvider::default();
    let dtrace = small();
    let (p, a, b) = with_two_probes(&dtrace, &provider);
    let x = dtrace.open().unwrap();
    dtrace.enable(x, &spec("b")).unwrap();
    asked(&provider);
    assert_eq!(dtrace.condense(p), Ok(1));
    assert_eq!(asked(&provider), [Call::Destroy(a.get(), 10)]);
    assert_eq!(dtrace.probe_lookup(p, c"m", c"f", c"b"), Some(b));
    assert_eq!(dtrace.condense(ProviderId::new(0)), Err(FrameworkError::NotFound));
}

#[test]
fn an_invalidated_provider_can_go_when_its_enablings_have_gone() {
    common::Threads::bind(1);
    let provider = TestProvider::default();
    let dtrace = small();
    let (p, a, b) = with_two_probes(&dtrace, &provider);
    let [x, y] = [(); 2].map(|()| dtrace.open().unwrap());
    dtrace.enable(x, &spec("a")).unwrap();
    dtrace.go(x).unwrap();
    provider.calls();
    dtrace.invalidate(p);

    assert_eq!(dtrace.probe_lookup(p, c"m", c"f", c"b"), None);
    assert_eq!(dtrace.enable(y, &spec("p:::")), Ok(0));
    assert_eq!(dtrace.for_each_probe(&spec("p:::"), |_| {}), 0);
    dtrace.five(a.get(), [1; 5]);
    assert_eq!(drain(&dtrace, x, 1).len(), 1);
    assert_eq!(dtrace.unregister(p), Err(FrameworkError::Again));
    dtrace.close(x).unwrap();
    // y is open still.
    assert_eq!(dtrace.unregister(p), Ok(()));
    // It was not asked for probes any more, and all else was called, as in the kernels.
    assert_eq!(
        provider.calls(),
        [Call::Disable(a.get(), 10), Call::Destroy(a.get(), 10), Call::Destroy(b.get(), 20)]
    );
    dtrace.five(b.get(), [1; 5]);
    assert_eq!(dtrace.counters().unknown, 1);
}

#[test]
fn refusals_to_consumers() {
    let provider = TestProvider::default();
    let dtrace = small();
    let (p, _, _) = with_two_probes(&dtrace, &provider);
    let [x, y, z] = [(); 3].map(|()| dtrace.open().unwrap());
    assert_eq!(dtrace.open(), Err(ConsumerError::TooManyConsumers { max: 3 }));
    dtrace.close(y).unwrap();
    let gone = Err(ConsumerError::NotOpen(y));
    let again = dtrace.open().unwrap();
    assert!(![x, y, z].contains(&again));
    assert_eq!(dtrace.go(y), gone);
    assert_eq!(dtrace.stop(y), gone);
    assert_eq!(dtrace.close(y), gone);
    assert_eq!(dtrace.enable(y, &spec("a")), Err(ConsumerError::NotOpen(y)));
    assert_eq!(dtrace.disable(y, &spec("a")), Err(ConsumerError::NotOpen(y)));
    assert_eq!(dtrace.drain(y, 0, &mut |_| {}), Err(ConsumerError::NotOpen(y)));
    assert_eq!(dtrace.drops(y, 0), Err(ConsumerError::NotOpen(y)));
    assert_eq!(dtrace.drops(x, 4), Err(ConsumerError::NoCpu(4)));
    assert_eq!(dtrace.drain(x, 4, &mut |_| {}), Err(ConsumerError::NoCpu(4)));
    assert_eq!(ConsumerId::new(0), None);

    // 12 ECBs: five enablings of two probes leave two, and three probes find no room.
    create(&*dtrace, p, [c"m", c"g", c"c"], 0);
    for _ in 0..5 {
        assert_eq!(dtrace.enable(x, &spec("m:f:")), Ok(2));
    }
    provider.calls();
    let refused = Err(ConsumerError::TooManyEnablings { needed: 3, left: 2 });
    assert_eq!(dtrace.enable(z, &spec("m::")), refused);
    assert_eq!(asked(&provider), []);
    assert_eq!(dtrace.disable(x, &spec("a")), Ok(1));
    assert_eq!(dtrace.enable(z, &spec("m::")), Ok(3));
}

/// The function that gets the records may call the framework as anybody may.
#[test]
fn who_drains_can_close() {
    common::Threads::bind(0);
    let provider = TestProvider::default();
    let dtrace = small();
    let (_, a, _) = with_two_probes(&dtrace, &provider);
    let x = dtrace.open().unwrap();
    dtrace.enable(x, &spec("a")).unwrap();
    dtrace.go(x).unwrap();
    (0..6).for_each(|n| dtrace.probe(a, &[n; 6]));
    let mut seen = Vec::new();
    let count = dtrace.drain(x, 0, &mut |record| {
        seen.push(record.args[0]);
        match record.args[0] {
            // One that comes meanwhile is for the next call.
            0 => dtrace.probe(a, &[6; 6]),
            1 => assert_eq!(dtrace.drain(x, 0, &mut |_| {}), Ok(5)),
            _ => unreachable!("all have been read"),
        }
    });
    assert_eq!((count, &seen[..]), (Ok(2), &[0, 1][..]));
    (0..4).for_each(|n| dtrace.probe(a, &[n; 6]));
    let count = dtrace.drain(x, 0, &mut |record| {
        assert_eq!(dtrace.drops(x, 0), Ok(0));
        if record.args[0] == 2 {
            dtrace.close(x).unwrap();
        }
    });
    assert_eq!(count, Ok(3));
    assert_eq!(dtrace.drain(x, 0, &mut |_| {}), Err(ConsumerError::NotOpen(x)));
}

#[test]
fn probes_made_later_are_not_enabled() {
    let provider = TestProvider::default();
    let dtrace = small();
    let (p, _, _) = with_two_probes(&dtrace, &provider);
    let x = dtrace.open().unwrap();
    dtrace.enable(x, &spec("p:::")).unwrap();
    asked(&provider);
    let c = create(&*dtrace, p, [c"m", c"f", c"c"], 30);
    assert_eq!(asked(&provider), []);
    assert_eq!(dtrace.enable(x, &spec("c")), Ok(1));
    assert_eq!(asked(&provider), [Call::Enable(c.get(), 30)]);
}

#[test]
fn a_debugger_suspends_what_is_enabled() {
    let provider = TestProvider::default();
    let dtrace = small();
    let (_, a, _) = with_two_probes(&dtrace, &provider);
    let x = dtrace.open().unwrap();
    dtrace.enable(x, &spec("a")).unwrap();
    provider.calls();
    dtrace.suspend();
    assert_eq!(provider.calls(), [Call::Suspend(a.get(), 10)]);
    dtrace.resume();
    assert_eq!(provider.calls(), [Call::Resume(a.get(), 10)]);
}
