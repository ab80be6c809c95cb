//! The order in which providers, probes and consumers can be removed.

mod common;

use common::{
    Call, Five as _, Small, TestProvider, and_zeros, create, drain, small, spec, try_drain,
};
use sdt_core::ops::{FrameworkError, ProbeId, ProviderId};
use sdt_framework::{ConsumerError, ConsumerId, Counters, Record, Spec, Which, records};

/// Returns a provider `p` with the probes `m:f:a` and `m:f:b`. Its calls so far are removed.
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

/// Returns the calls since the last call, except `provide`.
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
    // Both enablings of z are removed at once; y still enables the probe.
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
    let first = (a, 0, and_zeros([1, 2, 3, 4, 5, 6]));
    assert_eq!(brief, [first, first, (b, 0, and_zeros([7; 6]))]);
    assert_eq!(of_x[0].timestamp, of_x[1].timestamp);
    assert!(of_x[1].timestamp < of_x[2].timestamp);
    let of_y: Vec<_> = drain(&dtrace, y, 0).iter().map(|r| (r.probe, r.args[0])).collect();
    assert_eq!(of_y, [(b, 7), (b, 8)]);
    assert_eq!(drain(&dtrace, y, 1), []);
    // One hit before any consumer started; then one for two enablings of x, one for x and y, and one for y.
    let expected = Counters { hits: 4, unclaimed: 1, records: 5, ..Counters::default() };
    assert_eq!(Counters { most_work: 0, ..dtrace.counters() }, expected);
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
    let taken = |cpu| {
        let (firings, drops) = try_drain(&dtrace, x, cpu).unwrap();
        (firings.iter().map(|r| r.args[5]).collect::<Vec<_>>(), drops)
    };

    fire(0..11);
    assert_eq!(taken(2), ((0..8).collect(), 3));
    assert_eq!(taken(2), (vec![], 0));
    fire(11..16);
    assert_eq!(taken(2), ((11..16).collect(), 0));
    fire(16..30);
    assert_eq!(taken(2), ((16..24).collect(), 6));
    assert_eq!(taken(0), (vec![], 0));

    // A consumer does not inherit the data of an earlier one.
    fire(0..20);
    dtrace.close(x).unwrap();
    let y = dtrace.open().unwrap();
    assert_ne!(x, y);
    assert_eq!(try_drain(&dtrace, y, 2), Ok((vec![], 0)));
}

