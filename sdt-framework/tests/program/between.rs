//! Runs the operation of one thread between two steps of the operation of another: at each place, in turn, where the
//! other takes its first lock.

use std::cell::{Cell, RefCell};
use std::ffi::CStr;

use recording_host::cpus::Threads;
use sdt_core::ops::{Framework as _, FrameworkError, Privileges, ProviderAttr, ProviderOps};
use sdt_framework::kernel::Kernel as Knows;
use sdt_framework::{
    Config, ConsumerError, ConsumerId, Dtrace, Host, RawMutex, Rights, SpinLock, Which,
};

use crate::common::{create, memory, spec};
use crate::run::{Kernel, compile};

/// The operation in between, and the number of locks taken before it.
type Other = (usize, Box<dyn FnOnce()>);

thread_local! {
    /// The number of locks that this thread holds.
    static LOCKED: Cell<usize> = const { Cell::new(0) };
    static OTHER: RefCell<Option<Other>> = const { RefCell::new(None) };
}

/// A lock that lets another operation run before it is taken.
pub struct Lock(SpinLock<Machine>);

impl Lock {
    fn let_other_in() {
        if LOCKED.get() != 0 {
            return;
        }
        let due = OTHER.with_borrow_mut(|other| match other {
            Some((0, _)) => other.take(),
            Some((left, _)) => {
                *left -= 1;
                None
            }
            None => None,
        });
        if let Some((_, other)) = due {
            other();
        }
    }
}

// SAFETY: each function calls the same function of a [`SpinLock`].
unsafe impl RawMutex for Lock {
    const INIT: Self = Self(RawMutex::INIT);

    type GuardMarker = <SpinLock<Machine> as RawMutex>::GuardMarker;

    fn lock(&self) {
        Self::let_other_in();
        RawMutex::lock(&self.0);
        LOCKED.set(LOCKED.get() + 1);
    }

    fn try_lock(&self) -> bool {
        let is_locked = RawMutex::try_lock(&self.0);
        LOCKED.set(LOCKED.get() + usize::from(is_locked));
        is_locked
    }

    unsafe fn unlock(&self) {
        LOCKED.set(LOCKED.get() - 1);
        // SAFETY: the caller's contract.
        unsafe { RawMutex::unlock(&self.0) };
    }
}

/// [`Threads`] with such locks.
#[derive(Debug, Default)]
pub struct Machine(Threads);

// SAFETY: each function calls the same function of `Threads`, which fulfils the contract.
unsafe impl Host for Machine {
    type Lock = Lock;

    fn cpu(&self) -> usize {
        self.0.cpu()
    }

    fn cpus(&self) -> usize {
        self.0.cpus()
    }

    fn timestamp(&self) -> u64 {
        Host::timestamp(&self.0)
    }

    fn without_interrupts<R>(&self, f: impl FnOnce() -> R) -> R {
        self.0.without_interrupts(f)
    }

    fn sync(&self) {
        self.0.sync();
    }

    fn kernel(&self) -> &(dyn Knows + Sync) {
        self.0.kernel()
    }
}

type World = &'static Kernel<Machine>;

fn world(config: &Config) -> World {
    Box::leak(Box::new(Kernel::configured(Machine::default(), 1 << 20, config)))
}

/// Runs `other` between two steps of `one`, at each possible place in turn, each time in a new world. `check` gets the results of
/// both. Returns the number of places.
fn at_each_place<O, R>(
    config: &Config,
    one: impl Fn(World, ConsumerId) -> O,
    other: impl Fn(World, ConsumerId) -> R + Copy + 'static,
    check: impl Fn(World, ConsumerId, O, R),
) -> usize
where
    R: 'static,
{
    for place in 0.. {
        let world = world(config);
        let consumer = world.dtrace.open().unwrap();
        let done: &'static RefCell<Option<R>> = Box::leak(Box::default());
        let come = move || done.replace(Some(other(world, consumer)));
        OTHER.set(Some((place, Box::new(move || drop(come())))));
        let of_one = one(world, consumer);
        if OTHER.take().is_some() {
            return place;
        }
        check(world, consumer, of_one, done.take().expect("it has come"));
    }
    unreachable!("it ends");
}

