//! The records of the kernel's sdt: every rule, broken once.

use object::elf;
use proptest::prelude::*;

use super::module;
use super::relocatable_fixture::{ARGUMENTS, CODE, Fixture, PROBE, READ_ONLY, RECORDS, relocation};
use crate::check::FreeBsdSummary;
use crate::platform::{FreeBsd, Route};

fn release(text: &str) -> FreeBsd {
    text.parse().expect("a release")
}

/// Returns the findings in the fixture for a release after a change.
fn said_of(freebsd: &str, change: impl FnOnce(&mut Fixture)) -> Vec<String> {
    let mut fixture = Fixture::native(release(freebsd));
    change(&mut fixture);
    super::said_of(module(&fixture.file()).map(|summary| summary.warnings))
}

/// Returns the only finding.
fn only_of(freebsd: &str, change: impl FnOnce(&mut Fixture)) -> String {
    let mut said = said_of(freebsd, change);
    assert_eq!(said.len(), 1, "{said:#?}");
    said.remove(0)
}

fn only(change: impl FnOnce(&mut Fixture)) -> String {
    only_of("15", change)
}

/// The relocations of the records.
const RELOCATIONS: &str = ".rela.data.sdt";

/// Lets a member of the records point to something else.
fn point(f: &mut Fixture, member: u64, addend: i64) {
    let of = f.relocations(RELOCATIONS).iter_mut().find(|of| of.r_offset == member);
    of.expect("there is a pointer").r_addend = addend;
}

/// Makes a member of the records NULL.
fn null(f: &mut Fixture, member: u64) {
    f.relocations(RELOCATIONS).retain(|of| of.r_offset != member);
}

/// The offset of the probe's name on FreeBSD 15; its function and module are before it.
const NAME: u64 = PROBE + 80;
const FUNCTION: u64 = NAME - 8;
const MODULE: u64 = NAME - 16;

#[test]
fn the_fixtures_are_good() {
    for freebsd in ["10", "11", "12", "1304000", "14", "15", "1500068"] {
        let summary = module(&Fixture::native(release(freebsd)).file()).expect(freebsd);
        let sites = u64::from(release(freebsd).major() == 15);
        let expected = FreeBsdSummary {
            modules: vec!["proc_example".into()],
            release: release(freebsd),
            route: Some(Route::Native),
            depends: vec!["kernel".into()],
            providers: 1,
            probes: 1,
            sites,
            size: summary.size,
            says_release: true,
            warnings: Vec::new(),
        };
        assert_eq!(summary, expected);
        let line = summary.to_string();
        let expected =
            format!("module proc_example for FreeBSD {freebsd}, route native, depends on ");
        assert!(line.starts_with(&expected), "{line}");
    }
}

#[test]
fn records_of_the_other_generation() {
    let version = |version| move |f: &mut Fixture| f.data(RECORDS)[PROBE as usize] = version;
    let line = said_of("15", version(96)).remove(0);
    assert_eq!(
        line,
        ".data.sdt+0x40: sdt_probe record of version 96; FreeBSD 15 supports only 112, and would write beyond the record"
    );
    let line = said_of("14", version(112)).remove(0);
    assert!(line.contains("version 112; FreeBSD 14 supports only 96"), "{line}");
    // The records are of 15, the rest of the module is for 14.
    let lines = said_of("15", |f| {
        f.data(".rodata")[136..148]
            .copy_from_slice(&[1_400_000_u32, 1_400_000, 1_499_999].map(u32::to_le_bytes).concat());
    });
    assert!(lines[0].contains("version 112; FreeBSD 14 supports only 96"), "{lines:#?}");
    let expected = "set_sdt_tracepoint_set: tracepoint records, which FreeBSD 14 does not support: the sites would never fire";
    assert!(lines.iter().any(|line| line == expected), "{lines:#?}");
}

