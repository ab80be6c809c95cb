//! The stand-in kernel as illumos's: all firing sites are listed and fire, at each level of optimisation.
#![cfg(target_arch = "x86_64")]

use std::collections::{BTreeMap, BTreeSet};

use cargo_sdt::internal::arch::Arch;
use harness::session::Session;
use sdt_protocol::Exec;

use crate::bench::{boot, name, tally};
use harness::stress::{self, Build};

/// A build with almost the same options as ordinary modules.
pub const O2: Build = Build { level: "2", lto: "thin", frame_pointers: true };

/// Hits of one exec, all probes enabled: what `sdt_stress_fire` returns then.
pub(crate) const HITS: usize = 48;

#[test]
fn all_sites_fire_at_every_level_of_optimisation() {
    let mut session = boot(Arch::X86_64, 1);
    session.illumos().expect("no module is loaded");
    for build in stress::builds() {
        all_sites_fire(&mut session, build);
    }
}

fn all_sites_fire(session: &mut Session, build: Build) {
    let file = build.build().unwrap_or_else(|error| panic!("{build}: {error}"));
    session.kldload_file(&file).unwrap();
    let probes = session.list(name("sdt_stress::")).unwrap();
    let listed: BTreeSet<_> =
        probes.iter().map(|of| format!("{}:::{}", of.provider, of.name)).collect();
    assert_eq!(listed, stress::expected(), "{build}");

    let consumer = session.open().unwrap();
    assert_eq!(session.enable(consumer, name("sdt_stress::")).unwrap() as usize, probes.len());
    session.go(consumer).unwrap();
    let execs: Vec<_> = (0..3).map(|pid| Exec { pid, path: "/bin/true".into() }).collect();
    session.exec(&execs).unwrap();
    session.stop(consumer).unwrap();
    let tally = tally(session, consumer);
    assert_eq!(tally.drops, 0);
    let names: BTreeMap<_, _> = probes.iter().map(|of| (of.id, of.name.as_str())).collect();
    let hits: Vec<_> = tally.records.values().flatten().collect();
    assert_eq!(hits.len(), HITS * execs.len(), "{build}");
    for hit in &hits {
        // For `cheap-4`, each argument is one more than the argument before it.
        let name = names[&hit.probe].trim_start_matches("sdt_stress-");
        let Some((_, count)) = name.rsplit_once('-') else { continue };
        let Ok(count) = count.parse::<usize>() else { continue };
        if name.starts_with("chosen") {
            continue;
        }
        let first = hit.args[0];
        // A site of this project passes the greatest number of arguments, and zeros for those that the probe does not have.
        let expected = std::array::from_fn(|i| if i < count { first + i as u64 } else { 0 });
        assert_eq!(hit.args, expected, "{build}: {}", names[&hit.probe]);
    }
    // Compare names, because copies of a function that no code calls have sites, too.
    let fired: BTreeSet<_> = hits.iter().map(|hit| names[&hit.probe]).collect();
    let silent: Vec<_> = names.values().filter(|name| !fired.contains(*name)).collect();
    assert_eq!(silent, [&"sdt_stress-diverging"], "{build}");
    session.close(consumer).unwrap();
    session.kldunload("sdt_stress").unwrap();
}
