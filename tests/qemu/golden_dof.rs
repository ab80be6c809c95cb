//! Runs programs in DOF, compiled by this project's compiler and by a real libdtrace, and compares the words of their
//! buffers with those of illumos's own `dtrace.c` for the same programs (`golden/illumos/README.md`), and with each
//! other.
#![cfg(target_arch = "x86_64")]

use std::collections::BTreeMap;
use std::fmt::Write as _;

use cargo_sdt::internal::arch::Arch;
use cargo_sdt::internal::module::Module;
use cargo_sdt::internal::platform::{FreeBsd, Os};
use dtrace_abi::Platform;
use dtrace_abi::option::OptionId;
use dtrace_consumer::client::{Client, Probe};
use dtrace_protocol::{Datum, SnapshotOf};
use harness::session::Session;
use harness::torture::dof;
use harness::workspace;
use sdt_protocol::Exec;

use crate::bench::boot;
use crate::illumos::boot_illumos;

/// The paths of the executed images, in this order.
const PATHS: [&str; 4] = ["/bin/one", "/bin/two", "/usr/bin/three", "/bin/one"];

fn folder() -> std::path::PathBuf {
    workspace::root().join("tests/qemu/golden")
}

fn read(file: &str) -> String {
    std::fs::read_to_string(folder().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Runs a program while images are executed; returns the contents of its buffers.
fn run(session: &mut Session, dof: &[u8]) -> Vec<String> {
    let mut client = session.connect().unwrap();
    client.open().unwrap();
    client.option(OptionId::Nspec, 8).unwrap();
    let mut lines = vec![format!("  matched {}", client.program(dof).unwrap())];
    client.go().unwrap();
    for path in PATHS {
        session.exec(&[Exec { pid: 7, path: path.into() }]).unwrap();
    }
    client.stop().unwrap();
    let probes: BTreeMap<u32, Probe> =
        session.list("").unwrap().into_iter().map(|probe| (probe.id, probe)).collect();
    let (mut records, mut drops, mut errors) = (0, 0, 0);
    let mut elements = Vec::new();
    for cpu in 0..session.cpus() {
        let snapshot = client.snapshot(cpu, SnapshotOf::Records).unwrap();
        drops += snapshot.drops;
        errors += snapshot.errors;
        for line in records_of(&mut client, &snapshot.data, &probes) {
            lines.push(line);
            records += 1;
        }
        let snapshot = client.snapshot(cpu, SnapshotOf::Aggregations).unwrap();
        elements.extend(elements_of(&mut client, &snapshot.data));
    }
    lines.push(format!("  {records} records, {drops} drops, {errors} errors"));
    lines.extend(elements);
    client.close().unwrap();
    lines
}

fn word(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn records_of(client: &mut Client, mut rest: &[u8], probes: &BTreeMap<u32, Probe>) -> Vec<String> {
    let mut lines = Vec::new();
    while rest.len() >= 4 {
        let epid = word(rest);
        if epid == 0 {
            rest = &rest[4..];
            continue;
        }
        let of = client.eprobe(epid).unwrap().expect("it is enabled");
        let Probe { provider, module, function, name, .. } = &probes[&of.probe];
        let line = format!("  {provider}:{module}:{function}:{name}");
        lines.push(of.data.iter().fold(line, |line, datum| line + &value(datum, rest)));
        rest = &rest[of.size as usize..];
    }
    lines
}

fn elements_of(client: &mut Client, mut rest: &[u8]) -> Vec<String> {
    let mut lines = Vec::new();
    while rest.len() >= 4 {
        let number = word(rest);
        let of = client.aggregation(number).unwrap().expect("it aggregates");
        let line = format!("  @{number}:");
        lines.push(of.data.iter().fold(line, |line, datum| line + &value(datum, rest)));
        rest = &rest[(of.size as usize).next_multiple_of(8)..];
    }
    lines
}

/// Returns a datum as a number, a text, or its bytes. For an action without data, returns an empty text.
fn value(datum: &Datum, record: &[u8]) -> String {
    let (at, size) = (datum.offset as usize, datum.size as usize);
    if size == 0 {
        return String::new();
    }
    let bytes = &record[at..at + size];
    if matches!(size, 1 | 2 | 4 | 8) {
        let number = bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
        return format!(" {number:#x}");
    }
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    match std::str::from_utf8(text) {
        Ok(text) if text.bytes().all(|byte| byte.is_ascii_graphic()) => format!(" {text:?}"),
        _ => bytes.iter().fold(" ".to_owned(), |mut hex, byte| {
            write!(hex, "{byte:02x}").expect("strings grow");
            hex
        }),
    }
}

fn program(name: &str) -> String {
    read(&format!("programs/{name}.d"))
}

#[test]
fn programs_leave_what_they_leave_on_illumos() {
    let mut session = boot_illumos(1);
    let example = Module { os: Os::Illumos, ..workspace::example(Arch::X86_64) };
    session.kldload_file(&example.build(None).expect("it can be built")).unwrap();
    let golden = read("illumos/programs.txt");
    let mut steps = 0;
    for step in golden.split("> program ").filter(|step| !step.is_empty()) {
        let (name, expected) = step.split_once('\n').expect("what came of it");
        let said = run(&mut session, &dof(Platform::Illumos, &program(name)));
        assert_eq!(sorted(said.iter().map(String::as_str)), sorted(expected.lines()), "{name}");
        steps += 1;
    }
    assert!(steps >= 10, "{steps}");
}

/// The DOF of the real libdtrace and that of this project's compiler record the same data.
#[test]
fn programs_of_a_real_libdtrace_leave_what_ours_leave() {
    let release: FreeBsd = "13".parse().unwrap();
    let mut session = boot(Arch::X86_64, 1);
    session.freebsd(release.kernel_version() as i32).unwrap();
    let example = Module { freebsd: release, ..workspace::example(Arch::X86_64) };
    session.kldload_file(&example.build(None).expect("it can be built")).unwrap();
    let files = std::fs::read_dir(folder().join("programs")).unwrap();
    let files = files.map(|entry| entry.unwrap().path());
    let mut compared = 0;
    for file in files.filter(|file| file.extension().is_some_and(|of| of == "dof")) {
        let name = file.file_stem().unwrap().to_str().unwrap();
        let theirs = unhex(&std::fs::read_to_string(&file).unwrap());
        let ours = dof(Platform::Freebsd, &program(name));
        let (theirs, ours) = (run(&mut session, &theirs), run(&mut session, &ours));
        assert!(theirs.len() > 1, "{name}: {theirs:?}");
        let all = |lines: &[String]| sorted(lines.iter().map(String::as_str)).join("\n");
        assert_eq!(all(&theirs), all(&ours), "{name}");
        compared += 1;
    }
    assert!(compared >= 10, "{compared}");
}

/// Converts hexadecimal digits to bytes.
fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.as_chunks().0.iter().map(|[high, low]| (high << 4 | low) as u8).collect()
}

/// Sorts the elements of aggregations, because their order depends on the hash table.
fn sorted<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let (mut elements, mut others): (Vec<_>, Vec<_>) =
        lines.partition(|line| line.starts_with("  @"));
    elements.sort_unstable();
    others.extend(elements);
    others
}
