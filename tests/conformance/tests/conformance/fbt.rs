//! A probe in a function does not prevent the probes of fbt: by each system's own rule, fbt finds the entry at the start of the
//! function, and all its returns.

use std::collections::BTreeSet;

use cargo_sdt::internal::arch::Arch;
use conformance::fbt::Probes;
use conformance::flow::{Flow, decode};
use conformance::sources::Build;
use conformance::unit::{Function, Unit};

use crate::rust;

/// The number of functions: those of `kinds.rs`, and those that also exist in C, with up to five arguments.
const KINDS: usize = 15;
const WITH_C: usize = 12;

/// Returns the offsets of the instructions by which a function returns.
fn returns(unit: &Unit, function: &Function) -> BTreeSet<u64> {
    let code = unit.bytes(function.start, function.len).expect("the function is there");
    let (mut at, mut found) = (0, BTreeSet::new());
    while at < function.len {
        let instruction = decode(unit.arch, &code[at as usize..]);
        let instruction = instruction.unwrap_or_else(|| panic!("{}+{at:#x}", function.name));
        if instruction.flow == Flow::Return {
            found.insert(at);
        }
        at += instruction.len;
    }
    found
}

/// Applies the rule of fbt to each function, with its probe and without it.
fn all_are_kept(arch: Arch, build: Build) {
    let unit = Unit::parse(&rust(arch, build).probes).unwrap();
    let ours = |function: &&Function| {
        let name = function.name.strip_prefix("plain_").unwrap_or(&function.name);
        ["kind_", "leaf_", "calls_"].iter().any(|kind| name.starts_with(kind))
    };
    let functions: Vec<_> = unit.functions().iter().filter(ours).collect();
    assert!(functions.len() >= 2 * (KINDS + WITH_C), "{}", functions.len());
    let mut lost = Vec::new();
    for function in functions {
        let code = unit.bytes(function.start, function.len).expect("the function is there");
        let name = &function.name;
        match Probes::of(arch, code, function.start.offset) {
            Some(probes) if probes.begins_at_entry(arch, code) => {
                let found = probes.returns.iter().copied().collect();
                let missed: Vec<_> = returns(&unit, function).difference(&found).copied().collect();
                if !missed.is_empty() {
                    lost.push(format!("{name}: returns at {missed:x?}"));
                }
            }
            Some(probes) => lost.push(format!("{name}: entry at {:#x}", probes.entry)),
            None => lost.push(format!("{name}: no entry")),
        }
    }
    assert!(lost.is_empty(), "{arch}, {build:?}: {lost:#?}");
}

fn on_every_architecture(build: Build) {
    for arch in Arch::ALL {
        all_are_kept(arch, build);
    }
}

#[test]
fn functions_with_sites_of_freebsd_15() {
    on_every_architecture(Build::Native(15));
}

#[test]
fn functions_with_sites_of_freebsd_14() {
    on_every_architecture(Build::Native(14));
}

#[test]
fn functions_with_sites_of_an_own_provider() {
    on_every_architecture(Build::Provider);
}

#[test]
fn functions_with_sites_of_illumos() {
    all_are_kept(Arch::X86_64, Build::Illumos);
}