const CONFIG: Config = Config { providers: 3, probes: 7, ecbs: 4, consumers: 3, buffer: 4096 };

/// A thread that cannot enable everything removes its own enablings, and no enabling of another thread for the same
/// consumer.
#[test]
fn what_another_thread_has_enabled_stays() {
    let too_many = |failed: Result<u32, ConsumerError>| {
        matches!(failed, Err(ConsumerError::TooManyEnablings { .. }))
    };
    let other = |world: World, x| world.dtrace.enable(x, &spec("proc:::b"));
    let check = |world: World, x, failed, enabled| {
        assert!(too_many(failed), "{failed:?}");
        // The other enabling exists, unless it has failed itself.
        let left = world.dtrace.disable(x, &spec("proc:::"));
        assert_eq!(left, Ok(u32::from(enabled == Ok(1))), "{enabled:?}");
    };
    // One of the two enablings fails, because there is no room for both.
    let at_once = |world: World, x| world.dtrace.enable(x, &spec("proc:::"));
    let places = at_each_place(&CONFIG, at_once, other, |world, x, result, enabled| match result {
        // This enabling has succeeded, so the other one has found no room.
        Ok(4) => assert!(too_many(enabled)),
        failed => check(world, x, failed, enabled),
    });
    assert!(places > 3, "{places}");
    let by_clauses = |world: World, x| {
        world.dtrace.enable_program(x, &compile("proc:::a { trace(1); } proc::: { trace(2); }"))
    };
    let places = at_each_place(&CONFIG, by_clauses, other, check);
    assert!(places > 6, "{places}");
}

/// If a probe is destroyed during a search, the search does not return the probe that gets its number.
#[test]
#[cfg(feature = "server")]
fn what_is_found_is_what_was_meant() {
    use sdt_framework::server::Tracer;

    let other = |world: World, _| {
        assert_eq!(world.dtrace.destroy_module(c"m"), Ok(4));
        let (inert, none) = (&ProviderOps::INERT, std::ptr::null_mut());
        // SAFETY: the ops do nothing.
        let secret = unsafe {
            world.dtrace.register(c"x", &ProviderAttr::SDT, Privileges::KERNEL, inert, none)
        };
        [c"1", c"2", c"3", c"4"].iter().for_each(|name| {
            let id = create(&*world.dtrace, secret.unwrap(), [c"secret", c"", name], 0);
            assert!(world.probes.contains(&id), "their numbers");
        });
    };
    let find = |world: World, _| {
        Tracer::next_probe(&*world.dtrace, &spec("proc:::"), 0, Rights::ALL)
            .map(|found| found.to_string())
    };
    let mut seen = Vec::new();
    let seen = {
        let seen = RefCell::new(&mut seen);
        at_each_place(&CONFIG, find, other, |_, _, found, ()| seen.borrow_mut().push(found));
        seen.into_inner()
    };
    assert!(seen.iter().flatten().all(|found| found == "proc:m:f:a"), "{seen:?}");
    assert!(seen.contains(&None));
}

/// If two threads each enable an anonymous program, one succeeds.
#[test]
fn one_is_enabled_for_who_comes() {
    let enable = |world: World, _: ConsumerId| {
        world.dtrace.enable_anonymously(&compile("proc:::a { trace(1); }"))
    };
    let places = at_each_place(&CONFIG, enable, enable, |world, x, one, other| {
        let mut results = [one, other];
        results.sort_by_key(Result::is_err);
        assert!(matches!(results, [Ok(1), Err(ConsumerError::Started(_))]), "{results:?}");
        world.dtrace.close_anonymous().unwrap();
        assert_eq!(world.dtrace.claim(Rights::ALL), None);
        world.dtrace.close(x).unwrap();
        assert_nobody_is_there(world, &CONFIG);
    });
    assert!(places > 5, "{places}");
}