#[test]
fn sets_of_pieces() {
    for set in ["set_sdt_providers_set", "set_sdt_probes_set", "set_sdt_argtypes_set"] {
        let lines = said_of("15", |f| f.data(set).push(0));
        assert!(
            lines[0].contains("bytes are not a multiple of the size of pointers"),
            "{lines:#?}"
        );
    }
    let line = only(|f| f.data("set_sdt_tracepoint_set").push(0));
    let expected = "33 bytes are not a multiple of the size of site records (32 bytes each)";
    assert_eq!(line, format!("set_sdt_tracepoint_set: {expected}"));
    let line = only(|f| {
        f.section("set_sdt_tracepoint_set", READ_ONLY, Vec::new());
    });
    let expected = "2 sections of this name; FreeBSD's loader finds the first one only";
    assert_eq!(line, format!("set_sdt_tracepoint_set: {expected}"));
}

#[test]
fn records_that_cannot_be_written_or_are_not_whole() {
    let lines = said_of("15", |f| f.named(RECORDS).sh_flags = READ_ONLY);
    for record in ["provider", "probe", "argtype"] {
        let expected =
            format!("a struct sdt_{record} points into .data.sdt, which is not writable");
        assert!(lines.iter().any(|line| line.ends_with(&expected)), "{record}: {lines:#?}");
    }
    let line = only(|f| {
        f.data(RECORDS).truncate(ARGUMENTS as usize + 88);
        null(f, ARGUMENTS + 88);
    });
    assert_eq!(line, ".data.sdt+0xf0: not the 48 bytes of a struct sdt_argtype");
}

#[test]
fn what_is_the_kernels_is_0() {
    for (member, what) in [
        (8, "the list entry of a struct sdt_provider"),
        (24, "the id or count of a struct sdt_provider"),
        (32, "the id or count of a struct sdt_provider"),
        (PROBE + 16, "a list of a struct sdt_probe"),
        (PROBE + 63, "a list of a struct sdt_probe"),
        (PROBE + 88, "the id, count or file of a struct sdt_probe"),
        (PROBE + 96, "the id, count or file of a struct sdt_probe"),
        (PROBE + 111, "the id, count or file of a struct sdt_probe"),
        (ARGUMENTS + 24, "the list entry of a struct sdt_argtype"),
    ] {
        let line = only(|f| f.data(RECORDS)[member as usize] = 1);
        assert!(
            line.ends_with(&format!("{what} is not 0, and the kernel assumes that it is")),
            "{line}"
        );
    }
    // Before 15 what was a list is a string.
    let line = only_of("13", |f| f.data(RECORDS)[PROBE as usize + 72] = 1);
    assert_eq!(
        line,
        ".data.sdt+0x88: the id, count or file of a struct sdt_probe is not 0, and the kernel assumes that it is"
    );
    let line = only(|f| {
        let own = f.relocations(RELOCATIONS)[1].symbol.expect("the records' symbol");
        let pointer = relocation(PROBE + 32, own, elf::R_X86_64_64, 0);
        f.relocations(RELOCATIONS).push(pointer);
    });
    assert!(line.contains("a list of a struct sdt_probe is not 0"), "{line}");
    let line = only(|f| f.named("set_sdt_tracepoint_set").sh_flags = READ_ONLY);
    assert!(line.starts_with("set_sdt_tracepoint_set: not writable; "), "{line}");
    let line = only(|f| {
        let notes = f.section(".notes", elf::SectionFlags(0), vec![0; 8]);
        f.symbol("noted", Some(notes), elf::STB_GLOBAL);
    });
    assert!(
        line.starts_with("symbol noted: a global symbol in .notes, which is not loaded"),
        "{line}"
    );
    let line = only(|f| f.data("set_sdt_tracepoint_set")[24] = 1);
    assert_eq!(
        line,
        "set_sdt_tracepoint_set+0x18: the site's link is not 0, and the kernel assumes that it is"
    );
}

