//! Strings of arguments: a clause without a program as predicate stores them without the machine, and its records, aggregations
//! and faults are those of the machine.

use dtrace_abi::Platform;
use dtrace_abi::option::OptionId;
use dtrace_abi::stability::Attribute;
use dtrace_compiler::options::Options;
use dtrace_compiler::surroundings::{
    Argument, Description, Matches, ProbeInfo, ProviderAttributes, Surroundings,
};
use dtrace_compiler::{Compiler, Source, dof};
use recording_host::cpus::Threads;
use sdt_framework::kernel::Kernel as Knows;
use sdt_framework::{Host, SpinLock};

use crate::run::{Aggregated, Kernel};

/// The readable memory.
const START: u64 = 0x1000;
const END: u64 = 0x20f3;
/// A part of it that is toxic.
const TOXIC: std::ops::Range<u64> = 0x1810..0x1811;

/// Returns the byte at an address: letters, and a NUL at each address that ends with 7f.
fn byte(address: u64) -> u8 {
    if address & 0xff == 0x7f { 0 } else { b'A' + (address % 23) as u8 }
}

/// A host with readable memory.
#[derive(Default)]
struct Texts(Threads);

// SAFETY: each function calls the same function of `Threads`, which fulfils the contract.
unsafe impl Host for Texts {
    type Lock = SpinLock<Self>;

    fn cpu(&self) -> usize {
        self.0.cpu()
    }

    fn cpus(&self) -> usize {
        self.0.cpus()
    }

    fn timestamp(&self) -> u64 {
        1
    }

    fn without_interrupts<R>(&self, f: impl FnOnce() -> R) -> R {
        self.0.without_interrupts(f)
    }

    fn sync(&self) {
        self.0.sync();
    }

    fn kernel(&self) -> &(dyn Knows + Sync) {
        self
    }
}

impl Knows for Texts {
    fn timestamp(&self) -> u64 {
        1
    }

    fn load(&self, address: u64, into: &mut [u8]) -> bool {
        let end = address.saturating_add(into.len() as u64);
        assert!(end <= TOXIC.start || TOXIC.end <= address, "toxic memory is not read");
        let is_readable = START <= address && end <= END;
        if is_readable {
            (address..).zip(into).for_each(|(address, to)| *to = byte(address));
        }
        is_readable
    }

    fn is_toxic(&self, address: u64, length: u64) -> bool {
        address < TOXIC.end && TOXIC.start < address.saturating_add(length)
    }
}

/// Probes with a text and a number, as a probe in Rust declares them.
struct Typed;

impl Surroundings for Typed {
    fn probes(&self, _: &Description) -> Matches {
        let argument = |(native, translated, mapping): (&str, &str, u8)| Argument {
            name: String::new(),
            native: native.into(),
            translated: translated.into(),
            mapping,
            obstacle: None,
        };
        let arguments = [
            ("char *", "string", 0),
            ("size_t", "size_t", 1),
            ("uint64_t", "uint64_t", 2),
            ("char *", "string", 3),
            ("size_t", "size_t", 4),
        ];
        let attributes = ProviderAttributes::all(Attribute::DEFAULT);
        let arguments = arguments.map(argument).into();
        Matches::One(ProbeInfo::new(String::new(), attributes, arguments))
    }
}

fn compile(text: &str) -> Vec<u8> {
    let mut compiler = Compiler::new(Platform::Freebsd, Options::default());
    let program = compiler.compile(Source::file(text.as_bytes()), &Typed);
    dof::program(&program.unwrap_or_else(|e| panic!("{}", e.with_tag())), compiler.options())
        .unwrap()
}

/// The data of all records, the aggregations, and the numbers of drops.
type Effect = (Vec<Vec<Vec<u8>>>, Aggregated, [u64; 2]);

