//! Measures D programs when their probe fires, compared with an indirect call and rbpf's interpreter.

use std::hint::black_box;
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;

use anyhow::{Context as _, Result};
use dtrace_abi::Platform;
use dtrace_abi::action::Action;
use dtrace_compiler::options::Options;
use dtrace_compiler::program::Program as Compiled;
use dtrace_compiler::surroundings::EveryProbe;
use dtrace_compiler::{Compiler, Source};
use sdt_framework::testing::aggregation::{Buffer, Function};
use sdt_framework::testing::{Declarations, Declared, Difo, Dynamic, Firing, Memory, PerCpu, Probe, Program, Access, Room, Slot, Statics, Word};
use sdt_framework::kernel::{Kernel, Number, Text};

use crate::fired;
use crate::peers;
use crate::subjects::{self, Subject};
use crate::table::Table;
use crate::time::Samples;

/// The kernel's memory: a string.
#[repr(align(64))]
pub struct Text64(pub [u8; 64]);

/// The string that `stringof(arg0)` reads.
pub static PATH: Text64 = Text64({
    let mut bytes = [0; 64];
    bytes.split_at_mut(8).0.copy_from_slice(b"postgres");
    bytes
});

/// The kernel that programs run in.
pub struct Surrounding;

impl Kernel for Surrounding {
    fn timestamp(&self) -> u64 {
        black_box(1_000)
    }

    fn load(&self, address: u64, into: &mut [u8]) -> bool {
        let Some(start) = address.checked_sub(PATH.0.as_ptr().expose_provenance() as u64) else {
            return false;
        };
        let from = PATH.0.get(start as usize..).and_then(|from| from.get(..into.len()));
        from.is_some_and(|from| {
            into.copy_from_slice(black_box(from));
            true
        })
    }

    fn predicate_cache(&self) -> Option<&AtomicU32> {
        static CACHE: AtomicU32 = AtomicU32::new(0);
        Some(black_box(&CACHE))
    }

    fn number(&self, which: Number) -> Option<u64> {
        Some(black_box(which as u64))
    }

    fn text(&self, _: Text) -> Option<&[u8]> {
        Some(black_box(b"postgres"))
    }
}

pub fn compiled(text: &str) -> Compiled {
    let mut compiler = Compiler::new(Platform::Freebsd, Options::default());
    compiler.compile(Source::file(text.as_bytes()), &EveryProbe).expect("the benchmark's own program")
}

fn words(count: usize) -> Vec<Word> {
    (0..count).map(|_| Word::new()).collect()
}

const NAMES: [&[u8]; 4] = [b"p", b"m", b"f", b"n"];

/// Checks the programs of a clause, its predicate first, and lets `f` run them.
fn with(compiled: &Compiled, f: impl FnOnce(&mut Firing<'_, Surrounding>, &[Program<'_>]) -> u64) -> u64 {
    let statics = || (words(8), words(64));
    let (globals, locals, literals) = (statics(), statics(), words(64));
    let links = || (0..64).map(|_| AtomicU32::new(0)).collect::<Vec<_>>();
    let (buckets, chain, list) = (links(), links(), links());
    let (chunks, cpus) = (words(64 * 64), [PerCpu::new()]);
    let memory = Memory {
        literals: &literals,
        globals: Statics { extents: &globals.0, words: &globals.1, copies: 1 },
        locals: Statics { extents: &locals.0, words: &locals.1, copies: 1 },
        dynamic: Dynamic::new(&buckets, &chain, &list, &chunks, 64, &cpus),
        string_size: 256,
    };
    let mut tables = [[Declared::NONE; 8]; 3];
    let [one, two, three] = &mut tables;
    let mut declarations = Declarations::new(Platform::Freebsd, &memory, one, two, three);
    let clause = &compiled.ecbs[0];
    let difos = clause.actions.iter().filter_map(|act| act.difo.as_ref());
    let difos: Vec<_> = clause.predicate.iter().chain(difos).collect();
    let mut rooms: Vec<_> = difos.iter().map(|difo| vec![Slot::EMPTY; difo.code.len()]).collect();
    let programs: Vec<_> = difos
        .iter()
        .zip(&mut rooms)
        .map(|(difo, room)| {
            let source = Difo {
                code: &difo.code,
                integers: &difo.integers,
                strings: &difo.strings,
                variables: &difo.variables,
                returns: difo.returns,
            };
            Program::new(&source, &mut declarations, false, room).expect("compiled programs are valid")
        })
        .collect();
    let (mut scratch, mut key) = (vec![0; 4096], vec![0; 64]);
    let room = Room { scratch: &mut scratch, key: &mut key };
    let probe = Probe { id: 1, names: &NAMES, args: &[11, 22, 33, 44, 55, 66] };
    f(&mut Firing::new(&Surrounding, &memory, probe, Access::ALL, 0, room), &programs)
}

/// Runs every program of a clause `calls` times, and stores the result of each.
fn run(compiled: &Compiled, calls: u64) -> u64 {
    with(compiled, |firing, programs| {
        let mut record = [0u64; 4];
        for _ in 0..calls {
            firing.begin(1);
            for (program, place) in programs.iter().zip(&mut record) {
                *place = firing.run(program).expect("nothing faults");
            }
            black_box(&record);
        }
        record[0]
    })
}