#[test]
fn probes_without_a_provider() {
    let line = only(|f| point(f, PROBE + 8, 8));
    let expected = "the probe's provider is not the address of a record of set_sdt_providers_set";
    assert_eq!(line, format!(".data.sdt+0x48: {expected}"));
    let line = only(|f| null(f, PROBE + 8));
    assert_eq!(line, format!(".data.sdt+0x48: {expected}"));
    let kernels = |name| {
        move |f: &mut Fixture| {
            let kernels = f.symbol(name, None, elf::STB_GLOBAL);
            null(f, PROBE + 8);
            f.relocations(RELOCATIONS).push(relocation(PROBE + 8, kernels, elf::R_X86_64_64, 0));
        }
    };
    let mut fixture = Fixture::native(release("15"));
    kernels("sdt_provider_sdt")(&mut fixture);
    module(&fixture.file()).expect("a probe of the kernel's own provider");
    let line = only(kernels("panicstr"));
    assert_eq!(line, format!(".data.sdt+0x48: {expected}"));
}

#[test]
fn strings_that_are_missing() {
    for (member, what) in [
        (0, "the provider's name"),
        (MODULE, "the string of the probe's module"),
        (FUNCTION, "the string of the probe's function"),
        (NAME, "the probe's name"),
    ] {
        let line = only(|f| null(f, member));
        let expected = format!("{what} is not the address of anything in this module");
        assert_eq!(line, format!(".data.sdt+{member:#x}: {expected}"));
    }
    let line = only(|f| {
        let end = f.data(".rodata.names").len();
        f.data(".rodata.names")[end - 1] = b'x';
    });
    let expected = "the argument's translated type is not the address of anything in this module";
    assert_eq!(line, format!(".data.sdt+0x100: {expected}"));
}

/// Puts a string behind the others and lets a member point to it.
fn rename(f: &mut Fixture, member: u64, name: &str) {
    let strings = f.data(".rodata.names");
    let at = strings.len() as i64;
    strings.extend(name.bytes().chain([0]));
    let symbol = f.relocations(RELOCATIONS).iter().find(|of| of.r_offset == NAME);
    let symbol = symbol.expect("there is a name").symbol.expect("of a symbol");
    null(f, member);
    f.relocations(RELOCATIONS).push(relocation(member, symbol, elf::R_X86_64_64, at));
}

#[test]
fn names_that_dtrace_does_not_take() {
    let long = |length| "n".repeat(length);
    for (member, name, said) in [
        (
            0,
            "a-b:",
            "provider name \"a-b:\" contains ':', which a probe description cannot contain",
        ),
        (0, "", "provider name \"\" is empty"),
        (0, &long(64), "is longer than 63 bytes"),
        (NAME, "a b", "probe name \"a b\" contains ' ', which a probe description cannot contain"),
        (NAME, &long(64), "is longer than 63 bytes"),
        (FUNCTION, &long(192), "is longer than 191 bytes"),
        (
            MODULE,
            "other",
            "the probe's module name \"other\" is neither empty nor the name of this module: ",
        ),
        (ARGUMENTS + 8, &long(128), "is longer than 127 bytes"),
        (ARGUMENTS + 48 + 16, &long(128), "is longer than 127 bytes"),
    ] {
        let line = only(|f| rename(f, member, name));
        assert!(line.contains(said), "{line}");
    }
    // Two underscores become one dash. A record may contain the name of its own module.
    let mut fixture = Fixture::native(release("15"));
    rename(&mut fixture, NAME, &format!("{}__x", long(61)));
    rename(&mut fixture, FUNCTION, &long(191));
    rename(&mut fixture, MODULE, "proc_example");
    rename(&mut fixture, ARGUMENTS + 8, &long(127));
    module(&fixture.file()).expect("what just fits");
}

