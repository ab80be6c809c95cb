//! Rules for probes: their calls, their names, and the descriptions of their arguments.

use object::elf;

use super::fixture::{Fixture, PROBE, READ_ONLY, SITE, WRITABLE, relocation, with_header};
use super::{module, only, rules, said_of};

#[test]
fn probes_that_are_not_called() {
    for (bytes, found, what) in [
        ([0x90, 0xe9], "`e9`", "nops, and execution falls through"),
        ([0x0f, 0x84], "`0f 84`", "an instruction that writes to an arbitrary address"),
        ([0xff, 0x15], "`ff 15`", "overwrites bytes of another instruction"),
        ([0x48, 0xbf], "`48 bf`", "overwrites bytes of another instruction"),
    ] {
        let line = only(|f| f.bytes(".text")[..2].copy_from_slice(&bytes));
        assert!(line.starts_with(&format!(".text+0x2: {PROBE}: the instruction is {found}")));
        assert!(line.contains(what), "{line}");
    }
}

#[test]
fn probes_whose_address_is_taken() {
    let line = only(|f| f.relocation(0).r_type = elf::R_X86_64_32S);
    assert!(line.starts_with(&format!(".text+0x2: {PROBE} is used by relocation R_X86_64_32S-4")));
    let line = only(|f| f.relocation(0).r_type = elf::R_X86_64_GOTPCRELX);
    assert!(line.contains("is used by relocation R_X86_64_GOTPCRELX-4"), "{line}");
    let line = only(|f| f.relocation(0).r_addend = 0);
    assert!(
        line.contains("is used by relocation R_X86_64_PLT32+0, which does not belong to a call"),
        "{line}"
    );
    let line = only(|f| {
        let (data, symbol) = (f.data, f.symbol_named(PROBE).id());
        f.relocate(data, vec![relocation(0, symbol, elf::R_X86_64_64, 0)]);
    });
    assert_eq!(
        line,
        format!(
            ".data+0x0: {PROBE} is used in .data, which is not executable; krtld overwrites data there"
        )
    );
}

#[test]
fn a_pc_relative_call_is_one() {
    let mut fixture = Fixture::good();
    fixture.relocation(0).r_type = elf::R_X86_64_PC32;
    module(&fixture.file()).expect("krtld does not look at the type, and LLVM may use this one");
}

#[test]
fn sites_at_the_edges_and_shared_ones() {
    let line = only(|f| {
        f.relocation(0).r_offset = 0;
    });
    assert!(line.starts_with(".text+0x0: relocation R_X86_64_PLT32 against __dtrace"), "{line}");
    let said = {
        let mut fixture = Fixture::good();
        fixture.relocation(1).r_offset = SITE + 2;
        said_of(&fixture.file())
    };
    let expected = format!(".text+0x2: {PROBE}: another relocation applies to the same five bytes");
    assert!(said.contains(&expected), "{said:#?}");
}

#[test]
fn probes_that_are_defined_or_local() {
    let said = {
        let mut fixture = Fixture::good();
        let text = fixture.text;
        fixture.symbol_named(PROBE).section = Some(text);
        said_of(&fixture.file())
    };
    let defined = "the symbol of a probe is defined, so it is a function instead of a probe; leave it undefined";
    assert_eq!(said, [format!("symbol {PROBE}: {defined}")]);
    let line = only(|f| f.symbol_named(PROBE).set_st_info(elf::STB_LOCAL, elf::STT_NOTYPE));
    assert!(line.starts_with(&format!("symbol {PROBE}: a local symbol; ")), "{line}");
}

#[test]
fn names_of_probes() {
    let long = format!("__dtrace_probe_{}", "n".repeat(64)).leak();
    for (name, reason) in [
        ("__dtrace_probe_", "probe name \"\" is empty"),
        ("__dtrace_probe___io_", "probe name \"\" is empty"),
        ("__dtrace_probe___proc_9x", "probe name \"9x\" starts with a digit"),
        ("__dtrace_probe_a$b", "probe name \"a$b\" contains '$'"),
        (&*long, "is longer than 63 bytes"),
    ] {
        let line = only(|f| f.symbol_named(PROBE).name = name.into());
        assert!(line.contains(reason), "{line}");
    }
    // The converted name counts.
    let mut fixture = Fixture::good();
    let name = format!("__dtrace_probe_{}", "n__".repeat(31)).leak();
    fixture.symbol_named(PROBE).name = (&*name).into();
    let summary = module(&fixture.file()).unwrap();
    assert!(summary.probes.contains(&format!("sdt:::{}", "n-".repeat(31))), "{summary}");
}

