//! Hosts that are not kernel modules: they use registers that kernels do not use, and instruction sets that FreeBSD does not
//! support.

use std::collections::BTreeMap;

use cargo_sdt::internal::arch::Arch;
use conformance::code::reachable;
use conformance::fbt::Probes;
use conformance::sources::{Build, Host};
use conformance::unit::{Function, Place, Unit};

use crate::rust;

/// The options with which kernels are compiled.
const FRAMES: [&str; 2] = ["-Cforce-frame-pointers=yes", "-Cllvm-args=-enable-shrink-wrap=false"];

const NEON: Build = Build::Host(Host { target: "aarch64-unknown-none", flags: &FRAMES });

const LANDING_PADS: Build = Build::Host(Host {
    target: "aarch64-unknown-none",
    flags: &[FRAMES[0], FRAMES[1], "-Zbranch-protection=bti,pac-ret"],
});

const VECTORS: Build = Build::Host(Host {
    target: "riscv64gc-unknown-none-elf",
    flags: &[FRAMES[0], FRAMES[1], "-Ctarget-feature=+v"],
});

const WITHOUT_C: Build = Build::Host(Host {
    target: "riscv64imac-unknown-none-elf",
    flags: &[FRAMES[0], FRAMES[1], "-Ctarget-feature=-c,-zca"],
});

/// Size of a site's record.
const SITE_LEN: usize = 32;

const NOP: u32 = 0xd503_201f;

fn unit(arch: Arch, build: Build) -> Unit {
    Unit::parse(&rust(arch, build).probes).unwrap()
}

/// Returns the four-byte instructions at these offsets of a function.
fn words(unit: &Unit, function: &Function, code: &BTreeMap<u64, u64>) -> Vec<u32> {
    let word = |(&offset, &len): (&u64, &u64)| {
        let at = function.start.after(offset - function.start.offset);
        (len == 4).then(|| u32::from_le_bytes(unit.bytes(at, 4).unwrap().try_into().unwrap()))
    };
    code.iter().filter_map(word).collect()
}

/// Returns the places of each site: its nop and its cold code.
fn sites(unit: &Unit) -> Vec<[Place; 2]> {
    let records = unit.pieces("sdt_sites").flat_map(|(section, start)| {
        let starts = (0..section.bytes.len() as u64).step_by(SITE_LEN);
        starts.map(move |at| start.after(at))
    });
    records.map(|record| [8, 16].map(|at| unit.address(record.after(at)).unwrap())).collect()
}

/// Returns the hot part of a function, and the cold part of its only site.
fn parts(unit: &Unit, name: &str) -> [Vec<u32>; 2] {
    let function = unit.function(name).unwrap();
    let hot = reachable(unit, function, function.start, &BTreeMap::new()).unwrap();
    let site = sites(unit).into_iter().find(|[patchpoint, _]| function.contains(*patchpoint));
    let target = site.map_or(function.start, |[_, target]| target);
    let cold = reachable(unit, function, target, &hot).unwrap();
    [words(unit, function, &hot), words(unit, function, &cold)]
}

/// `count` bits of an instruction, the lowest of them `low`.
const fn bits(word: u32, low: u32, count: u32) -> u32 {
    word >> low & ((1 << count) - 1)
}

/// The vector registers that an instruction of aarch64's stores relative to the stack pointer.
fn stored_vectors(word: u32) -> Vec<u32> {
    let pair = bits(word, 25, 5) == 0b10110;
    let single = bits(word, 24, 6) == 0b111101 || bits(word, 24, 6) == 0b111100;
    let (stores, to_stack) = (bits(word, 22, 1) == 0, bits(word, 5, 5) == 31);
    match (pair, single) {
        (true, _) if stores && to_stack => vec![bits(word, 0, 5), bits(word, 10, 5)],
        (_, true) if stores && to_stack => vec![bits(word, 0, 5)],
        _ => Vec::new(),
    }
}