#[test]
fn one_record_for_each_probe() {
    // A second record in place of the arguments'.
    let twice = |name: &'static str| {
        move |f: &mut Fixture| {
            let probe = f.data(RECORDS)[PROBE as usize..PROBE as usize + 112].to_vec();
            f.data(RECORDS)[ARGUMENTS as usize..].fill(0);
            let size = f.data(RECORDS).len().max(ARGUMENTS as usize + 112);
            f.data(RECORDS).resize(size, 0);
            f.data(RECORDS)[ARGUMENTS as usize..ARGUMENTS as usize + 112].copy_from_slice(&probe);
            f.relocations(RELOCATIONS).retain(|of| of.r_offset < ARGUMENTS);
            let copies: Vec<_> = f
                .relocations(RELOCATIONS)
                .iter()
                .filter(|of| of.r_offset >= PROBE)
                .map(|of| (of.r_offset + ARGUMENTS - PROBE, of.symbol, of.r_addend))
                .collect();
            for (at, symbol, addend) in copies {
                let copy = relocation(at, symbol.expect("a symbol"), elf::R_X86_64_64, addend);
                f.relocations(RELOCATIONS).push(copy);
            }
            rename(f, ARGUMENTS + 80, name);
            // The set of arguments is one of probes now.
            for set in ["set_sdt_argtypes_set", ".relaset_sdt_argtypes_set"] {
                f.named(set).delete = true;
            }
            f.data("set_sdt_probes_set").resize(16, 0);
            let of = &f.relocations(".relaset_sdt_probes_set")[0];
            let symbol = of.symbol.expect("a symbol");
            let second = relocation(8, symbol, elf::R_X86_64_64, ARGUMENTS.cast_signed());
            f.relocations(".relaset_sdt_probes_set").push(second);
        }
    };
    let line = only(twice("exec-success"));
    assert_eq!(
        line,
        "warning: .data.sdt+0xc0: another record of probe proc:::exec-success, like the one at \
         .data.sdt+0x40; the kernel would enable only the first"
    );
    let mut fixture = Fixture::native(release("15"));
    twice("exec-failure")(&mut fixture);
    assert_eq!(module(&fixture.file()).expect("two probes").probes, 2);
}

#[test]
fn arguments_without_holes() {
    for (indices, found) in [([0, 0], "0, 0"), ([0, 2], "0, 2"), ([1, 2], "1, 2")] {
        let line = only(|f| {
            for (at, index) in [ARGUMENTS, ARGUMENTS + 48].into_iter().zip(indices) {
                f.data(RECORDS)[at as usize] = index;
            }
        });
        let expected = format!(
            "the argument types of probe proc:::exec-success are {found}, and must be numbered"
        );
        assert_eq!(line, format!(".data.sdt+0x40: {expected} from 0 without gaps"));
    }
    let mut fixture = Fixture::native(release("15"));
    fixture.data(RECORDS)[ARGUMENTS as usize] = 1;
    fixture.data(RECORDS)[ARGUMENTS as usize + 48] = 0;
    module(&fixture.file()).expect("the order of the records is no matter");
}

#[test]
fn arguments_of_no_probe() {
    let line = only(|f| {
        null(f, ARGUMENTS + 88);
    });
    let expected = "the argument's probe is not the address of a record of set_sdt_probes_set";
    assert_eq!(line, format!(".data.sdt+0x118: {expected}"));
    let line = only(|f| point(f, ARGUMENTS + 88, 0));
    assert_eq!(line, format!(".data.sdt+0x118: {expected}"));
}

#[test]
fn arguments_may_have_no_type() {
    let mut fixture = Fixture::native(release("15"));
    null(&mut fixture, ARGUMENTS + 8);
    module(&fixture.file()).expect("the kernel takes NULL");
    let line = only(|f| {
        null(f, ARGUMENTS + 8);
        f.data(RECORDS)[ARGUMENTS as usize + 8] = 1;
    });
    let expected = "the argument's type is not the address of anything in this module";
    assert_eq!(line, format!(".data.sdt+0xc8: {expected}"));
}

#[test]
fn sites_of_no_probe() {
    let line = only(|f| f.relocations(".relaset_sdt_tracepoint_set")[0].r_addend += 8);
    let expected = "the site's probe is not the address of a record of set_sdt_probes_set";
    assert_eq!(line, format!("set_sdt_tracepoint_set+0x0: {expected}"));
    let line = only(|f| {
        f.relocations(".relaset_sdt_tracepoint_set").remove(0);
    });
    let expected = "the site's probe is not the address of anything in this module";
    assert_eq!(line, format!("set_sdt_tracepoint_set+0x0: {expected}"));
}