/// If two threads each register the framework's own providers, one succeeds.
#[test]
fn one_registers_the_frameworks_own() {
    let config = Config { providers: 4, probes: 8, ..CONFIG };
    let register = |world: World, _: ConsumerId| world.dtrace.register_profile(1);
    let mut places = at_each_place(&config, register, register, |world, x, one, other| {
        assert_one_is_refused([one, other]);
        assert_eq!(world.dtrace.enable(x, &spec("profile:::tick-1s")), Ok(1));
        world.dtrace.close(x).unwrap();
        let fresh = self::world(&config);
        fresh.dtrace.register_profile(1).unwrap();
        assert_eq!(world.dtrace.memory_left().unwrap(), fresh.dtrace.memory_left().unwrap());
    });
    assert!(places > 2, "{places}");

    for place in 0.. {
        let dtrace: &'static Dtrace<Machine> = Box::leak(Box::new(Dtrace::new(Machine::default())));
        dtrace.init(memory(1 << 20), &config).unwrap();
        let other: &'static RefCell<_> = Box::leak(Box::default());
        let come = || {
            other.replace(Some(dtrace.register_own()));
        };
        OTHER.set(Some((place, Box::new(come))));
        let one = dtrace.register_own();
        if OTHER.take().is_some() {
            places = place;
            break;
        }
        assert_one_is_refused([one, other.take().expect("it has come")]);
        assert_eq!(dtrace.for_each_probe(&spec(":::"), |_| ()), Ok(3));
    }
    assert!(places > 2, "{places}");
}

fn assert_one_is_refused(mut results: [Result<(), FrameworkError>; 2]) {
    results.sort_by_key(Result::is_err);
    assert_eq!(results, [Ok(()), Err(FrameworkError::Busy)]);
}

/// Asserts that all memory is free, and that no probe is enabled.
fn assert_nobody_is_there(world: World, config: &Config) {
    let fresh = self::world(config);
    assert_eq!(world.dtrace.memory_left().unwrap(), fresh.dtrace.memory_left().unwrap());
    assert_eq!(world.dtrace.condense(world.provider), Ok(4));
    assert_eq!(world.dtrace.unregister(world.provider), Ok(()));
}

/// Ignores a result that depends on the other thread.
fn ignore<T>(_: Result<T, impl std::fmt::Debug>) {}

/// After any two threads have worked for one consumer, nothing of the consumer is left.
#[test]
fn nothing_is_left_whatever_two_threads_do() {
    type Act = fn(World, ConsumerId);
    let config = Config { ecbs: 16, ..CONFIG };
    let one = |world: World, x: ConsumerId| {
        let dtrace = &world.dtrace;
        ignore(dtrace.enable(x, &spec("proc:::c")));
        ignore(dtrace.enable_program(x, &compile("proc:::a { @ = count(); trace(arg0); }")));
        ignore(dtrace.enable_program(x, &compile("proc:::b { x[arg0]++; trace(x[arg0]); }")));
        ignore(dtrace.go(x));
        world.hit(0, 1);
        world.hit(1, 1);
        ignore(dtrace.status(x));
        ignore(dtrace.snapshot(x, 0, Which::Records, 0, &mut [0; 64]));
        ignore(dtrace.snapshot(x, 0, Which::Aggregations, 0, &mut [0; 64]));
        ignore(dtrace.disable(x, &spec("proc:::a")));
        ignore(dtrace.stop(x));
        ignore(dtrace.close(x));
    };
    let others: &[Act] = &[
        |world, x| ignore(world.dtrace.close(x)),
        |world, x| ignore(world.dtrace.go(x)),
        |world, x| ignore(world.dtrace.stop(x)),
        |world, x| ignore(world.dtrace.disable(x, &spec("proc:::"))),
        |world, x| ignore(world.dtrace.enable(x, &spec(":::"))),
        |world, x| ignore(world.dtrace.enable_program(x, &compile("proc::: { trace(arg1); }"))),
        |world, x| {
            ignore(
                world.dtrace.enable_program(x, &compile("proc:::a { exit(0); } ::: { trace(1); }")),
            );
        },
        |world, x| ignore(world.dtrace.program_piece(x, 100, 0, &[0; 10])),
        |world, x| {
            ignore(world.dtrace.close(x));
            // Opens another consumer, which uses the same entry.
            let y = world.dtrace.open().unwrap();
            assert_eq!(world.dtrace.enable(y, &spec("proc:::d")), Ok(1));
            world.dtrace.go(y).unwrap();
            world.hit(3, 7);
            assert_eq!(crate::common::drain(&world.dtrace, y, 0).len(), 1);
            world.dtrace.close(y).unwrap();
        },
        |world, _| {
            // Probes that no consumer has enabled, again.
            ignore(world.dtrace.condense(world.provider));
            for name in [c"a", c"b", c"c", c"d"] {
                if world.dtrace.probe_lookup(world.provider, c"m", c"f", name).is_none() {
                    create(&*world.dtrace, world.provider, [c"m", c"f", name], 0);
                }
            }
        },
    ];
    for other in others {
        let places = at_each_place(&config, one, *other, |world, x, (), ()| {
            ignore(world.dtrace.close(x));
            world.hit(0, 0);
            assert_nobody_is_there(world, &config);
        });
        assert!(places > 20, "{places}");
    }
}

