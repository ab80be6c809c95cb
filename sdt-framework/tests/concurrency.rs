//! CPUs fire while consumers drain and others enable, disable, create and destroy.

mod common;

use std::collections::HashSet;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;

use common::{Firing, Five as _, TestProvider, Threads, create, drain, spec, try_drain};
use recording_host::Done;
use recording_host::cpus::CPUS;
use sdt_core::ops::{Framework, FrameworkError, Privileges, ProbeId, ProviderAttr, ProviderOps};
use sdt_framework::{Config, Dtrace};

type Busy = Dtrace<Threads>;

/// Buffers small enough to overflow.
fn busy() -> Box<Busy> {
    let buffer = 32 * sdt_framework::Record::SIZE;
    let config = Config { providers: 4, probes: 16, ecbs: 16, consumers: 4, buffer };
    common::with_memory(Threads::new(), &config)
}

/// The number of times that each CPU fires.
const HITS: u64 = 200_000;

/// All CPUs hit two probes in turn. One consumer records the first probe all the time, and reads slowly. Another consumer enables
/// and disables the second probe all the time, so that ECBs move from chain to chain while CPUs walk the chains.
#[test]
fn every_hit_is_drained_or_counted_as_dropped() {
    let provider = TestProvider::default();
    let dtrace: Box<Busy> = busy();
    // SAFETY: the provider outlives the framework.
    let p = unsafe { provider.register(&*dtrace, c"p") }.unwrap();
    let steady = create(&*dtrace, p, [c"m", c"f", c"steady"], 0);
    let flicker = create(&*dtrace, p, [c"m", c"f", c"flicker"], 0);
    let (x, y) = (dtrace.open().unwrap(), dtrace.open().unwrap());
    dtrace.enable(x, &spec("steady")).unwrap();
    dtrace.go(x).unwrap();
    dtrace.go(y).unwrap();

    let firing = AtomicU32::new(CPUS as u32);
    let dtrace = &*dtrace;
    let is_firing = || firing.load(Ordering::Acquire) > 0;
    let take = |records: &mut Vec<Firing>, drops: &mut u64, consumer, cpu| {
        let (new, dropped) = try_drain(dtrace, consumer, cpu).unwrap();
        records.extend(new);
        *drops += dropped;
    };
    let (of_x, toggles, of_y) = thread::scope(|scope| {
        for cpu in 0..CPUS {
            let firing = &firing;
            scope.spawn(move || {
                struct Ended<'a>(&'a AtomicU32);
                impl Drop for Ended<'_> {
                    fn drop(&mut self) {
                        self.0.fetch_sub(1, Ordering::Release);
                    }
                }
                let _ended = Ended(firing);
                Threads::bind(cpu);
                for n in 1..=HITS {
                    dtrace.probe(steady, &[n, cpu as u64, !n, 0, 0, 0]);
                    dtrace.probe(flicker, &[n, cpu as u64, !n, 0, 0, 0]);
                }
            });
        }
        let drainer = scope.spawn(move || {
            let mut records = [const { Vec::new() }; CPUS];
            let mut drops = [0; CPUS];
            while is_firing() {
                for cpu in 0..CPUS {
                    take(&mut records[cpu], &mut drops[cpu], x, cpu);
                }
                thread::yield_now();
            }
            for cpu in 0..CPUS {
                take(&mut records[cpu], &mut drops[cpu], x, cpu);
            }
            (records, drops)
        });
        let toggler = scope.spawn(move || {
            let (mut toggles, mut records, mut drops) = (0u64, Vec::new(), 0);
            while is_firing() {
                assert_eq!(dtrace.enable(y, &spec("flicker")), Ok(1));
                // Also adds an ECB to the chain of the steady probe, so that the pool reuses ECBs for other chains.
                assert_eq!(dtrace.enable(y, &spec("steady")), Ok(1));
                assert_eq!(dtrace.disable(y, &spec("steady")), Ok(1));
                for cpu in 0..CPUS {
                    take(&mut records, &mut drops, y, cpu);
                }
                thread::yield_now();
                assert_eq!(dtrace.disable(y, &spec("flicker")), Ok(1));
                // No CPU records for `y` any more, so this reads all its records.
                for cpu in 0..CPUS {
                    take(&mut records, &mut drops, y, cpu);
                }
                thread::yield_now();
                for cpu in 0..CPUS {
                    let late = drain(dtrace, y, cpu);
                    assert_eq!(late, [], "recorded after disable had returned");
                }
                toggles += 1;
            }
            (toggles, (records, drops))
        });
        let of_x = drainer.join().unwrap();
        let (toggles, of_y) = toggler.join().unwrap();
        (of_x, toggles, of_y)
    });

    let ((records, drops), (of_y, drops_of_y)) = (of_x, of_y);
    for cpu in 0..CPUS {
        let records = &records[cpu];
        assert_eq!(records.len() as u64 + drops[cpu], HITS, "CPU {cpu}");
        assert!(records.windows(2).all(|pair| pair[0].args[0] < pair[1].args[0]));
        assert!(records.windows(2).all(|pair| pair[0].timestamp < pair[1].timestamp));
        for record in records {
            assert_eq!(record.probe, steady, "a record of another chain");
            assert_eq!((record.cpu as usize, record.args[1]), (cpu, cpu as u64));
            assert_eq!(record.args[2], !record.args[0], "a torn record");
        }
    }
    assert!(toggles > 0);
    assert!(drops.iter().sum::<u64>() > 0, "no buffer was ever full: the test shows too little");
    let mut seen = HashSet::new();
    for record in &of_y {
        // The consumer has enabled the two probes alternately, the flickering one first. Most of these enablings do not exist any
        // more.
        let probe = if record.epid % 2 == 1 { flicker } else { steady };
        assert!([probe.get(), u32::MAX].contains(&record.probe.get()));
        assert_eq!(record.args[2], !record.args[0], "a torn record");
        assert!(seen.insert((record.epid % 2, record.cpu, record.args[0])), "recorded twice");
    }
    let counters = dtrace.counters();
    assert_eq!((counters.hits, counters.unknown), (2 * HITS * CPUS as u64, 0));
    let of_x: usize = records.iter().map(Vec::len).sum();
    assert_eq!(counters.records, (of_x + of_y.len()) as u64);
    assert_eq!(counters.drops, drops.iter().sum::<u64>() + drops_of_y);
    // The provider saw enablings and disablings of the flickering probe in turn.
    use common::Call::{Disable, Enable};
    let calls: Vec<bool> = provider
        .calls()
        .iter()
        .filter_map(|call| match call {
            Enable(id, _) if *id == flicker.get() => Some(true),
            Disable(id, _) if *id == flicker.get() => Some(false),
            _ => None,
        })
        .collect();
    assert_eq!(calls, (0..2 * toggles).map(|n| n % 2 == 0).collect::<Vec<_>>());
}

