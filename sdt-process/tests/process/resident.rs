//! The memory that a consumer's buffers take in the process.

use std::fs;

use dtrace_abi::option::OptionId;

use crate::consumer::{Consumer, Subject, program as records};
use crate::program;

/// Returns the size in bytes of the memory without a file that a process has in RAM.
fn resident(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() << 10
}

const MEGABYTE: u64 = 1 << 20;

/// Large buffers take memory only as records fill them, and give it back after a burst.
#[test]
fn a_record_buffer_takes_memory_as_it_fills() {
    // A record has 96 bytes.
    const BURST: u64 = 20_000;
    let mut subject = Subject::new("jump");
    let mut consumer = Consumer::of(subject.id());
    consumer.0.open().unwrap();
    consumer.0.option(OptionId::Bufsize, 4 << 20).unwrap();
    assert_ne!(consumer.0.program(&records("subject:::work")).unwrap(), 0);
    let before = resident(subject.id());
    consumer.0.go().unwrap();
    let started = resident(subject.id());
    assert!(started < before + 4 * MEGABYTE, "{before} {started}");
    subject.ask(&format!("fire 1 {BURST}"));
    let full = resident(subject.id());
    assert!(full > started + MEGABYTE, "{started} {full}");
    let read = consumer.until(BURST);
    assert_eq!((read.records.len() as u64, read.drops), (BURST, 0));
    // Each read exchanges the halves.
    for _ in 0..20 {
        consumer.rest();
    }
    let rest = resident(subject.id());
    assert!(rest + MEGABYTE < full, "{full} {rest}");
}

/// The tables of keys are small. The rest of the buffers, twice 4 MB for each slot, is not touched.
#[test]
fn an_aggregation_takes_memory_as_it_gets_keys() {
    let subject = Subject::new("jump");
    let before = resident(subject.id());
    let text = "#pragma D option aggsize=4m\nsubject:::work { @[arg0] = count(); }";
    let running = program::start(&subject, text);
    let started = resident(subject.id());
    assert!(started < before + 16 * MEGABYTE, "{before} {started}");
    drop(running);
}
