//! The memory that a host provides: its size, the errors if it is too small, and that it is freed.

mod common;

use common::{SMALL, Small, TestProvider, Threads, create, memory, small, spec};
use dtrace_abi::option::{BufResize, OptionId};
use proptest::prelude::*;
use recording_host::cpus::CPUS;
use sdt_core::ops::{Framework as _, FrameworkError, Privileges, ProviderAttr};
use sdt_framework::{
    Config, ConsumerError, ConsumerId, Counters, Dtrace, InitError, Memory, Record,
};

const TABLES: usize = SMALL.tables::<Threads>(CPUS);

#[test]
fn without_memory_nothing_works_and_says_why() {
    let dtrace: Dtrace<Threads> = Dtrace::new(Threads::new());
    assert_eq!(dtrace.open(), Err(ConsumerError::NotReady));
    let provider = TestProvider::default();
    // SAFETY: the provider outlives the framework.
    let refused = unsafe { provider.register(&dtrace, c"p") };
    assert_eq!(refused, Err(FrameworkError::NotReady));
    assert_eq!(refused.unwrap_err().to_string(), "the framework has no memory yet (ENXIO)");
    assert_eq!(dtrace.for_each_probe(&spec(""), |_| {}), Ok(0));
    let id = sdt_core::ops::ProbeId::new(1).unwrap();
    assert!(dtrace.describe(id).is_none());
    Threads::bind(0);
    dtrace.probe(id, &[0; 6]);
    dtrace.suspend();
    assert_eq!(dtrace.counters(), Counters { stray: 1, ..Counters::default() });
}

#[test]
fn memory_of_any_size_is_taken_or_refused() {
    for bytes in 0..TABLES {
        // Testing every size would take too long.
        if bytes % 97 == 0 || bytes + 5 > TABLES {
            let dtrace: Dtrace<Threads> = Dtrace::new(Threads::new());
            let refused = Err(InitError::TooSmall { needed: TABLES, given: bytes });
            assert_eq!(dtrace.init(memory(bytes), &SMALL), refused);
            // A second attempt can succeed.
            assert_eq!(dtrace.init(memory(TABLES), &SMALL), Ok(()));
        }
    }
    let odd = |skip| &mut memory(TABLES + 64)[skip..skip + TABLES];
    for skip in 0..16 {
        let dtrace: Dtrace<Threads> = Dtrace::new(Threads::new());
        assert_eq!(dtrace.init(odd(skip), &SMALL), Ok(()), "{skip}");
        assert_eq!(dtrace.init(memory(TABLES), &SMALL), Err(InitError::Ready));
        let refused = dtrace.open().and_then(|x| dtrace.enable(x, &spec("n")));
        assert!(matches!(refused, Err(ConsumerError::NoMemory { .. })));
    }
    let dtrace: Dtrace<Threads> = Dtrace::new(Threads::new());
    let none = Config { ecbs: 0, ..SMALL };
    let refused = dtrace.init(memory(TABLES), &none).unwrap_err();
    assert_eq!(refused, InitError::BadCount { field: "ecbs", count: 0 });
    assert!(refused.to_string().contains("ecbs of the configuration is 0"), "{refused}");
    let huge = Config { probes: usize::MAX / 8, ..SMALL };
    assert!(matches!(dtrace.init(memory(64), &huge), Err(InitError::BadCount { .. })));
    let large = Config { probes: (1 << 31) - 1, ..SMALL };
    assert!(matches!(dtrace.init(memory(64), &large), Err(InitError::TooSmall { .. })));
}

