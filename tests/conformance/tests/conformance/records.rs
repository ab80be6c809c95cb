//! Compares all records that are reachable from the linker sets.

use std::collections::BTreeMap;

use cargo_sdt::internal::arch::Arch;
use conformance::layout::layouts;
use conformance::records::{self, Name, Records};
use conformance::sources::Build;
use conformance::unit::Unit;

use crate::{c, rust, zig};

/// The records of the providers that both sides declare.
fn ours(records: Records) -> Records {
    let ours = |name: &Name| match name {
        Name::Provider(provider) => provider.starts_with("conformance"),
        Name::Probe(probe) | Name::Argument(probe, _) => probe[0].starts_with("conformance"),
        Name::Site(function, _) => function.starts_with("fire_"),
    };
    records.into_iter().filter(|(name, _)| ours(name)).collect()
}

/// The number of records of each kind.
fn count(records: &Records) -> [usize; 4] {
    let mut count = [0; 4];
    for name in records.keys() {
        count[match name {
            Name::Provider(_) => 0,
            Name::Probe(_) => 1,
            Name::Argument(..) => 2,
            Name::Site(..) => 3,
        }] += 1;
    }
    count
}

/// Compares the bytes, the pointers with their relocations and targets, and the protection of every record. Returns the number of
/// records of each kind.
fn compare(freebsd: u32, arch: Arch) -> Option<[usize; 4]> {
    let zig = zig(freebsd)?;
    let layouts: BTreeMap<_, _> = layouts(&c(&zig, arch, "layouts.c", &["-g"])).unwrap();
    let read = |object: &[u8]| {
        let records = records::read(&Unit::parse(object).unwrap(), &layouts);
        ours(records.unwrap_or_else(|error| panic!("FreeBSD {freebsd}, {arch}: {error:#}")))
    };
    let c = read(&c(&zig, arch, "records.c", &[]));
    let rust = read(&rust(arch, Build::Native(freebsd)).probes);
    for (name, record) in &c {
        assert_eq!(rust.get(name), Some(record), "FreeBSD {freebsd}, {arch}: {name:?}");
    }
    assert!(rust.keys().eq(c.keys()), "FreeBSD {freebsd}, {arch}: {:?}", rust.keys());
    Some(count(&c))
}

#[test]
fn records_of_15() {
    for arch in Arch::ALL {
        let Some(count) = compare(15, arch) else { return };
        assert_eq!(count, [2, 9, 24, 11], "{arch}");
    }
}

#[test]
fn records_of_14() {
    for arch in Arch::ALL {
        let Some(count) = compare(14, arch) else { return };
        assert_eq!(count, [1, 8, 18, 0], "{arch}");
    }
}