/// Returns whether an instruction of aarch64's, other than of vectors, reads a general register.
fn reads(word: u32, register: u32) -> bool {
    let is = |low| bits(word, low, 5) == register;
    let (t, n, t2, m) = (is(0), is(5), is(10), is(16));
    match bits(word, 25, 4) {
        // Immediates; ADR, ADRP, MOVZ and MOVN read nothing.
        0b1000 | 0b1001 => match bits(word, 23, 3) {
            0b000 | 0b001 => false,
            0b101 => bits(word, 29, 2) == 0b11 && t,
            _ => n,
        },
        // Branches by a register, and by its value.
        0b1010 | 0b1011 => match bits(word, 29, 3) {
            0b110 => n,
            0b001 | 0b101 => t,
            _ => false,
        },
        // Registers; with three sources.
        0b0101 => n || m,
        0b1101 => n || m || bits(word, 24, 5) == 0b11011 && t2,
        // Loads and stores.
        0b0100 | 0b0110 | 0b1100 | 0b1110 if bits(word, 26, 1) == 0 => {
            let store = bits(word, 22, 2) == 0;
            let pair = bits(word, 27, 3) == 0b101;
            n || store && (t || pair && t2)
        }
        _ => false,
    }
}

/// Returns whether an instruction writes a general register, according to the same tables. Covers the instructions with which
/// compilers save and restore registers.
fn writes(word: u32, register: u32) -> bool {
    let is = |low| bits(word, low, 5) == register;
    match bits(word, 25, 4) {
        0b1000 | 0b1001 | 0b0101 | 0b1101 => is(0),
        0b0100 | 0b0110 | 0b1100 | 0b1110 if bits(word, 26, 1) == 0 => {
            bits(word, 22, 2) != 0 && (is(0) || bits(word, 27, 3) == 0b101 && is(10))
        }
        _ => false,
    }
}

/// A function that must preserve v8 to v15 saves them at its entry, even while its probe is disabled. A site must not cause this.
#[test]
fn vector_registers_cost_the_hot_path_nothing() {
    let preserved = |word: &u32| stored_vectors(*word).iter().any(|v| (8..16).contains(v));
    for build in [NEON, LANDING_PADS] {
        let unit = unit(Arch::Aarch64, build);
        let ([plain, _], [hot, cold]) =
            (parts(&unit, "plain_host_floats"), parts(&unit, "host_floats"));
        assert!(!plain.iter().any(preserved), "{build:?}: {plain:08x?}");
        assert!(!hot.iter().any(preserved), "{build:?}: {hot:08x?}");
        // The cold block saves the registers that a callee may change.
        assert!(
            cold.iter().any(|word| !stored_vectors(*word).is_empty()),
            "{build:?}: {cold:08x?}"
        );
    }
    let unit = unit(Arch::Riscv64, VECTORS);
    let [hot, cold] = parts(&unit, "host_floats");
    let [plain, _] = parts(&unit, "plain_host_floats");
    assert_eq!(hot.len(), plain.len() + 1, "{hot:08x?}");
    assert!(!cold.is_empty());
}

/// The thunk preserves the parts of v8 to v15 that a called function may change: their upper halves.
#[test]
fn thunks_preserve_what_functions_preserve_in_part() {
    // `stp q8, q9`, ... and `ldp`, with any offset and form.
    let pair = |store: bool, v: u32| {
        move |word: &u32| {
            bits(*word, 25, 7) == 0b1010110
                && bits(*word, 22, 1) == u32::from(!store)
                && bits(*word, 0, 5) == v
                && bits(*word, 10, 5) == v + 1
        }
    };
    let thunk = |unit: &Unit| -> Vec<u32> {
        let thunk = unit
            .functions()
            .iter()
            .find(|function| function.name.contains("8sdt_core5thunk5thunk"));
        let thunk = thunk.expect("a thunk for one argument");
        let code = (0..thunk.len / 4).map(|i| (thunk.start.offset + 4 * i, 4)).collect();
        words(unit, thunk, &code)
    };
    let code = thunk(&unit(Arch::Aarch64, NEON));
    for v in [8, 10, 12, 14] {
        for store in [true, false] {
            assert_eq!(code.iter().filter(|word| pair(store, v)(word)).count(), 1, "{code:08x?}");
        }
    }
}

