//! The records of a program, as lines:
//!
//! | line | what it is |
//! |---|---|
//! | `enabled N` | probes that the program enables |
//! | `rec EPID ACTION:SIZE:OFFSET:DATUM ...` | a record, in the order of the buffer |
//! | `drops N errors N aggdrops N` | records that found no room, clauses that a fault ended, values that found no room |
//! | `agg SIZE:KEY ... = ACTION WORD ...` | an element of an aggregation: the first key is the number of the variable |
//!
//! A datum is hexadecimal, or, if it is as long as strings are (`strsize`), a text up to its zero. Words are hexadecimal; `0*5`
//! are five of them. Elements of one variable with equal keys are added up, as libdtrace does it. The record of a fault
//! is without the address: places in a program's own memory have other addresses here.

use std::collections::BTreeMap;

use dtrace_abi::action::Action;
use dtrace_abi::record::RecordDesc;
use sdt_framework::{ConsumerId, Which};

use crate::cases::Case;
use crate::machine::{Machine, compile};

/// Compiles a program, runs it through all hits, and returns what it recorded.
pub fn run(machine: &Machine, case: &Case) -> Vec<String> {
    let [program, options] = compile(&case.program);
    machine.restore();
    let dtrace = &machine.dtrace;
    let consumer = dtrace.open().unwrap();
    let enabled = dtrace.enable_program(consumer, &program).unwrap();
    dtrace.enable_program(consumer, &options).unwrap();
    dtrace.go(consumer).unwrap();
    for args in &machine.hits {
        dtrace.probe(machine.hit, args);
    }
    dtrace.stop(consumer).unwrap();
    let reader = Reader { machine, consumer, string_size: string_size(&case.program), enabled };
    let mut lines = vec![format!("enabled {enabled}")];
    lines.extend(reader.lines());
    dtrace.close(consumer).unwrap();
    lines
}

/// Returns the size of strings in bytes: the option `strsize` of a program, or 256.
fn string_size(program: &str) -> u32 {
    let option = program.lines().find_map(|line| line.strip_prefix("#pragma D option strsize="));
    option.map_or(256, |size| size.parse().expect("a number of bytes"))
}

struct Reader<'a> {
    machine: &'a Machine,
    consumer: ConsumerId,
    string_size: u32,
    /// The number of enabled clauses. It is also the EPID of the last clause, which records faults.
    enabled: u32,
}

impl Reader<'_> {
    fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let (bytes, drops, errors) = self.buffer(Which::Records);
        let mut at = 0;
        while let Some(epid) = number(&bytes, at) {
            // Zeroes between records belong to no clause.
            let Some((size, descs)) = (epid != 0).then(|| self.record(epid)) else {
                at += 4;
                continue;
            };
            let is_fault = epid == self.enabled;
            let shown = if is_fault { &descs[..4] } else { &descs[..] };
            let data = shown.iter().map(|desc| {
                let RecordDesc { action, size, offset, .. } = *desc;
                format!(" {action}:{size}:{offset}:{}", self.datum(&bytes[at..], desc))
            });
            lines.push(format!("rec {epid}{}", data.collect::<String>()));
            at += size;
        }
        let (bytes, aggregation_drops, _) = self.buffer(Which::Aggregations);
        lines.push(format!("drops {drops} errors {errors} aggdrops {aggregation_drops}"));
        lines.extend(self.elements(&bytes));
        lines
    }

    fn elements(&self, bytes: &[u8]) -> Vec<String> {
        let mut elements: BTreeMap<(Vec<String>, u16), Vec<u64>> = BTreeMap::new();
        let mut at = 0;
        while let Some(id) = number(bytes, at) {
            let mut descs = [RecordDesc::EMPTY; 32];
            let dtrace = &self.machine.dtrace;
            let found = dtrace.aggregation(self.consumer, id, 0, &mut descs).unwrap().unwrap();
            let (value, keys) = descs[..found.records as usize].split_last().unwrap();
            let key =
                |desc: &RecordDesc| format!("{}:{}", desc.size, self.datum(&bytes[at..], desc));
            let keys: Vec<_> = keys.iter().map(key).collect();
            let words = &bytes[at + value.offset as usize..][..value.size as usize];
            let words = words.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
            let words: Vec<u64> = words.collect();
            let kind = Action::from_number(value.action).unwrap();
            elements
                .entry((keys, value.action))
                .and_modify(|sum| add(kind, sum, &words))
                .or_insert(words);
            at += found.size as usize;
        }
        let line = |((keys, action), words): (&(Vec<String>, u16), &Vec<u64>)| {
            format!("agg {} = {action} {}", keys.join(" "), folded(words))
        };
        let mut lines: Vec<_> = elements.iter().map(line).collect();
        lines.sort();
        lines
    }

    fn buffer(&self, which: Which) -> (Vec<u8>, u64, u64) {
        let mut all = Vec::new();
        loop {
            let mut part = vec![0; 16 << 10];
            let dtrace = &self.machine.dtrace;
            let found = dtrace.snapshot(self.consumer, 0, which, all.len(), &mut part).unwrap();
            all.extend(&part[..found.read]);
            if all.len() == found.size {
                return (all, found.drops, found.errors);
            }
        }
    }

    /// Returns the size of the records of a clause in bytes, and the descriptions of their data.
    fn record(&self, epid: u32) -> (usize, Vec<RecordDesc>) {
        let mut descs = vec![RecordDesc::EMPTY; 64];
        let found = self.machine.dtrace.eprobe(self.consumer, epid, 0, &mut descs);
        let found = found.unwrap().unwrap();
        descs.truncate(found.records as usize);
        (found.size as usize, descs)
    }

    fn datum(&self, record: &[u8], desc: &RecordDesc) -> String {
        let bytes = &record[desc.offset as usize..][..desc.size as usize];
        if desc.size == self.string_size {
            let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
            return format!("'{}'", text.escape_ascii());
        }
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Adds an element of an aggregation to another element with the same keys.
fn add(kind: Action, sum: &mut [u64], words: &[u64]) {
    let signed = |words: &[u64]| words[0] as i64;
    match kind {
        Action::Min => sum[0] = signed(sum).min(signed(words)) as u64,
        Action::Max => sum[0] = signed(sum).max(signed(words)) as u64,
        Action::Stddev => {
            sum[0] = sum[0].wrapping_add(words[0]);
            sum[1] = sum[1].wrapping_add(words[1]);
            let squares = |words: &[u64]| u128::from(words[2]) | u128::from(words[3]) << 64;
            let squares = squares(sum).wrapping_add(squares(words));
            (sum[2], sum[3]) = (squares as u64, (squares >> 64) as u64);
        }
        _ => {
            // The first word contains the argument of the function, not a value.
            let first = usize::from(matches!(kind, Action::Lquantize | Action::Llquantize));
            let pairs = sum.iter_mut().zip(words).skip(first);
            pairs.for_each(|(sum, word)| *sum = sum.wrapping_add(*word));
        }
    }
}

/// Formats words. Equal words in a row are one word with their number.
fn folded(words: &[u64]) -> String {
    let runs = words.chunk_by(|one, next| one == next).map(|run| match run.len() {
        1 => format!("{:x}", run[0]),
        count => format!("{:x}*{count}", run[0]),
    });
    runs.collect::<Vec<_>>().join(" ")
}
