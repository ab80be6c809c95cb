//! The stand-in kernel as an illumos whose krtld writes other instructions over the calls of probes than the sites expect. Then
//! the arguments are always evaluated, the module prints a message, and every hit is recorded exactly once.
#![cfg(target_arch = "x86_64")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use cargo_sdt::internal::arch::Arch;
use harness::session::Session;
use object::{Object as _, ObjectSymbol as _};
use sdt_protocol::Sites;

use crate::bench::{boot, name, tally};
use crate::illumos::{BUSY, execs, refused};
use crate::illumos_stress::{HITS, O2};

const MODULE: &str = "sdt_stress";
const EXECS: u32 = 40;

fn file() -> &'static Path {
    static FILE: OnceLock<PathBuf> = OnceLock::new();
    FILE.get_or_init(|| O2.build().expect("it can be built"))
}

/// Boots a kernel that marks sites in this way, with the stress module loaded.
fn boot_with(sites: Sites, cpus: u32) -> Session {
    let mut session = boot(Arch::X86_64, cpus);
    session.illumos_with(sites).expect("no module is loaded");
    assert_eq!(session.kldload_file(file()).unwrap(), MODULE);
    session
}

/// The module's message about its sites at load.
fn complaints(session: &Session) -> Vec<String> {
    let lines = session.wire.console().filter(|line| line.contains("probe sites"));
    lines.collect()
}

/// Executes images with one probe enabled, on one CPU. Returns the first argument of each hit.
fn hits_of(session: &mut Session, probe: &str) -> Vec<u64> {
    let consumer = session.open().unwrap();
    let listed = format!("sdt_stress-{probe}");
    assert_eq!(session.enable(consumer, name(&listed)).unwrap(), 1, "{probe}");
    session.go(consumer).unwrap();
    session.exec(&execs(EXECS)).unwrap();
    session.stop(consumer).unwrap();
    let tally = tally(session, consumer);
    session.close(consumer).unwrap();
    assert_eq!(tally.drops, 0);
    tally.records.into_values().flatten().map(|hit| hit.args[0]).collect()
}

#[test]
fn arguments_are_lazy_where_sites_are_nops() {
    let mut session = boot_with(Sites::Nops, 1);
    assert_eq!(complaints(&session), [""; 0]);
    session.exec(&execs(EXECS)).unwrap();
    assert_eq!(hits_of(&mut session, "evaluations"), [0; EXECS as usize]);
    let counted: Vec<u64> = (1..=EXECS.into()).collect();
    assert_eq!(hits_of(&mut session, "evaluated"), counted);
}

#[test]
fn arguments_are_evaluated_always_where_they_are_not() {
    let mut session = boot_with(Sites::LongNop, 1);
    let count = is_enabled_sites();
    let complaint = format!(
        "sdt_stress: krtld did not replace {count} of {count} probe sites by the expected nops; \
         their arguments are evaluated even while the probe is disabled"
    );
    assert_eq!(complaints(&session), [complaint]);

    let before = session.counters().unwrap();
    session.exec(&execs(EXECS)).unwrap();
    let after = session.counters().unwrap();
    assert_eq!((after.hits, after.breakpoints), (before.hits, before.breakpoints), "none fires");
    // The probe whose argument is counted is disabled, and was disabled before.
    let first = u64::from(EXECS) + 1;
    let counted: Vec<u64> = (first..first + u64::from(EXECS)).collect();
    assert_eq!(hits_of(&mut session, "evaluations"), counted);
    // While that probe is enabled, its argument is evaluated once for each hit.
    let first = first + u64::from(EXECS);
    let counted: Vec<u64> = (first..first + u64::from(EXECS)).collect();
    assert_eq!(hits_of(&mut session, "evaluated"), counted);
}

/// The number of is-enabled sites of the module, from the bounds of their section.
fn is_enabled_sites() -> u64 {
    let image = std::fs::read(file()).unwrap();
    let module = object::File::parse(&*image).unwrap();
    let address = |name| module.symbol_by_name(name).expect("the link defines it").address();
    (address("__stop_sdt_is_enabled") - address("__start_sdt_is_enabled")) / size_of::<u64>() as u64
}

#[test]
fn enabling_puts_breakpoints_and_disabling_restores_every_byte() {
    let mut session = boot_with(Sites::LongNop, 2);
    let text = session.read_text(MODULE).unwrap();
    let consumer = session.open().unwrap();
    session.enable(consumer, name("sdt_stress::")).unwrap();
    let patched = session.read_text(MODULE).unwrap();
    session.close(consumer).unwrap();
    assert!(session.read_text(MODULE).unwrap() == text);
    let changed: Vec<_> = (0..text.len()).filter(|&at| text[at] != patched[at]).collect();
    // Is-enabled sites, and probe sites.
    assert!(changed.len() as u64 > is_enabled_sites(), "{changed:x?}");
    for &at in &changed {
        assert_eq!(text[at..at + 5], [0x0f, 0x1f, 0x44, 0, 0], "at {at:#x}");
        assert_eq!(patched[at..at + 5], [0xcc, 0x1f, 0x44, 0, 0], "at {at:#x}");
    }
}

#[test]
fn every_hit_is_there_once() {
    const CPUS: u32 = 4;
    let mut session = boot_with(Sites::LongNop, CPUS);
    let probes = session.list(name("sdt_stress::")).unwrap();
    let names: BTreeMap<_, _> = probes.iter().map(|of| (of.id, &*of.name)).collect();
    let consumer = session.open().unwrap();
    assert_eq!(session.enable(consumer, name("sdt_stress::")).unwrap() as usize, probes.len());
    session.go(consumer).unwrap();
    let executed = session.exec(&execs(EXECS)).unwrap();
    assert_eq!(refused(session.kldunload(MODULE)).0, BUSY);
    session.stop(consumer).unwrap();
    let tally = tally(&mut session, consumer);
    assert_eq!(tally.drops, 0);
    let per_cpu: Vec<u64> = executed.iter().map(|execs| execs * HITS as u64).collect();
    assert_eq!(tally.per_cpu(CPUS), per_cpu);
    for hit in tally.records.values().flatten() {
        // Each argument is one more than the argument before it.
        let name = names[&hit.probe];
        let count = name.strip_prefix("cheap-").or(name.strip_prefix("costly-"));
        let Some(count) = count.and_then(|count| count.parse::<usize>().ok()) else { continue };
        let shown = count.min(hit.args.len());
        let expected: Vec<u64> = (hit.args[0]..).take(shown).collect();
        assert_eq!(hit.args[..shown], expected, "{name}");
    }
    session.close(consumer).unwrap();
    let hits = session.counters().unwrap().hits;
    session.exec(&execs(EXECS)).unwrap();
    assert_eq!(session.counters().unwrap().hits, hits, "disabled is disabled");
    session.kldunload(MODULE).unwrap();
}