#[test]
fn sites_that_the_kernel_cannot_patch() {
    let line = only(|f| f.data(".text")[4] = 0x90);
    let expected = "the bytes at the site, 0f 1f 44 00 90, are not the 5-byte nop 0f 1f 44 00 00";
    assert_eq!(line, format!("set_sdt_tracepoint_set+0x8: {expected}"));
    let line = only(|f| {
        let cold = f.section(".text.unlikely", CODE, vec![0x90]);
        let cold = f.symbol("cold", Some(cold), elf::STB_LOCAL);
        f.relocations(".relaset_sdt_tracepoint_set")[2] = relocation(16, cold, elf::R_X86_64_64, 0);
    });
    assert!(line.contains("the site and its cold block are in different sections"), "{line}");
    let line = only(|f| {
        let records = f.relocations(RELOCATIONS)[1].symbol;
        f.relocations(".relaset_sdt_tracepoint_set")[1].symbol = records;
    });
    let expected = "the site points into .data.sdt, which is not executable";
    assert_eq!(line, format!("set_sdt_tracepoint_set+0x8: {expected}"));
    // As in C's macro, without alignment.
    for nops in [[0x90; 5], [0x66, 0x0f, 0x1f, 0x04, 0x00]] {
        let mut fixture = Fixture::native(release("15"));
        fixture.data(".text")[..5].copy_from_slice(&nops);
        fixture.named("set_sdt_tracepoint_set").sh_addralign = 1;
        module(&fixture.file()).expect("nops of C's");
    }
}

#[test]
fn sites_of_an_open_provider_that_disagree() {
    for (name, what) in [
        ("__sdt_types_77_1_1234", "the type of argument 1"),
        ("__sdt_types_77_n_2", "the number of arguments"),
    ] {
        let line = only(|f| {
            f.symbol(name, None, elf::STB_GLOBAL);
        });
        assert_eq!(
            line,
            format!("sites of one open provider's probe disagree about {what}; make them agree")
        );
        let line = only(|f| {
            f.symbol(name, None, elf::STB_GLOBAL);
            let records = f.named(RECORDS).id();
            let probe = f.symbol("__sdt_probe_77", Some(records), elf::STB_LOCAL);
            f.builder.symbols.get_mut(probe).st_value = PROBE;
        });
        let expected = format!("probe proc:::exec-success disagree about {what}; make them agree");
        assert!(line.ends_with(&expected), "{line}");
    }
}

#[test]
fn symbols_of_other_releases_and_modules() {
    let import = |name: &'static str| {
        move |f: &mut Fixture| {
            let symbol = f.symbol(name, None, elf::STB_GLOBAL);
            f.relocations(".rela.text")[0].symbol = Some(symbol);
        }
    };
    for (release, name) in [("1404000", "sdt_probe"), ("11", "sdt_probes_enabled")] {
        let line = only_of(release, import(name));
        let expected = format!("undefined, and not exported by the released FreeBSD {release}");
        assert!(
            line.starts_with(&format!("warning: symbol {name}: {expected}; check your own ")),
            "{line}"
        );
    }
    let line = only(import("dtrace_probe"));
    let expected = "undefined; dtrace.ko exports it, but is not a dependency of the module";
    assert_eq!(line, format!("symbol dtrace_probe: {expected}"));
    for (freebsd, name) in
        [("15", "sdt_probe6"), ("12", "eventhandler_deregister_nowait"), ("10", "malloc")]
    {
        let mut fixture = Fixture::native(release(freebsd));
        import(name)(&mut fixture);
        module(&fixture.file()).expect(name);
    }
}

#[test]
fn native_modules_do_without_dtrace() {
    let lines = said_of("15", |f| f.data(".rodata")[31..38].copy_from_slice(b"dtrace\0"));
    let expected = "warning: depends on dtrace without having its own provider: it would not load on a kernel without DTrace";
    assert!(lines.iter().any(|line| line == expected), "{lines:#?}");
    let expected = "warning: no dependency on kernel; every release would load the module, even if it cannot run it";
    assert!(lines.iter().any(|line| line == expected), "{lines:#?}");
}

