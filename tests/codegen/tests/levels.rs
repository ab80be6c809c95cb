//! With any optimisation, a site is one nop on the hot path, and its record has the nop's address.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

mod support;

use cargo_sdt::internal::targets::CODE_SHAPE;
use codegen::function::SITE_NOP;
use codegen::{Function, Image};
use support::{Build, KERNEL_LIKE, PROFILE};

/// Size of a probe's record.
const PROBE_LEN: u64 = size_of::<sdt_core::Probe>() as u64;

/// Checks all sites. Returns the number of sites with their cold code out of line, and the functions of the other sites.
fn check(image: &Image, level: &str) -> (usize, Vec<String>) {
    let probes = image.section("linkme_SDT_PROBES").expect("there are probes");
    let (mut out_of_line, mut in_between) = (0, Vec::new());
    assert!(!image.sites().is_empty());
    for site in image.sites() {
        let context = format!("level {level}, {site:x?}");
        assert_eq!(image.text(site.patchpoint, 5), Some(&SITE_NOP[..]), "{context}");
        assert!(probes.contains(&site.probe), "{context}");
        assert_eq!((site.probe - probes.start) % PROBE_LEN, 0, "{context}");
        assert_eq!(site.link, 0, "{context}");
        let symbol = image.function_at(site.patchpoint).expect("the nop is in a function");
        assert!(symbol.contains(site.target), "{context}: {symbol:?}");
        let function = Function::analyse(image, symbol).unwrap();
        assert!(function.hot.iter().any(|i| i.address() == site.patchpoint), "{context}");
        assert!(function.cold.iter().any(|i| i.address() == site.target), "{context}");
        let hot_end = function.hot.iter().map(|i| i.address()).max();
        if hot_end < Some(site.target) {
            out_of_line += 1;
        } else {
            in_between.push(symbol.name.clone());
        }
    }
    let patchpoints = image.sites().iter().map(|site| site.patchpoint);
    let distinct: std::collections::BTreeSet<_> = patchpoints.collect();
    assert_eq!(distinct.len(), image.sites().len(), "level {level}: two records for one nop");
    (out_of_line, in_between)
}

/// Compiles at a level, and checks every site. At levels above 0, the cold code must be out of line in all functions, except two
/// at level z.
fn level(level: &str) {
    // Only for the program: cargo compiles its dependencies once, and the program contains the code inlined from them.
    let setting = match level.parse::<u8>() {
        Ok(number) => format!("package.codegen-subjects.opt-level={number}"),
        Err(_) => format!("package.codegen-subjects.opt-level={level:?}"),
    };
    let profile = &[&[&*setting], &PROFILE[..]].concat();
    // As in the targets of kernel modules.
    let own = &CODE_SHAPE;
    let build = Build { package: "codegen-subjects", rustflags: &KERNEL_LIKE, own, profile };
    let image = build.image();
    let (out_of_line, in_between) = check(&image, level);
    assert!(out_of_line > 0);
    // At level z, LLVM optimises the layout for size, and two loops contain their cold blocks. One of them uses more vectors than
    // there are registers.
    let most = if level == "z" { 2 } else { 0 };
    if level != "0" {
        assert!(in_between.len() <= most, "level {level}: {in_between:?} in between");
    }
}

#[test]
fn level_0() {
    level("0");
}

#[test]
fn level_1() {
    level("1");
}

#[test]
fn level_2() {
    level("2");
}

#[test]
fn level_3() {
    level("3");
}

#[test]
fn level_s() {
    level("s");
}

#[test]
fn level_z() {
    level("z");
}