#[test]
fn a_provider_cannot_go_while_a_consumer_is_there() {
    let provider = TestProvider::default();
    let dtrace = small();
    let (p, a, b) = with_two_probes(&dtrace, &provider);
    let x = dtrace.open().unwrap();
    // An open consumer is enough, even if it has enabled nothing.
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
    assert_eq!(dtrace.for_each_probe(&Spec::ALL, |_| {}), Ok(0));
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
    // An enabled probe of another module does not prevent it, nor does an open consumer.
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
    dtrace.invalidate(p).unwrap();

    assert_eq!(dtrace.probe_lookup(p, c"m", c"f", c"b"), None);
    assert_eq!(dtrace.enable(y, &spec("p:::")), Ok(0));
    assert_eq!(dtrace.for_each_probe(&spec("p:::"), |_| {}), Ok(0));
    dtrace.five(a.get(), [1; 5]);
    assert_eq!(drain(&dtrace, x, 1).len(), 1);
    assert_eq!(dtrace.unregister(p), Err(FrameworkError::Again));
    dtrace.close(x).unwrap();
    // y is still open.
    assert_eq!(dtrace.unregister(p), Ok(()));
    // The op `provide` was not called any more; all other ops were called, as in the kernels.
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
    assert_eq!(try_drain(&dtrace, y, 0), Err(ConsumerError::NotOpen(y)));
    assert_eq!(try_drain(&dtrace, x, 4), Err(ConsumerError::NoCpu(4)));
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

#[test]
fn records_are_read_in_pieces_and_described() {
    common::Threads::bind(0);
    let provider = TestProvider::default();
    let dtrace = small();
    let (_, a, b) = with_two_probes(&dtrace, &provider);
    let x = dtrace.open().unwrap();
    dtrace.enable(x, &spec("a")).unwrap();
    let read = |at, into: &mut [u8]| dtrace.snapshot(x, 0, Which::Records, at, into).unwrap();
    assert_eq!(read(0, &mut [0; 90]).size, 0, "it has not started yet");
    dtrace.go(x).unwrap();
    // After it has started, too.
    dtrace.enable(x, &spec("b")).unwrap();
    (0..3).for_each(|n| dtrace.probe(a, &[n; 6]));
    dtrace.probe(b, &[9; 6]);
    let mut bytes = Vec::new();
    for room in [90, 0, 1, 95, 300] {
        let mut into = vec![0; room];
        let found = read(bytes.len(), &mut into);
        // The first request has switched the buffer: it has all of them.
        assert_eq!((found.size, found.drops), (4 * Record::SIZE, 0));
        bytes.extend(&into[..found.read]);
    }
    assert_eq!(bytes.len(), 4 * Record::SIZE);
    assert_eq!(records(&bytes[..Record::SIZE - 1]).count(), 0, "it is not whole");
    let all: Vec<_> = records(&bytes).collect();
    assert_eq!(all.iter().map(|record| record.args[0]).collect::<Vec<_>>(), [0, 1, 2, 9]);
    // The number in the record identifies the enabled probe.
    let record = all[3];
    let eprobe = |consumer| dtrace.eprobe(consumer, record.epid, 0, &mut []);
    let desc = eprobe(x).unwrap().unwrap();
    assert_eq!((desc.epid, desc.probe, desc.size), (record.epid, b.get(), Record::SIZE as u32));
    assert_eq!((desc.records, record.args), (10, and_zeros([9; 6])));
    let y = dtrace.open().unwrap();
    assert_eq!(eprobe(y), Ok(None), "it is another one's");
    dtrace.disable(x, &spec("b")).unwrap();
    assert_eq!(eprobe(x), Ok(None));
    dtrace.enable(x, &spec("b")).unwrap();
    assert_eq!(eprobe(x), Ok(None), "a number comes back late");
}

#[test]
fn probes_made_later_are_enabled_by_what_means_them() {
    let provider = TestProvider::default();
    let dtrace = small();
    let (p, _, _) = with_two_probes(&dtrace, &provider);
    let [x, y] = [(); 2].map(|()| dtrace.open().unwrap());
    assert_eq!(dtrace.enable(x, &spec("p:::")), Ok(2));
    assert_eq!(dtrace.enable(y, &spec("p:::[c-e]")), Ok(0));
    asked(&provider);
    common::Threads::bind(0);
    dtrace.go(x).unwrap();
    dtrace.go(y).unwrap();
    let c = create(&*dtrace, p, [c"m", c"f", c"c"], 30);
    assert_eq!(asked(&provider), [Call::Enable(c.get(), 30)]);
    dtrace.probe(c, &[1; 6]);
    assert_eq!([x, y].map(|id| drain(&dtrace, id, 0).len()), [1, 1]);

    // The description of all probes also ends a retained enabling that has another description.
    assert_eq!(dtrace.disable(y, &Spec::ALL), Ok(1));
    let d = create(&*dtrace, p, [c"m", c"f", c"d"], 40);
    dtrace.probe(d, &[2; 6]);
    assert_eq!([x, y].map(|id| drain(&dtrace, id, 0).len()), [1, 0]);
    // A narrower description removes only the enablings of existing probes.
    assert_eq!(dtrace.disable(x, &spec("d")), Ok(1));
    asked(&provider);
    let e = create(&*dtrace, p, [c"m", c"f", c"e"], 50);
    assert_eq!(asked(&provider), [Call::Enable(e.get(), 50)]);
    assert_eq!(dtrace.disable(x, &spec("p:::")), Ok(4));
    asked(&provider);
    create(&*dtrace, p, [c"m", c"f", c"g"], 60);
    assert_eq!(asked(&provider), []);

    // Probes of an invalidated provider are not enabled.
    assert_eq!(dtrace.enable(x, &spec("p:::")), Ok(6));
    dtrace.invalidate(p).unwrap();
    asked(&provider);
    create(&*dtrace, p, [c"m", c"f", c"h"], 70);
    assert_eq!(asked(&provider), []);
    assert_eq!(dtrace.counters().missed, 0);
}

#[test]
fn a_probe_that_finds_no_ecb_is_counted() {
    let provider = TestProvider::default();
    let dtrace = small();
    let (p, _, _) = with_two_probes(&dtrace, &provider);
    let x = dtrace.open().unwrap();
    // 12 ECBs: three of four enablings find one left for the third probe, and none for the fourth.
    (0..3).for_each(|_| assert_eq!(dtrace.enable(x, &spec("p:::")), Ok(2)));
    assert_eq!(dtrace.enable(x, &spec("p:::")), Ok(2));
    create(&*dtrace, p, [c"m", c"f", c"c"], 30);
    assert_eq!(dtrace.counters().missed, 0);
    create(&*dtrace, p, [c"m", c"f", c"d"], 40);
    assert_eq!(dtrace.counters().missed, 4);
    assert_eq!(dtrace.close(x), Ok(()));
    let y = dtrace.open().unwrap();
    assert_eq!(dtrace.enable(y, &spec("p:::")), Ok(4));
    // A refused enabling is not retained either.
    assert_eq!(dtrace.enable(y, &spec("p:::")), Ok(4));
    assert_eq!(dtrace.enable(y, &spec("p:::")), Ok(4));
    assert!(dtrace.enable(y, &spec("p:::")).is_err());
    assert_eq!(dtrace.disable(y, &spec("d")), Ok(1));
    create(&*dtrace, p, [c"m", c"f", c"e"], 50);
    assert_eq!(dtrace.counters().missed, 4);
    assert_eq!(dtrace.disable(y, &spec("e")), Ok(1));
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