#[test]
fn kernels_of_one_release() {
    let versions = |versions: [u32; 3]| {
        move |f: &mut Fixture| {
            let versions = versions.map(u32::to_le_bytes).concat();
            f.data(".rodata")[136..148].copy_from_slice(&versions);
        }
    };
    for wrong in [
        [1_500_000, 1_500_000, 1_600_000],
        [1_500_000, 1_500_000, 1_599_998],
        [1_500_000, 1_500_001, 1_599_999],
    ] {
        let line = only(versions(wrong));
        let [minimum, preferred, maximum] = wrong;
        let expected = format!(
            "dependency on kernel {minimum} to {maximum}, preferably {preferred}: depend on one "
        );
        assert!(line.starts_with(&format!("warning: .rodata+0x88: {expected}")), "{line}");
    }
    for (other, judged) in
        [([1_600_000, 1_600_000, 1_699_999], 15), ([900_000, 900_000, 999_999], 10)]
    {
        let line = said_of("15", versions(other)).remove(0);
        let expected = format!(
            "for FreeBSD {}, which this version of cargo-sdt does not know; checked as a module for {judged}",
            other[0]
        );
        assert_eq!(line, format!("warning: .rodata+0x88: {expected}"));
    }
    let mut tied = Fixture::native(release("15"));
    versions([1_500_068; 3])(&mut tied);
    module(&tied.file()).expect("a module for one kernel alone");
}

#[test]
fn sysinits_of_other_releases() {
    let function = |at| {
        move |f: &mut Fixture| {
            f.data(".data").resize(32, 0);
            f.relocations(".rela.data")[0].r_offset = at;
        }
    };
    let line = only_of("15", function(8));
    let expected = "a struct sysinit of 24 bytes; on FreeBSD 15 it has 32";
    assert_eq!(line, format!("set_sysinit_set+0x0: {expected}"));
    let line = only_of("13", function(16));
    let expected = "a struct sysinit of 32 bytes; on FreeBSD 13 it has 24";
    assert_eq!(line, format!("set_sysinit_set+0x0: {expected}"));
    let line = only_of("14", |f| {
        let records = f.relocations(RELOCATIONS)[1].symbol;
        f.relocations(".rela.data")[0].symbol = records;
    });
    let expected =
        "the function of a struct sysinit points into .data.sdt, which is not executable";
    assert_eq!(line, format!("set_sysinit_set+0x0: {expected}"));
    let line = only_of("14", |f| {
        f.data(".data").truncate(24);
    });
    assert_eq!(line, "set_sysinit_set+0x0: not the 32 bytes of a struct sysinit");
    let line = only_of("14", function(24));
    let expected = "the function of a struct sysinit is not the address of anything in this module";
    assert_eq!(line, format!("set_sysinit_set+0x0: {expected}"));
    let line = only_of("14", |f| f.data(".data")[8] = 1);
    let expected = "the link of a struct sysinit is not 0, and the kernel assumes that it is";
    assert_eq!(line, format!("set_sysinit_set+0x0: {expected}"));
}

#[test]
fn calls_that_old_loaders_do_not_know() {
    let plt32 = |f: &mut Fixture| f.relocations(".rela.text")[0].r_type = elf::R_X86_64_PLT32;
    for freebsd in ["10", "11"] {
        let line = only_of(freebsd, plt32);
        assert_eq!(
            line,
            ".text+0x9: relocation R_X86_64_PLT32 against printf: FreeBSD's loader refuses it; \
             releases before 12 do not support this type; link for that release"
        );
    }
}

proptest! {
    #[test]
    fn no_damage_makes_it_panic(
        freebsd in prop::sample::select(&["10", "13", "15"]),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<Option<prop::sample::Index>>(),
    ) {
        let _ = module(&super::damaged(Fixture::native(release(freebsd)).file(), changes, cut));
    }
}