/// The values in the documentation of `Config`.
#[test]
#[cfg(target_pointer_width = "64")]
fn sizes_are_as_documented() {
    let of = |config: Config, cpus| config.tables::<Threads>(cpus);
    let one = of(SMALL, CPUS);
    let more = [
        ("an ECB", of(Config { ecbs: SMALL.ecbs + 1, ..SMALL }, CPUS), 56),
        ("a provider", of(Config { providers: SMALL.providers + 1, ..SMALL }, CPUS), 216),
        ("a consumer", of(Config { consumers: SMALL.consumers + 1, ..SMALL }, CPUS), 56 + 8 * CPUS),
        ("a CPU", of(SMALL, CPUS + 1), 128 + 8 * SMALL.consumers),
    ];
    let sizes: Vec<_> = more.iter().map(|(what, with, _)| (*what, with - one)).collect();
    for ((what, size), (.., documented)) in sizes.iter().zip(&more) {
        assert!(size <= documented && size + 8 >= *documented, "{what}: {size}; {sizes:?}");
    }
    // The names of probes take whole pages, so this is an average.
    let many = of(Config { probes: SMALL.probes + 10_000, ..SMALL }, CPUS);
    assert_eq!((many - one).div_ceil(10_000), 113);
    // The bytes outside the memory.
    assert!(size_of::<Small>() <= 1024, "{}", size_of::<Small>());

    let dtrace = small();
    let before = dtrace.memory_left().unwrap();
    let x = dtrace.open().unwrap();
    let open = before - dtrace.memory_left().unwrap();
    assert!((400..=800).contains(&open), "{open}");
    let before = dtrace.memory_left().unwrap();
    dtrace.enable(x, &spec("nothing")).unwrap();
    let enabling = before - dtrace.memory_left().unwrap();
    assert!((3000..=4096).contains(&enabling), "{enabling}");
    let before = dtrace.memory_left().unwrap();
    dtrace.go(x).unwrap();
    let run = before - dtrace.memory_left().unwrap();
    let each = run / CPUS - 2 * SMALL.buffer;
    assert!((1024..=1600).contains(&each), "{each}");
}

/// Sets the size of a consumer's buffer on each CPU in bytes, and forbids a smaller one.
fn set_buffer(dtrace: &Small, id: ConsumerId, bytes: usize) -> Result<(), ConsumerError> {
    dtrace.set_option(id, OptionId::Bufresize.number(), BufResize::Manual.number().into())?;
    dtrace.set_option(id, OptionId::Bufsize.number(), bytes as i64)
}

#[test]
fn a_consumer_has_the_buffers_that_it_asks_for() {
    Threads::bind(0);
    let provider = TestProvider::default();
    let dtrace = small();
    // SAFETY: the provider outlives the framework.
    let p = unsafe { provider.register(&*dtrace, c"p") }.unwrap();
    let probe = create(&*dtrace, p, [c"m", c"f", c"n"], 0);
    for records in [1, 2, 5, 30] {
        let x = dtrace.open().unwrap();
        dtrace.enable(x, &spec("n")).unwrap();
        set_buffer(&dtrace, x, Record::SIZE - 8).unwrap();
        let small = ConsumerError::SmallBuffer { bytes: Record::SIZE - 8, least: Record::SIZE };
        assert_eq!(dtrace.go(x), Err(small));
        set_buffer(&dtrace, x, records * Record::SIZE).unwrap();
        dtrace.go(x).unwrap();
        let started = Err(ConsumerError::Started(x));
        assert_eq!(set_buffer(&dtrace, x, Record::SIZE), started);
        (0..40).for_each(|n| dtrace.probe(probe, &[n; 6]));
        let (taken, drops) = common::try_drain(&dtrace, x, 0).unwrap();
        assert_eq!((taken.len(), drops), (records, 40 - records as u64));
        // The buffers have the same size after a second start.
        dtrace.probe(probe, &[0; 6]);
        dtrace.stop(x).unwrap();
        dtrace.go(x).unwrap();
        assert_eq!(common::drain(&dtrace, x, 0).len(), 1);
        dtrace.close(x).unwrap();
    }
}

#[test]
fn what_there_is_no_room_for_is_refused_and_freed_memory_is_used_again() {
    let dtrace = small();
    let all = dtrace.memory_left().unwrap();
    let [x, y] = [(); 2].map(|()| dtrace.open().unwrap());
    // Each CPU has two buffers for each consumer, so each consumer needs more than half of the memory.
    let bytes = all / CPUS * 3 / 10;
    for id in [x, y] {
        dtrace.enable(id, &spec("nothing")).unwrap();
        set_buffer(&dtrace, id, bytes).unwrap();
    }
    assert_eq!(dtrace.go(x), Ok(()));
    let refused = dtrace.go(y).unwrap_err();
    let ConsumerError::NoMemory { needed, left } = refused else { panic!("{refused}") };
    assert!(needed >= 2 * CPUS * bytes && left < needed && left == dtrace.memory_left().unwrap());
    assert!(refused.to_string().contains("use smaller buffers"), "{refused}");
    // Smaller buffers fit. Buffers of the same size fit after the other consumer has closed.
    set_buffer(&dtrace, y, bytes / 4).unwrap();
    assert_eq!(dtrace.go(y), Ok(()));
    dtrace.close(x).unwrap();
    let z = dtrace.open().unwrap();
    dtrace.enable(z, &spec("nothing")).unwrap();
    set_buffer(&dtrace, z, bytes).unwrap();
    assert_eq!(dtrace.go(z), Ok(()));
    dtrace.close(y).unwrap();
    dtrace.close(z).unwrap();
    assert_eq!(dtrace.memory_left().unwrap(), all);
}