/// Returns the effect of hits with these arguments, for a clause of `proc:::a` with this predicate.
fn effect(
    (predicate, actions): (&str, &str),
    string_size: Option<i64>,
    hits: &[[u64; 5]],
) -> Effect {
    let kernel = Kernel::with(Texts::default(), 4 << 20);
    let consumer = kernel.consumer();
    let error = "dtrace:::ERROR { trace(arg2); trace(arg3); trace(arg4); trace(arg5); }";
    let program = compile(&format!("{error} proc:::a {predicate} {{ {actions} }}"));
    kernel.dtrace.enable_program(consumer.id, &program).unwrap();
    consumer.set(OptionId::Bufsize, 256 << 10);
    if let Some(size) = string_size {
        consumer.set(OptionId::Strsize, size);
    }
    consumer.go();
    for [one, two, three, four, five] in hits {
        kernel.dtrace.probe(kernel.probes[0], &[*one, *two, *three, *four, *five, 0]);
    }
    let (records, drops) = consumer.records(0);
    let records = records.into_iter().map(|record| record.data).collect();
    let (aggregated, lost) =
        if actions.contains('@') { consumer.aggregations(0) } else { (Aggregated::default(), 0) };
    (records, aggregated, [drops, lost])
}

/// Hits whose texts are short, long, empty, with a NUL, and partly or not readable.
fn hits() -> Vec<[u64; 5]> {
    // The address of `probename` in programs.
    let name = 0x4406 << 48 | 3 << 24;
    let starts = [START, 0x1005, 0x1770, 0x17f0, 0x1811, 0x2080, 0x20f0, END, 0, name, u64::MAX];
    let lengths = [0, 1, 7, 8, 9, 15, 16, 17, 63, 64, 65, 200, 254, 255, 256, 1 << 40, u64::MAX];
    let hit = |(start, length)| [start, length, length ^ start, 0x1030, 5];
    let all = starts.into_iter().flat_map(|start| lengths.map(|length| (start, length)));
    all.map(hit).collect()
}

const ALL: [&str; 9] = [
    "trace(args[0]);",
    "trace(stringof(arg0));",
    "trace(args[2]); trace(args[0]); trace(args[3]);",
    "printf(\"%s %d %s\", args[0], args[2], stringof(arg0));",
    "@[args[0]] = count();",
    "@[stringof(arg0)] = sum(args[2]);",
    "@a[args[0], args[2]] = count(); @b[args[2], args[0]] = max(arg2);",
    "@a[args[3], args[0], args[3]] = count(); trace(args[3]); @b[args[0]] = count();",
    "@n = count(); trace(args[0]);",
];

/// A predicate that only the machine can compute, and that is true.
const MACHINE: &str = "/strlen(probename) == 1/";

#[test]
fn steps_and_the_machine_store_the_same() {
    let hits = hits();
    for string_size in [None, Some(8), Some(16), Some(20), Some(64), Some(300)] {
        for actions in ALL {
            let found = effect(("", actions), string_size, &hits);
            let expected = effect((MACHINE, actions), string_size, &hits);
            assert!(found == expected, "{string_size:?} {actions}");
            assert!(found.0.iter().any(|data| data.len() == 4), "ERROR fired: {actions}");
        }
    }
}

#[test]
fn a_text_has_its_bytes() {
    let text = |start: u64, length: u64| {
        let read = (start..start + length).map(|at| if byte(at) == 0 { b'?' } else { byte(at) });
        let mut text: Vec<u8> = read.collect();
        text.resize(256, 0);
        text
    };
    let all = [(START, 16), (0x1003, 0), (0x1070, 40), (0x2000, 243), (0x1101, 255)];
    let hits = all.map(|(start, length)| [start, length, 0, 0, 0]);
    // The second record is in the place of a longer one, and does not contain its bytes.
    let (records, ..) = effect(("", "trace(args[0]);"), None, &hits);
    let expected = all.map(|(start, length)| vec![text(start, length)]);
    assert_eq!(records, expected);
}

/// Steps do not use scratch space, which has room for 32 strings.
#[test]
fn a_clause_stores_any_number_of_texts() {
    let actions = "trace(args[0]);".repeat(40);
    let hits = [[START, 255, 0, 0, 0]];
    let (records, ..) = effect(("", &actions), None, &hits);
    assert_eq!((records.len(), records[0].len()), (1, 40));
}
