//! With every linker and option, no record is lost and none is duplicated.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use codegen_sets::{ARG_LISTS, PROBES, PROVIDERS, SITES};
use support::{Build, KERNEL_LIKE, PROFILE};

/// The options that endanger linker sets most: the linker drops sections without references, even if `__start_` and
/// `__stop_` symbols bound them.
const STRESS: [&str; 2] = ["-Clink-arg=-Wl,--gc-sections", "-Clink-arg=-Wl,-z,start-stop-gc"];

#[derive(Clone, Copy)]
enum Linker {
    /// lld, as installed with rustc.
    Lld,
    /// GNU ld of the system.
    Gnu,
}

impl Linker {
    const fn flags(self) -> &'static [&'static str] {
        match self {
            // The default of this target.
            Self::Lld => &[],
            Self::Gnu => &["-Clinker-features=-lld"],
        }
    }
}

/// Links the program, runs it, and compares what it has counted with the source.
fn check(linker: Linker, lto: &str, position_independent: bool) {
    let mut rustflags = KERNEL_LIKE;
    if position_independent {
        rustflags[0] = "-Crelocation-model=pic";
    }
    let lto = format!("-Clto={lto}");
    let own = [&STRESS, linker.flags(), &[&*lto]].concat();
    // Several codegen units, so that the records of one set come from many objects.
    let profile = &[&["package.codegen-sets.codegen-units=16"], &PROFILE[..]].concat();
    let build = Build { package: "codegen-sets", rustflags: &rustflags, own: &own, profile };
    let (image, output) = build.then(|path: &Path| {
        let output = Command::new(path).output().expect("the program runs");
        (std::fs::read(path).expect("the program is there"), output)
    });
    let is_lld = image.windows(8).any(|bytes| bytes == b"Linker: ");
    assert_eq!(is_lld, matches!(linker, Linker::Lld), "another linker than asked for");
    assert!(output.status.success(), "{build:?}: {output:?}");
    let text = String::from_utf8(output.stdout).expect("the program writes UTF-8");
    let lines = text.lines().filter_map(|line| line.rsplit_once(' '));
    let found: BTreeMap<_, _> = lines.collect();
    for (what, expected) in [
        ("providers", PROVIDERS),
        ("probes", PROBES),
        ("sites", SITES),
        ("nops", SITES),
        ("sites of known probes", SITES),
        ("argument lists", ARG_LISTS),
    ] {
        assert_eq!(found.get(what), Some(&&*expected.to_string()), "{what}, {build:?}:\n{text}");
    }
}

/// Returns whether GNU ld is on this machine.
fn has_gnu_ld() -> bool {
    let output = Command::new("ld").arg("--version").output();
    output.is_ok_and(|output| output.stdout.starts_with(b"GNU ld"))
}

fn check_gnu(lto: &str) {
    if !has_gnu_ld() {
        println!("no GNU ld on this machine: nothing to test with");
        return;
    }
    check(Linker::Gnu, lto, true);
    if lto == "off" {
        check(Linker::Gnu, lto, false);
    }
}

fn check_lld(lto: &str) {
    check(Linker::Lld, lto, true);
    if lto == "off" {
        check(Linker::Lld, lto, false);
    }
}

#[test]
fn lld() {
    check_lld("off");
}

#[test]
fn lld_with_thin_lto() {
    check_lld("thin");
}

#[test]
fn lld_with_fat_lto() {
    check_lld("fat");
}

#[test]
fn gnu_ld() {
    check_gnu("off");
}

#[test]
fn gnu_ld_with_thin_lto() {
    check_gnu("thin");
}

#[test]
fn gnu_ld_with_fat_lto() {
    check_gnu("fat");
}