/// Providers that are made at run time: the probes that one thread has added exist until it removes them, whatever
/// another thread does. The other thread may have to retry.
#[test]
fn what_is_added_is_there_and_what_is_removed_is_not() {
    use sdt_core::runtime::{AddError, OpenError, Probe, Provider, RemoveError, Slot};

    type Act = fn(World, &'static Provider);
    fn open(world: World, script: &'static Provider) -> Result<(), OpenError> {
        let privileges = Privileges::USER;
        // SAFETY: the program of the tests is never unloaded.
        unsafe { script.open_with(&*world.dtrace, c"m", c"script", &ProviderAttr::SDT, privileges) }
    }
    fn again<T, E>(mut what: impl FnMut() -> Result<T, E>, is_busy: impl Fn(&E) -> bool) -> T
    where
        E: std::fmt::Debug,
    {
        // The test has one thread, so the other operation has ended at the second attempt.
        match what() {
            Err(error) if is_busy(&error) => what().unwrap(),
            done => done.unwrap(),
        }
    }
    fn add(script: &'static Provider, name: &CStr) -> Probe {
        again(|| script.add(c"", name, &[]), |error| *error == AddError::InProgress)
    }
    fn remove(probe: &Probe) {
        again(
            || probe.remove(),
            |error| matches!(error, RemoveError::InProgress | RemoveError::Enabled),
        );
    }
    fn script() -> &'static Provider {
        let slots: &[Slot] = Box::leak(Box::new([const { Slot::new() }; 3]));
        Box::leak(Box::new(Provider::new(slots)))
    }
    fn one(world: World, script: &'static Provider) -> &'static [&'static CStr] {
        open(world, script).unwrap();
        let a = add(script, c"a");
        let b = add(script, c"b");
        remove(&a);
        drop(a);
        let a = add(script, c"a");
        remove(&b);
        match script.close() {
            Ok(()) => {
                drop((a, b));
                open(world, script).unwrap();
                add(script, c"c");
                &[c"c"]
            }
            // A consumer is open, so `close` fails.
            Err(_) => &[c"a"],
        }
    }
    let others: &[Act] = &[
        |world, _| {
            world.dtrace.for_each_probe(&spec("script:::"), |_| ()).unwrap();
        },
        |world, _| {
            let y = world.dtrace.open().unwrap();
            ignore(world.dtrace.enable(y, &spec("script:::")));
            ignore(world.dtrace.go(y));
            world.dtrace.close(y).unwrap();
        },
        |world, _| {
            let y = world.dtrace.open().unwrap();
            ignore(world.dtrace.enable(y, &spec("script:::late")));
        },
        |world, _| ignore(world.dtrace.destroy_module(c"m")),
        |_, script| {
            // It was added and removed.
            if let Ok(late) = script.add(c"", c"late", &[]) {
                while late.remove() == Err(RemoveError::InProgress) {}
            }
        },
        |_, script| ignore(script.find(c"", c"a")),
    ];
    for other in others {
        let other = *other;
        for place in 0.. {
            let config = Config { probes: 16, ecbs: 16, ..CONFIG };
            let (world, script) = (world(&config), script());
            OTHER.set(Some((place, Box::new(move || other(world, script)))));
            let there = one(world, script);
            if OTHER.take().is_some() {
                assert!(place > 8, "{place}");
                break;
            }
            let mut names = Vec::new();
            world
                .dtrace
                .for_each_probe(&spec("script:::"), |of| names.push(of.name().to_owned()))
                .unwrap();
            names.sort();
            assert_eq!(names, there.iter().map(|of| (*of).to_owned()).collect::<Vec<_>>());
        }
    }
}