/// A probe is enabled and disabled while all CPUs hit it. Every hit that is neither recorded nor dropped is counted as unclaimed.
#[test]
fn counts_add_up_to_the_last_hit() {
    let provider = TestProvider::default();
    let dtrace: Box<Busy> = busy();
    // SAFETY: the provider outlives the framework.
    let p = unsafe { provider.register(&*dtrace, c"p") }.unwrap();
    let probe = create(&*dtrace, p, [c"m", c"f", c"n"], 0);
    let dtrace = &*dtrace;
    let read = thread::scope(|scope| {
        let firing: Vec<_> = (0..CPUS)
            .map(|cpu| {
                scope.spawn(move || {
                    Threads::bind(cpu);
                    (0..HITS).for_each(|n| dtrace.probe(probe, &[n; 6]));
                })
            })
            .collect();
        let (mut records, mut drops) = (0, 0);
        // One more round after the last hit.
        let mut last = false;
        while !last {
            last = firing.iter().all(|thread| thread.is_finished());
            let x = dtrace.open().unwrap();
            dtrace.go(x).unwrap();
            assert_eq!(dtrace.enable(x, &spec("n")), Ok(1));
            if last {
                Threads::bind(0);
                (0..HITS).for_each(|n| dtrace.probe(probe, &[n; 6]));
            }
            thread::yield_now();
            assert_eq!(dtrace.disable(x, &spec("n")), Ok(1));
            for cpu in 0..CPUS {
                let (taken, dropped) = try_drain(dtrace, x, cpu).unwrap();
                records += taken.len() as u64;
                drops += dropped;
            }
            dtrace.close(x).unwrap();
        }
        dtrace.probe(probe, &[0; 6]);
        (records, drops)
    });
    let counters = dtrace.counters();
    assert_eq!((counters.records, counters.drops), read);
    assert_eq!(counters.hits, counters.records + counters.drops + counters.unclaimed);
    assert!(counters.records > 0 && counters.drops > 0 && counters.unclaimed > 0, "{counters:?}");
}

/// A provider in memory that is overwritten once it has been unregistered.
struct Mortal {
    alive: AtomicBool,
}

unsafe extern "C" fn argval(
    arg: *mut c_void,
    _id: u32,
    parg: *mut c_void,
    _argno: c_int,
    _aframes: c_int,
) -> u64 {
    // SAFETY: the memory of the provider is not freed in the test; `alive` shows whether a provider could be freed now.
    let mortal = unsafe { &*arg.cast::<Mortal>() };
    assert!(mortal.alive.load(Ordering::Relaxed), "an op was called after unregistration");
    parg.addr() as u64
}

const MORTAL: ProviderOps = ProviderOps { getargval: Some(argval), ..ProviderOps::INERT };