/// Checks a module with one probe whose description consists of these lines.
fn described(lines: &[&str]) -> Result<(), String> {
    let mut fixture = Fixture::good();
    let text: Vec<_> =
        lines.iter().map(|line| format!("{}\n\0\0", line.replace(' ', "\t"))).collect();
    fixture.note(".sdt_probes", text.concat().as_bytes());
    module(&fixture.file()).map(|_| ()).map_err(|findings| {
        rules::note_broken(&findings);
        let [finding] = &findings[..] else { panic!("{findings:?}") };
        finding.to_string()
    })
}

#[test]
fn probes_that_would_be_one() {
    let exec = format!("probe 1 {PROBE} proc exec-success");
    let args = ["count 1 2", "arg 1 0 int", "arg 1 1 char"];
    let good = [&[&*exec][..], &args, &[&exec], &args].concat();
    described(&good).expect("said twice, and the same");

    let other = format!("probe 2 {PROBE} sdt exec-success");
    let line = described(&[&good[..], &[&other, "count 2 1", "arg 2 0 int"]].concat()).unwrap_err();
    assert_eq!(
        line,
        format!(
            "symbol {PROBE}: krtld would merge two probes into one: proc::exec-success(int, char) \
             and sdt::exec-success(int); rename one of them, or build with --route provider, where \
             each provider is separate"
        )
    );
    // The module does not fire the probe of this symbol.
    described(&[&exec, "probe 2 __dtrace_probe_x sdt x", "count 2 0", "count 2 3"]).unwrap();
}

#[test]
fn arguments_that_differ() {
    let exec = format!("probe 18446744073709551615 {PROBE} proc exec-success");
    let hash = "18446744073709551615";
    let says = |lines: &[&str]| {
        let lines: Vec<_> = lines.iter().map(|line| line.replace("HASH", hash)).collect();
        let lines: Vec<_> = std::iter::once(&*exec).chain(lines.iter().map(|of| &**of)).collect();
        described(&lines).unwrap_err()
    };
    let line = says(&["count HASH 1", "arg HASH 0 int", "count HASH 3", "arg HASH 0 int"]);
    assert_eq!(
        line,
        format!(
            "symbol {PROBE}: proc::exec-success has 1 argument at one site, and 3 arguments at another; krtld makes \
             one probe of both"
        )
    );
    let line = says(&["count HASH 1", "arg HASH 0 int", "arg HASH 0 uint64_t"]);
    assert!(line.contains(" has `int` as arg0 at one site, and `uint64_t` at another;"), "{line}");
    for bad in ["hello", "probe x", "probe 1 2", "count 1 x", "arg 1 x int", "arg 1 0"] {
        let line = described(&[&exec, bad]).unwrap_err();
        assert!(line.starts_with(".sdt_probes: the line "), "{line}");
    }
}

#[test]
fn providers_that_were_not_meant() {
    let mut fixture = Fixture::good();
    fixture.note(".sdt_providers", b"io\0proc\0");
    module(&fixture.file()).expect("proc is declared");
    let line = only(|f| f.note(".sdt_providers", b"sdt\0io\0"));
    assert!(
        line.starts_with(&format!(
            "symbol {PROBE}: belongs to provider proc by the prefix of its name, but the module \
             names only sdt, io in .sdt_providers"
        )),
        "{line}"
    );
}

#[test]
fn functions_that_the_kernel_calls() {
    for (name, said) in [
        ("_init", "not defined properly"),
        ("_info", "no modlinkage"),
        ("_fini", "can never be unloaded (EBUSY)"),
    ] {
        let line = only(|f| f.symbol_named(name).name = "other".into());
        let level = if name == "_fini" { "warning: " } else { "" };
        assert!(line.starts_with(&format!("{level}there is no function {name}; ")), "{line}");
        assert!(line.contains(said), "{line}");
        let expected =
            format!("symbol {name}: must be a global function in the text of the module");
        let line = only(|f| f.symbol_named(name).set_st_info(elf::STB_LOCAL, elf::STT_FUNC));
        assert_eq!(line, expected);
        let mut fixture = Fixture::good();
        let data = fixture.data;
        fixture.symbol_named(name).section = Some(data);
        let said = said_of(&fixture.file());
        let data = "a function in .data, which is not executable; fbt would disassemble it";
        for expected in [expected, format!("symbol {name}: {data}")] {
            assert!(said.contains(&expected), "{said:#?}");
        }
    }
}

