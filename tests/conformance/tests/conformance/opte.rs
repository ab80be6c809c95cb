//! The functions that fire OPTE's probes (`tests/modules/opte`), with arguments of every kind, disassembled: while its probe is
//! disabled, each consists of its frame, one nop, and its return.

use std::collections::BTreeMap;

use cargo_sdt::internal::arch::Arch;
use conformance::code::reachable;
use conformance::flow::{Flow, decode};
use conformance::sources::{Build, package};
use conformance::unit::{Function, Unit};

/// The work of a function while its probe is disabled, besides setting up and leaving its frame.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Hot {
    pub(crate) nops: usize,
    pub(crate) returns: usize,
    /// Other instructions. If the cold block needs room on the stack, these reserve and release it.
    pub(crate) others: usize,
}

pub(crate) fn hot(unit: &Unit, function: &Function) -> Hot {
    let reached = reachable(unit, function, function.start, &BTreeMap::new());
    let mut hot = Hot::default();
    for (offset, len) in reached.expect("it is code") {
        let code = unit.bytes(function.start.after(offset - function.start.offset), len);
        let instruction = decode(unit.arch, code.expect("it is there")).expect("it is one");
        match instruction.flow {
            _ if instruction.nop => hot.nops += 1,
            _ if instruction.frame => {}
            Flow::Return => hot.returns += 1,
            _ => hot.others += 1,
        }
    }
    hot
}

/// Returns the number of instructions that reserve and release room on the stack: at the entry and before the return.
pub(crate) fn room(arch: Arch) -> usize {
    match arch {
        Arch::X86_64 => 2,
        Arch::Aarch64 | Arch::Riscv64 => 4,
    }
}

fn each_is_one_nop(build: Build) {
    for arch in Arch::ALL {
        let rust = package("opte", "xde_probes", arch, build).unwrap();
        let unit = Unit::parse(&rust.probes).unwrap();
        let fires = unit.functions().iter().filter(|of| of.name.starts_with("fire_"));
        let all: Vec<_> = fires.map(|function| (&function.name, hot(&unit, function))).collect();
        assert_eq!(all.len(), 47, "{arch}: {all:?}");
        let odd: Vec<_> = all
            .iter()
            .filter(|(_, hot)| hot.nops != 1 || hot.returns != 1 || hot.others > room(arch))
            .collect();
        assert!(odd.is_empty(), "{arch}, {build:?}: {odd:#?}");
        let bare = all.iter().filter(|(_, hot)| hot.others == 0).count();
        assert!(bare >= 40, "{arch}, {build:?}: {bare} of 47 have nothing but the nop: {all:#?}");
    }
}

#[test]
fn each_is_one_nop_by_freebsds_own_sdt() {
    each_is_one_nop(Build::Native(15));
}

#[test]
fn each_is_one_nop_by_providers_of_its_own() {
    each_is_one_nop(Build::Provider);
}
