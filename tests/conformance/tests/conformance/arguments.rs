//! An argument of every kind (`../../probes/src/arguments.rs`), on every architecture: while the probe is disabled, its function
//! consists of its frame, one nop, and its return.

use cargo_sdt::internal::arch::Arch;
use conformance::sources::{self, Build};
use conformance::unit::Unit;

use crate::opte::{hot, room};

/// The number of kinds, and the number of those that need a declaration.
const KINDS: (usize, usize) = (54, 2);

fn each_is_one_nop(build: Build) {
    for arch in Arch::ALL {
        let rust = sources::arguments(arch, build).unwrap();
        let unit = Unit::parse(&rust.probes).unwrap();
        let carrying = |with: &str| {
            let functions = unit.functions().iter().filter(|of| of.name.starts_with(with));
            functions.map(|of| (&*of.name, hot(&unit, of))).collect::<Vec<_>>()
        };
        let (declared, open) = (carrying("carry_declared_"), carrying("carry_open_"));
        assert_eq!((declared.len(), declared.len() - open.len()), KINDS, "{arch}");
        let odd: Vec<_> = declared
            .iter()
            .chain(&open)
            .filter(|(_, hot)| hot.nops != 1 || hot.returns != 1 || hot.others > room(arch))
            .collect();
        assert!(odd.is_empty(), "{arch}, {build:?}: {odd:#?}");
        let more: Vec<_> = declared
            .iter()
            .chain(&open)
            .filter(|(_, hot)| hot.others > 0)
            .map(|(of, _)| of)
            .collect();
        // An argument of more than two words is copied into the stack frame of the cold block.
        assert!(more.len() <= 6, "{arch}, {build:?}: {more:#?}");
    }
}

#[test]
fn each_is_one_nop_by_freebsds_own_sdt() {
    each_is_one_nop(Build::Native(15));
}

#[test]
fn each_is_one_nop_by_a_provider_of_its_own() {
    each_is_one_nop(Build::Provider);
}