/// Adds a set of one is-enabled site, the probe's call, with its bounds in the data.
fn enabled_site(f: &mut Fixture, at: i64, bounds: [(u64, i64); 2]) {
    let sites = f.section("sdt_is_enabled", READ_ONLY, vec![0; 8]);
    let text = f.text;
    let text = f.symbol("here", Some(text), elf::STB_LOCAL);
    f.relocate(sites, vec![relocation(0, text, elf::R_X86_64_64, at)]);
    let start = f.symbol("__start_sdt_is_enabled", Some(sites), elf::STB_LOCAL);
    let stop = f.symbol("__stop_sdt_is_enabled", Some(sites), elf::STB_LOCAL);
    f.builder.symbols.get_mut(stop).st_value = 8;
    let table = f.section(".data.bounds", WRITABLE, vec![0; 16]);
    let [(first, more), (second, other)] = bounds;
    f.relocate(
        table,
        vec![
            relocation(first, start, elf::R_X86_64_64, more),
            relocation(second, stop, elf::R_X86_64_64, other),
        ],
    );
}

#[test]
fn enabled_sites_are_calls_and_have_their_bounds() {
    let right = [(0, 0), (8, 0)];
    let mut good = Fixture::good();
    enabled_site(&mut good, 1, right);
    module(&good.file()).expect("the call of the probe begins there");
    for at in [0, 2, 6] {
        let line = only(|f| enabled_site(f, at, right));
        assert!(line.starts_with(
            "sdt_is_enabled+0x0: an element of sdt_is_enabled is not the address of the call "
        ));
    }
    for bounds in [[(0, 8), (8, 0)], [(0, 0), (8, -8)], [(8, 0), (0, 0)]] {
        let line = only(|f| enabled_site(f, 1, bounds));
        assert!(
            line.contains(" pairs of words with the bounds of sdt_is_enabled, "),
            "{bounds:?}: {line}"
        );
    }
}

#[test]
fn the_symbol_of_the_bounds_is_where_they_are() {
    let named = |at: u64| {
        move |f: &mut Fixture| {
            enabled_site(f, 1, [(0, 0), (8, 0)]);
            let table = f.named(".data.bounds").id();
            let symbol = f.symbol("__sdt_is_enabled", Some(table), elf::STB_LOCAL);
            f.builder.symbols.get_mut(symbol).st_value = at;
        }
    };
    let mut right = Fixture::good();
    named(0)(&mut right);
    module(&right.file()).expect("the symbol of the bounds");
    let expected = "symbol __sdt_is_enabled: does not contain the bounds of sdt_is_enabled, which `_init` reads there";
    assert_eq!(only(named(8)), expected);
}

#[test]
fn enabled_sites_that_are_not_in_the_file() {
    // If the check used this size, it would run forever.
    let mut fixture = Fixture::good();
    enabled_site(&mut fixture, 1, [(0, 0), (8, 0)]);
    let said = said_of(&with_header(fixture.file(), "sdt_is_enabled", |header| {
        header[4..8].copy_from_slice(&elf::SHT_NOBITS.0.to_le_bytes());
        header[32..40].copy_from_slice(&(1_u64 << 50).to_le_bytes());
    }));
    let expected = "sdt_is_enabled: 1125899906842624 bytes of a set, of which 0 are in the file; all elements must be in the file";
    assert!(said.iter().any(|line| line == expected), "{said:#?}");
}

#[test]
fn what_krtld_does_not_notice() {
    let mut fixture = Fixture::good();
    enabled_site(&mut fixture, 1, [(0, 0), (8, 0)]);
    let said = said_of(&with_header(fixture.file(), "sdt_is_enabled", |header| {
        header[8..16].copy_from_slice(&0_u64.to_le_bytes());
    }));
    let expected = "relocation R_X86_64_64 against __start_sdt_is_enabled, which is in \
        sdt_is_enabled, a section that is not loaded";
    assert!(said.iter().any(|line| line.ends_with(expected)), "{said:#?}");
    let line = only(|f| {
        let symbol = f.symbol("counter", None, elf::STB_GLOBAL);
        f.builder.symbols.get_mut(symbol).st_shndx = elf::SymbolSection(0xff20);
    });
    assert!(line.starts_with("symbol counter: "), "{line}");
    let line = only(|f| f.note(".sdt_providers", b"proc\0io\0"));
    assert!(line.starts_with("warning: provider io is declared or has probes, but no "), "{line}");
}