macro_rules! programs {
    ($($name:ident = $text:literal;)*) => {
        $(fn $name(calls: u64) -> u64 {
            static COMPILED: OnceLock<Compiled> = OnceLock::new();
            run(COMPILED.get_or_init(|| compiled($text)), calls)
        })*
    };
}

programs! {
    predicate = "n /pid == 42/ { }";
    three_values = "n { trace(arg0); trace(arg1); trace(pid); }";
    arithmetic = "n { trace((arg0 + arg1) * 3 - (arg2 ^ arg3) + (arg4 << 2) + arg0 / 7 + arg1 % 5); }";
    thread_local = "self uint64_t n; n { self->n = self->n + 1; }";
}

fn quantize(calls: u64) -> u64 {
    static COMPILED: OnceLock<Compiled> = OnceLock::new();
    let compiled = COMPILED.get_or_init(|| compiled("n { @[execname] = quantize(arg0); }"));
    with(compiled, |firing, programs| {
        let function = Function::new(Action::Quantize, 0).expect("it has no argument");
        let (mut data, mut buckets, mut entries) =
            (vec![MaybeUninit::uninit(); 4096], vec![0; 64], vec![MaybeUninit::uninit(); 64]);
        let mut buffer = Buffer::new(&mut data, &mut buckets, &mut entries);
        // The variable's number, the key, the value.
        let [_, key, value] = programs else { panic!("three programs") };
        for _ in 0..calls {
            firing.begin(1);
            let mut bytes = [0; 256];
            let address = firing.run(key).expect("nothing faults");
            let length = firing.fetch_string(address, &mut bytes).expect("nothing faults");
            let mut keys = [0; 33];
            for (to, from) in keys[1..].iter_mut().zip(bytes[..length].chunks(8)) {
                let mut word = [0; 8];
                word[..from.len()].copy_from_slice(from);
                *to = u64::from_le_bytes(word);
            }
            let value = firing.run(value).expect("nothing faults");
            buffer.add(&keys[..1 + length.div_ceil(8)], &function, value, 1);
        }
        buffer.len() as u64
    })
}

macro_rules! peers {
    ($($rbpf:ident $sbpf:ident = $text:ident;)*) => {
        $(fn $rbpf(calls: u64) -> u64 {
            peers::rbpf(peers::$text, calls)
        }

        fn $sbpf(calls: u64) -> u64 {
            peers::sbpf(peers::$text, calls)
        })*
    };
}

peers! {
    rbpf_predicate sbpf_predicate = PREDICATE;
    rbpf_three_values sbpf_three_values = THREE_VALUES;
    rbpf_arithmetic sbpf_arithmetic = ARITHMETIC;
}

/// A program as a subject: only its repetition is measured.
const fn subject(name: &'static str, repeat: fn(u64) -> u64) -> Subject {
    Subject { name, call: |a, b| a ^ b, repeat }
}

/// Measures the programs, all in turn in each round.
///
/// # Errors
/// There was no round.
pub fn table(rounds: u32, calls: u32) -> Result<String> {
    let rows = [
        Subject { name: "indirect call", ..subjects::INDIRECT },
        subject("/pid == 42/, false", predicate),
        subject("  rbpf's interpreter", rbpf_predicate),
        subject("  solana-sbpf's interpreter", sbpf_predicate),
        subject("trace three values", three_values),
        subject("  rbpf's interpreter", rbpf_three_values),
        subject("  solana-sbpf's interpreter", sbpf_three_values),
        subject("an expression of 7 operands", arithmetic),
        subject("  rbpf's interpreter", rbpf_arithmetic),
        subject("  solana-sbpf's interpreter", sbpf_arithmetic),
        subject("self->n = self->n + 1", thread_local),
        subject("@[execname] = quantize(arg0)", quantize),
        subject("probe: /pid == 42/, cached", fired::cached),
        subject("probe: /arg0 == 1000/, false", fired::predicate),
        subject("probe: /arg0 * 2 == 2000/, false", fired::computed_predicate),
        subject("probe: @ = count()", fired::count),
        subject("probe: trace three values", fired::three_values),
        subject("probe: trace three values that are one instruction each", fired::three_single),
        subject("probe: trace three values that are computed", fired::three_computed),
        subject("probe: @[execname] = quantize(arg0)", fired::quantize),
        subject("probe: @[stringof(arg0)] = quantize(arg1)", fired::quantize_string),
        subject("probe: an expression of 7 operands", fired::arithmetic),
        subject("probe: self->n = self->n + 1", fired::thread_local),
        subject("probe: a[arg0] = a[arg0] + 1", fired::array),
    ];
    let mut samples = vec![Samples::default(); rows.len()];
    for _ in 0..rounds {
        for (row, samples) in rows.iter().zip(&mut samples) {
            samples.measure(*row, calls);
        }
    }
    let spreads = samples.iter().map(Samples::spread).collect::<Option<Vec<_>>>();
    let spreads = spreads.context("no round")?;
    let mut table = Table::new(&["D PROGRAMS", "ns/run", "min..max", "to indirect call"]);
    for (row, spread) in rows.iter().zip(&spreads) {
        table.row(vec![
            row.name.to_owned(),
            format!("{:.2}", spread.median),
            format!("{:.2}..{:.2}", spread.min, spread.max),
            format!("{:.1}", spread.median / spreads[0].median),
        ]);
    }
    Ok(format!(
        "{table}all instructions of a clause, and the stores of their values; with \"probe\" from the hit to the record in \
         a buffer of a framework with one CPU, whose consumer reads it every 16384 hits\n"
    ))
}
