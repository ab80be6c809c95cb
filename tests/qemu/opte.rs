//! The probes of OPTE, a driver in Rust, with the types of their arguments (`tests/modules/opte`): all are listed, and
//! each hit has the arguments that were passed. Each exec fires them all, with a number of its own.

use std::collections::BTreeMap;
use std::path::Path;

use cargo_sdt::internal::arch::Arch;
use cargo_sdt::internal::module::Module;
use cargo_sdt::internal::platform::{FreeBsd, Route};
use harness::session::Session;
use harness::workspace;

use crate::bench::{boot, build_module, name, on_every_route, tally};

const EXECS: u32 = 20;

/// An argument: its C type, and how its value is made.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Argument {
    c_type: &'static str,
    value: &'static str,
}

impl Argument {
    /// Returns whether a word is the value for the `n`th exec.
    fn is(self, word: u64, n: u64) -> bool {
        // Kernel addresses have the highest bit set.
        let is_address = (word as i64) < 0;
        match self.value {
            "@" => is_address,
            "@even" => is_address == (n & 1 == 0) && (is_address || word == 0),
            "path" => word == if n & 1 == 0 { 2 } else { 1 },
            "n" => word == n,
            "n+1" => word == n + 1,
            "n+2" => word == n + 2,
            "-n" => word == n.wrapping_neg(),
            number => word == number.parse::<u64>().expect("a number"),
        }
    }
}

/// A probe.
#[derive(Debug)]
struct Probe {
    provider: &'static str,
    name: &'static str,
    arguments: Vec<Argument>,
}

fn probes() -> Vec<Probe> {
    let lines = include_str!("../modules/opte/expected.txt").lines();
    lines
        .map(|line| {
            let mut parts = line.split(" | ");
            let (provider, name) = parts.next().unwrap().split_once(' ').expect("two names");
            let argument = |part: &'static str| {
                let (c_type, value) = part.rsplit_once(' ').expect("a type and a value");
                Argument { c_type, value }
            };
            Probe { provider, name, arguments: parts.map(argument).collect() }
        })
        .collect()
}

/// Traces all probes of `specs`, and checks the arguments of each hit. `take` is the number of arguments that the route supports.
fn all_arrive(session: &mut Session, specs: &[&str], take: usize) {
    let mut ids = BTreeMap::new();
    for spec in specs {
        for probe in session.list(name(spec)).unwrap() {
            ids.insert(probe.id, probe.name);
        }
    }
    assert_eq!(ids.len(), 47, "{ids:?}");
    let consumer = session.open().unwrap();
    for spec in specs {
        assert!(session.enable(consumer, name(spec)).unwrap() > 0, "{spec}");
    }
    session.go(consumer).unwrap();
    session.exec(&crate::arguments::execs(EXECS)).unwrap();
    session.stop(consumer).unwrap();
    let tally = tally(session, consumer);
    session.close(consumer).unwrap();
    assert_eq!((tally.drops, tally.hits()), (0, 47 * u64::from(EXECS)));
    // illumos's own sdt lists all probes under one provider.
    let listed = |probe: &Probe| match specs {
        ["sdt:xde_probes::"] => format!("{}-{}", probe.provider, probe.name),
        _ => probe.name.to_string(),
    };
    for probe in probes() {
        let records: Vec<_> = tally
            .records
            .values()
            .flatten()
            .filter(|record| ids[&record.probe] == listed(&probe))
            .collect();
        assert_eq!(records.len(), EXECS as usize, "{}", probe.name);
        for record in records {
            // A record does not name its exec. Its arguments must match those of one exec.
            let is_of = |n: u64| {
                let mut arguments = probe.arguments.iter().take(take).zip(record.args);
                arguments.all(|(argument, word)| argument.is(word, n))
            };
            assert!((0..u64::from(EXECS)).any(is_of), "{}: {record:x?}", probe.name);
        }
    }
}

on_every_route!(all_are_listed_with_their_types_and_arrive);

fn all_are_listed_with_their_types_and_arrive(arch: Arch, route: Route) {
    let most = if route == Route::Native { 6 } else { 10 };
    listed_and_arriving(&mut boot(arch, 2), &build_module("opte", arch, route), most);
}

/// Releases before 15 support five arguments; their sites test a flag.
#[test]
fn all_arrive_where_five_arguments_are_all() {
    let freebsd = FreeBsd::major_release(13).unwrap();
    let module = Module { package: "opte".into(), freebsd, ..workspace::example(Arch::X86_64) };
    let mut session = boot(Arch::X86_64, 2);
    session.freebsd(freebsd.kernel_version() as i32).unwrap();
    listed_and_arriving(&mut session, &module.build(None).expect("it can be built"), 5);
}

/// Loads the module, compares the listed types, and traces all probes. `most` is the number of arguments that the route supports.
fn listed_and_arriving(session: &mut Session, file: &Path, most: usize) {
    session.kldload_file(file).unwrap();
    for Probe { provider, name, arguments } in probes() {
        let listed = session.list(format!("{provider}:xde_probes::{name}")).unwrap();
        assert_eq!(listed.len(), 1, "{provider}:::{name}");
        let types: Vec<_> = session
            .describe(listed[0].id)
            .unwrap()
            .types
            .into_iter()
            .map(|of| match of.translated {
                Some(translated) => format!("{} > {translated}", of.native),
                None => of.native,
            })
            .collect();
        let expected: Vec<_> = arguments.iter().take(most).map(|of| of.c_type).collect();
        assert_eq!(types, expected, "{provider}:::{name}");
    }
    all_arrive(session, &["opte:::", "xde:::"], most);
}

#[cfg(target_arch = "x86_64")]
mod illumos {
    use cargo_sdt::internal::platform::Os;

    use super::*;
    use crate::illumos::boot_illumos;

    fn module(route: Route) -> Module {
        let package = "opte".into();
        Module { os: Os::Illumos, route, package, ..workspace::example(Arch::X86_64) }
    }

    /// illumos's own sdt lists each probe under the provider `sdt`, by the function that fires it, without types.
    #[test]
    fn all_arrive_by_its_own_sdt() {
        let mut session = boot_illumos(2);
        session.kldload_file(&module(Route::Native).build(None).unwrap()).unwrap();
        for Probe { provider, name, .. } in probes() {
            let function = format!("fire_{provider}_{}", name.replace('-', "_"));
            let listed =
                session.list(format!("sdt:xde_probes:{function}:{provider}-{name}")).unwrap();
            assert_eq!(listed.len(), 1, "{function}:{name}");
        }
        all_arrive(&mut session, &["sdt:xde_probes::"], 10);
    }

    #[test]
    fn all_arrive_by_providers_of_its_own() {
        let mut session = boot_illumos(2);
        let module = module(Route::Provider);
        let companion = module.companion().expect("a provider of its own is by a companion");
        for module in [module, companion] {
            session.kldload_file(&module.build(None).unwrap()).unwrap();
        }
        all_arrive(&mut session, &["opte:::", "xde:::"], 10);
    }
}