/// A linker may put a veneer between a `bl` and the thunk, which changes x16 and x17. On this target, x18 is an ordinary
/// register.
#[test]
fn what_a_veneer_changes_is_not_alive_behind_it() {
    let unit = unit(Arch::Aarch64, NEON);
    let function = unit.function("host_words").unwrap();
    let code = (0..function.len / 4).map(|i| (function.start.offset + 4 * i, 4)).collect();
    let code = words(&unit, function, &code);
    let [hot, cold] = parts(&unit, "host_words");
    let call = cold.iter().position(|word| bits(*word, 26, 6) == 0b100101).expect("a bl");
    // The code after the call, and the code to which the cold block returns: after the site.
    let site = hot.iter().position(|word| *word == NOP).expect("a site");
    let behind = [&cold[call + 1..], &hot[site + 1..]].concat();
    for register in [16, 17, 18] {
        let first = behind.iter().find(|&&word| reads(word, register) || writes(word, register));
        let read = first.is_some_and(|&word| reads(word, register));
        assert!(!read, "x{register}: {code:08x?}");
    }
}

/// Landing pads and signed return addresses: fbt still finds the entries, and sites are one nop.
#[test]
fn sites_among_landing_pads() {
    const BTI_C: u32 = 0xd503_245f;
    const PACIASP: u32 = 0xd503_233f;
    let unit = unit(Arch::Aarch64, LANDING_PADS);
    for kind in ["leaf_2", "calls_2", "kind_leaf", "kind_tail_call", "kind_first"] {
        let function = unit.function(kind).unwrap();
        let code = unit.bytes(function.start, function.len).unwrap();
        let first = u32::from_le_bytes(*code.first_chunk().unwrap());
        assert!([BTI_C, PACIASP].contains(&first), "{kind}: {first:#x}");
        let probes = Probes::of(Arch::Aarch64, code, function.start.offset).unwrap();
        assert!(probes.begins_at_entry(Arch::Aarch64, code), "{kind}: {probes:?}");
        let ([plain, _], [hot, cold]) =
            (parts(&unit, &format!("plain_{kind}")), parts(&unit, kind));
        assert_eq!(hot.len(), plain.len() + 1, "{kind}: {hot:08x?}");
        // A direct jump, or the end of an exception, leads there.
        assert!(!cold.is_empty() && ![BTI_C, PACIASP].contains(&cold[0]), "{kind}: {cold:08x?}");
    }
}

/// Without 2-byte instructions there is no 2-byte breakpoint, and the whole site is replaced by one store.
#[test]
fn a_machine_without_c() {
    let has = |unit: &Unit, code: &[u8]| {
        let (section, _) = unit
            .section(".rodata.HOST_ENCODING")
            .or_else(|_| unit.section(".data.rel.ro.HOST_ENCODING"))
            .unwrap();
        section.bytes.windows(code.len()).any(|bytes| bytes == code)
    };
    let (short, long) = (&[0x02, 0x90][..], &[0x73, 0x00, 0x10, 0x00][..]);
    let with = unit(Arch::Riscv64, VECTORS);
    assert!(has(&with, short) && !has(&with, long));
    let without = unit(Arch::Riscv64, WITHOUT_C);
    assert!(!has(&without, short) && has(&without, long));
    let sites = sites(&without);
    assert!(sites.len() > 30, "{}", sites.len());
    for [patchpoint, target] in sites {
        assert!(patchpoint.offset % 4 == 0 && target.offset % 4 == 0, "{patchpoint:?} {target:?}");
    }
}