/// A request may exceed the range of the number.
#[test]
fn a_size_that_overflows_is_refused() {
    let dtrace = small();
    let x = dtrace.open().unwrap();
    dtrace.enable(x, &spec("nothing")).unwrap();
    set_buffer(&dtrace, x, isize::MAX as usize).unwrap();
    assert!(matches!(dtrace.go(x), Err(ConsumerError::NoMemory { needed: usize::MAX, .. })));
    set_buffer(&dtrace, x, isize::MAX as usize / CPUS).unwrap();
    assert!(matches!(dtrace.go(x), Err(ConsumerError::NoMemory { .. })));
}

proptest! {
    /// Consumers with buffers of all sizes open and close, with enablings: no memory is lost.
    #[test]
    fn memory_comes_back(steps in prop::collection::vec((0..4u8, 0..3usize, 1..60usize), 0..60)) {
        let dtrace = small();
        let all = dtrace.memory_left().unwrap();
        let mut open: Vec<ConsumerId> = Vec::new();
        for (what, which, records) in steps {
            let consumer = open.get(which).copied();
            match (what, consumer) {
                (0, None) => open.push(dtrace.open().unwrap()),
                (1, Some(id)) => {
                    let _refused_once_it_has_started =
                        set_buffer(&dtrace, id, records * Record::SIZE);
                    let _refused_without_room = dtrace.go(id);
                }
                (2, Some(id)) => {
                    let _refused_without_room = dtrace.enable(id, &spec("nothing"));
                }
                (3, Some(id)) => {
                    dtrace.close(id).unwrap();
                    open.remove(which);
                }
                _ => {}
            }
        }
        for id in open {
            dtrace.close(id).unwrap();
        }
        prop_assert_eq!(dtrace.memory_left().unwrap(), all);
    }
}

/// A static framework and its memory take only some words of the file into which they are linked.
#[test]
fn static_memory_is_in_bss() {
    use object::{Object, ObjectSection, ObjectSymbol, SectionKind};

    const CONFIG: Config = Config::DEFAULT;
    static THE_MEMORY: Memory<{ CONFIG.memory::<Threads>(CPUS, 2) }> = Memory::new();
    let image = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let file = object::File::parse(&*image).unwrap();
    let symbol = file
        .symbols()
        .find(|symbol| symbol.name().is_ok_and(|name| name.contains("THE_MEMORY")))
        .expect("the static is in the symbol table");
    let section = file.section_by_index(symbol.section_index().unwrap()).unwrap();
    assert_eq!(section.kind(), SectionKind::UninitializedData, "{:?}", section.name());
    let dtrace: Dtrace<Threads> = Dtrace::new(Threads::new());
    dtrace.init(THE_MEMORY.take().unwrap(), &CONFIG).unwrap();
    for _ in 0..2 {
        let id = dtrace.open().unwrap();
        assert_eq!(dtrace.enable(id, &spec("nothing")), Ok(0));
        assert_eq!(dtrace.go(id), Ok(()));
    }
}

/// A provider finds the framework unchanged after consumers have used and freed its memory.
#[test]
fn refused_registrations_take_nothing() {
    let dtrace = small();
    let provider = TestProvider::default();
    for _ in 0..4 {
        // SAFETY: the provider outlives the framework.
        unsafe { provider.register(&*dtrace, c"p") }.unwrap();
    }
    let all = dtrace.memory_left().unwrap();
    // SAFETY: the provider outlives the framework.
    let refused = unsafe {
        let (attr, privileges) = (&ProviderAttr::SDT, Privileges::USER);
        dtrace.register(c"p", attr, privileges, &common::OPS, provider.arg())
    };
    assert_eq!(refused, Err(FrameworkError::Full));
    assert_eq!(dtrace.memory_left().unwrap(), all);
}