/// CPUs hit an id continuously while its probe is created, enabled, disabled and destroyed, consumers open and close,
/// and the provider registers and unregisters.
#[test]
fn a_provider_that_is_gone_is_never_called() {
    let dtrace: Box<Busy> = busy();
    let done = AtomicBool::new(false);
    let fired = AtomicU64::new(0);
    let dtrace = &*dtrace;
    let total: u64 = thread::scope(|scope| {
        let firing: Vec<_> = (0..CPUS)
            .map(|cpu| {
                let (done, fired) = (&done, &fired);
                scope.spawn(move || {
                    Threads::bind(cpu);
                    let mut count = 0;
                    while !done.load(Ordering::Acquire) {
                        // The probe has one of these 16 ids.
                        for id in 1..=16 {
                            dtrace.five(id, [id.into(); 5]);
                        }
                        count += 16;
                        fired.fetch_add(16, Ordering::Relaxed);
                        // Otherwise the thread that creates and destroys waits for a turn most of the time.
                        if count % 1024 == 0 {
                            thread::yield_now();
                        }
                    }
                    count
                })
            })
            .collect();
        let done = Done(&done);
        let mut recorded = 0;
        for round in 0.. {
            assert!(!firing.iter().any(|thread| thread.is_finished()), "a CPU has failed");
            let mortal = Mortal { alive: AtomicBool::new(true) };
            let arg = std::ptr::from_ref(&mortal).cast_mut().cast();
            // SAFETY: the provider exists until it is unregistered.
            let p = unsafe {
                dtrace.register(c"p", &ProviderAttr::SDT, Privileges::USER, &MORTAL, arg).unwrap()
            };
            let id = create(dtrace, p, [c"m", c"f", c"n"], round);
            let consumer = dtrace.open().unwrap();
            dtrace.go(consumer).unwrap();
            assert_eq!(dtrace.enable(consumer, &spec("p:::")), Ok(1));
            assert_eq!(dtrace.enable(consumer, &spec("p:::")), Ok(1));
            assert_eq!(dtrace.unregister(p), Err(FrameworkError::Busy));
            thread::yield_now();
            for cpu in 0..CPUS {
                for record in drain(dtrace, consumer, cpu) {
                    assert_eq!(record.probe, id);
                    let n = u64::from(record.probe.get());
                    let asked = round as u64;
                    assert_eq!(record.args, [n, n, n, n, n, asked, asked, asked, asked, asked]);
                    recorded += 1;
                }
            }
            dtrace.close(consumer).unwrap();
            assert_eq!(dtrace.unregister(p), Ok(()));
            mortal.alive.store(false, Ordering::Relaxed);
            if round >= 200 && recorded > 100 {
                break;
            }
        }
        drop(done);
        firing.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    let counters = dtrace.counters();
    assert_eq!(counters.hits + counters.unknown, total);
    assert!(counters.hits > 0 && counters.unknown > 0);
    assert_eq!((counters.reentered, counters.stray), (0, 0));
}

/// Several threads open, use and close consumers at the same time, for the same probe.
#[test]
fn consumers_come_and_go_at_once() {
    let provider = TestProvider::default();
    let dtrace: Box<Busy> = busy();
    // SAFETY: the provider outlives the framework.
    let p = unsafe { provider.register(&*dtrace, c"p") }.unwrap();
    let probe: ProbeId = create(&*dtrace, p, [c"m", c"f", c"n"], 0);
    let done = AtomicBool::new(false);
    let dtrace = &*dtrace;
    thread::scope(|scope| {
        scope.spawn(|| {
            // Ends the other threads if this thread fails.
            let _done = Done(&done);
            Threads::bind(0);
            let mut n = 0;
            while !done.load(Ordering::Acquire) {
                n += 1;
                dtrace.probe(probe, &[n; 6]);
            }
        });
        let _done = Done(&done);
        let consumers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..100 {
                        let id = dtrace.open().unwrap();
                        assert_eq!(dtrace.enable(id, &spec("n")), Ok(1));
                        dtrace.go(id).unwrap();
                        let mut last = 0;
                        while last == 0 {
                            for record in drain(dtrace, id, 0) {
                                assert!(record.args[0] > last, "a record of an earlier consumer");
                                last = record.args[0];
                            }
                            assert!(!done.load(Ordering::Acquire), "no thread fires any more");
                            thread::yield_now();
                        }
                        dtrace.close(id).unwrap();
                        assert!(try_drain(dtrace, id, 0).is_err());
                    }
                })
            })
            .collect();
        for consumer in consumers {
            consumer.join().unwrap();
        }
    });
    // The probe was enabled and disabled in turn, although the consumers overlapped.
    use common::Call::{Disable, Enable};
    let calls = provider.calls();
    let turns: Vec<_> =
        calls.iter().filter(|call| matches!(call, Enable(..) | Disable(..))).collect();
    assert!(turns.len() >= 2 && turns.len() % 2 == 0);
    for pair in turns.chunks(2) {
        assert!(matches!(pair, [Enable(..), Disable(..)]), "{pair:?}");
    }
    assert_eq!(dtrace.unregister(p), Ok(()));
}
