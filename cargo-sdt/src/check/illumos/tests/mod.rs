//! The check, on modules that are right but for one thing: every rule, broken once.

mod fixture;

use object::elf;
use proptest::prelude::*;

use std::path::Path;

use super::{Kernel, module, module_against};
use fixture::{CODE, Fixture, PROBE, READ_ONLY, SITE, WRITABLE, relocation, with_header};

/// What is said of a file.
fn said_of(file: &[u8]) -> Vec<String> {
    crate::check::tests::said_of(module(file).map(|summary| summary.warnings))
}

/// The only thing that is said of the fixture after a change.
fn only(change: impl FnOnce(&mut Fixture)) -> String {
    let mut fixture = Fixture::good();
    change(&mut fixture);
    only_of(&fixture.file())
}

fn only_of(file: &[u8]) -> String {
    let mut said = said_of(file);
    assert_eq!(said.len(), 1, "{said:#?}");
    said.remove(0)
}

#[test]
fn the_fixture_is_good() {
    let file = Fixture::good().file();
    assert_eq!(crate::platform::Os::of_file(&file), crate::platform::Os::Illumos);
    let summary = module(&file).unwrap();
    assert_eq!(
        summary.to_string(),
        "for illumos, route native, depends on misc/mac, drv/ip; 1 site: proc:::exec-success; 32 bytes"
    );
}

#[test]
fn files_that_are_no_objects() {
    for file in [&b""[..], b"#!/bin/sh\n", &[0; 64], &[0x7f; 200]] {
        assert!(said_of(file)[0].starts_with("not a readable object file: "));
    }
}

#[test]
fn other_machines_and_types() {
    let line = only(|f| f.builder.header.e_type = elf::ET_DYN);
    assert_eq!(line, "the type is 3; krtld takes relocatable files (ET_REL, 1) only");
    let line = only(|f| f.builder.header.e_machine = elf::EM_AARCH64);
    assert_eq!(line, "the machine is 183; krtld takes x86-64 (62) only");
    let mut file = Fixture::good().file();
    file[5] = 2;
    assert_eq!(only_of(&file), "the byte order is 2; krtld takes little-endian (1) only");
}

#[test]
fn symbol_tables() {
    let change = |file, kind: u32| {
        with_header(file, ".symtab", |header| header[4..8].copy_from_slice(&kind.to_le_bytes()))
    };
    let line = only_of(&change(Fixture::good().file(), elf::SHT_DYNSYM.0));
    assert_eq!(line, "0 symbol tables; krtld wants exactly one");
    let file = with_header(Fixture::good().file(), ".symtab", |header| header[40] = 0);
    assert!(only_of(&file).starts_with("the symbol table's strings are not a string table; "));
}

#[test]
fn too_many_symbols() {
    let line = only(|f| {
        for _ in 0..=u16::MAX {
            let text = f.text;
            f.symbol("x", Some(text), elf::STB_LOCAL);
        }
    });
    assert!(line.ends_with("symbols; krtld numbered them in 16 bits, strip local ones"), "{line}");
}

#[test]
fn too_many_sections() {
    let line = only(|f| {
        for _ in 0..elf::SHN_LORESERVE {
            f.note(".many", b"");
        }
    });
    assert!(
        line.ends_with("sections; krtld knows no extended section numbers, link sections together")
    );
}

#[test]
fn section_numbers_that_are_not_there() {
    let mut file = Fixture::good().file();
    let mut at = None;
    with_header(file.clone(), ".symtab", |header| {
        assert_eq!(header[4], 2);
    });
    // The first global symbol is `_init`: its name's offset is where the string is.
    for offset in (0..file.len() - 24).step_by(8) {
        // value 0, size 12, a global function.
        if file[offset + 4] == 0x12
            && file[offset + 16] == 12
            && file[offset + 8..offset + 16] == [0; 8]
        {
            at = Some(offset);
        }
    }
    let at = at.expect("the symbol of _init");
    file[at + 6..at + 8].copy_from_slice(&99u16.to_le_bytes());
    let said = said_of(&file);
    assert_eq!(
        said[0],
        "symbol _init: is in section 99, which is not there; krtld refuses the module"
    );
}

#[test]
fn addresses_and_section_types() {
    let file = with_header(Fixture::good().file(), ".text", |header| header[17] = 0x10);
    assert_eq!(
        only_of(&file),
        ".text: has the address 0x1000; in a relocatable file all sections are at 0 (link with -r)"
    );
    let line = only(|f| {
        f.section(".init_array", WRITABLE, vec![0; 8]);
        f.named(".init_array").sh_type = elf::SHT_INIT_ARRAY;
    });
    assert!(line.starts_with(".init_array: functions to be called at start or end; "), "{line}");
    let line = only(|f| {
        f.section(".note", READ_ONLY, vec![0; 16]);
        f.named(".note").sh_type = elf::SectionType(0x6fff_fff0);
    });
    assert!(line.starts_with(".note: is to be loaded, but is of type 0x6ffffff0; "), "{line}");
    let file = with_header(
        {
            let mut fixture = Fixture::good();
            fixture.note(".group", &[1, 0, 0, 0]);
            fixture.file()
        },
        ".group",
        |header| header[4] = elf::SHT_GROUP.0 as u8,
    );
    assert!(only_of(&file).starts_with(".group: a section group; "));
    let file = with_header(
        {
            let mut fixture = Fixture::good();
            fixture.note(".symtab_shndx", &[0; 4]);
            fixture.file()
        },
        ".symtab_shndx",
        |header| header[4] = elf::SHT_SYMTAB_SHNDX.0 as u8,
    );
    assert!(said_of(&file)[0].contains("extended section numbers"), "{:?}", said_of(&file));
}

#[test]
fn protections_and_alignment() {
    let flags = elf::SectionFlags(WRITABLE.0 | elf::SHF_EXECINSTR.0);
    let line = only(|f| f.named(".text").sh_flags = flags);
    assert!(line.starts_with(".text: both writable and executable"), "{line}");
    let tls = elf::SectionFlags(WRITABLE.0 | elf::SHF_TLS.0);
    let line = only(|f| {
        f.section(".tdata", tls, vec![0; 8]);
    });
    assert_eq!(line, ".tdata: thread-local storage; kernel modules have none");
    let line = only(|f| {
        let data = f.data;
        let symbol = f.symbol("counter", Some(data), elf::STB_LOCAL);
        f.builder.symbols.get_mut(symbol).set_st_info(elf::STB_LOCAL, elf::STT_TLS);
    });
    assert_eq!(line, "symbol counter: thread-local storage; kernel modules have none");
    let file = with_header(Fixture::good().file(), ".data", |header| header[48] = 3);
    assert!(only_of(&file).starts_with(".data: alignment 3; "));
}

#[test]
fn a_set_in_two_sections() {
    let line = only(|f| {
        f.section("set_linkme_X", WRITABLE, vec![0; 8]);
        f.section("set_linkme_X", READ_ONLY, vec![0; 8]);
    });
    assert_eq!(
        line,
        "set_linkme_X: 2 sections of this name; the bounds of a set are those of one section"
    );
}

#[test]
fn relocation_sections() {
    let file = with_header(Fixture::good().file(), ".rela.data", |header| {
        header[4] = elf::SHT_REL.0 as u8;
    });
    assert_eq!(only_of(&file), ".rela.data: REL relocations; krtld refuses the module");
    for (at, value) in [(40, 1), (44, 77), (44, 0)] {
        let file = with_header(Fixture::good().file(), ".rela.data", |header| header[at] = value);
        let line = only_of(&file);
        assert!(line.starts_with(".rela.data: relocations that belong to no section"), "{line}");
    }
}

#[test]
fn tables_of_other_entries() {
    for table in [".rela.data", ".symtab"] {
        for entry in [0, 16] {
            let file = with_header(Fixture::good().file(), table, |header| header[56] = entry);
            let line = only_of(&file);
            assert!(line.starts_with(&format!("{table}: ")), "{line}");
            assert!(
                line.contains(&format!(" bytes in entries of {entry}; krtld divides")),
                "{line}"
            );
        }
    }
    let file = with_header(Fixture::good().file(), ".rela.data", |header| header[32] -= 1);
    let line = &said_of(&file)[0];
    assert!(line.starts_with(".rela.data: 23 bytes in entries of 24"), "{line}");
}

#[test]
fn relocations_of_other_types() {
    for (kind, name, reason) in [
        (elf::R_X86_64_GOTPCREL, "R_X86_64_GOTPCREL", "relocation-model=static"),
        (elf::R_X86_64_GOTPCRELX, "R_X86_64_GOTPCRELX", "relocation-model=static"),
        (elf::R_X86_64_REX_GOTPCRELX, "R_X86_64_REX_GOTPCRELX", "relocation-model=static"),
        (elf::R_X86_64_GOTPC32, "R_X86_64_GOTPC32", "no global offset table"),
        (elf::R_X86_64_GOT64, "R_X86_64_GOT64", "refuses it or does it wrong"),
        (elf::R_X86_64_32, "R_X86_64_32", "code-model=kernel"),
        (elf::R_X86_64_TPOFF32, "R_X86_64_TPOFF32", "refuses thread-local storage"),
        (elf::R_X86_64_NONE, "R_X86_64_NONE", "use the targets"),
        (elf::RelocationType(200), "of type 200", "use the targets"),
    ] {
        let line = only(|f| f.relocation(1).r_type = kind);
        assert!(line.starts_with(&format!(".text+0x7: relocation {name} against mod_i")), "{line}");
        assert!(line.contains(reason), "{line}");
    }
}

#[test]
fn relocations_to_where_nothing_is() {
    for addend in [1 << 31, -(1 << 31), i64::MAX, i64::MIN] {
        let line = only(|f| f.relocation(1).r_addend = addend);
        assert!(line.starts_with(".text+0x7: call of mod_install"), "{line}");
        assert!(line.ends_with(": functions of others are called at their start"), "{line}");
    }
    let line = only(|f| f.relocation(1).r_addend = -4096);
    assert!(line.starts_with(".text+0x7: call of mod_install-0xffc: "), "{line}");
    let mut near = Fixture::good();
    near.bytes(".text")[6] = 0xa1;
    near.relocation(1).r_type = elf::R_X86_64_32S;
    near.relocation(1).r_addend = -4096;
    module(&near.file()).expect("it may be a table's element");
}

#[test]
fn relocations_past_the_end_and_of_nothing() {
    let line = only(|f| f.relocation(1).r_offset = 13);
    let expected =
        "relocation R_X86_64_PLT32 against mod_install reaches past the end of the section";
    assert_eq!(line, format!(".text+0xd: {expected}"));
    let line = only(|f| f.relocation(1).r_offset = u64::MAX);
    assert!(line.ends_with(expected), "{line}");
    let mut file = Fixture::good().file();
    let info = [4, 0, 0, 0];
    let at = (0..file.len() - 24)
        .find(|&at| file[at..at + 8] == SITE.to_le_bytes() && file[at + 8..at + 12] == info)
        .expect("the relocation");
    file[at + 12] = 200;
    let line = &said_of(&file)[0];
    assert!(line.contains("against symbol number 200, which is not in"), "{line}");
}

#[test]
fn fields_that_hold_something() {
    let line = only(|f| f.bytes(".text")[7] = 0xfc);
    let expected = "relocation against mod_install: the field holds fc 00 00 00; krtld adds to it";
    assert_eq!(line, format!(".text+0x7: {expected}, it must be 0"));
    let line = only(|f| f.bytes(".text")[2] = 0xfc);
    assert!(line.starts_with(&format!(".text+0x2: relocation against {PROBE}: the field holds")));
}

#[test]
fn floating_point() {
    let line = only(|f| {
        f.section(".text.float", CODE, vec![0x0f, 0x57, 0xc0]);
    });
    assert!(line.starts_with(".text.float+0x0: `xorps %xmm0,%xmm0` uses "), "{line}");
}

#[test]
fn probes_that_are_not_called() {
    for (bytes, found, what) in [
        ([0x90, 0xe9], "`e9`", "nops that fall through"),
        ([0x0f, 0x84], "`0f 84`", "an instruction that writes anywhere"),
        ([0xff, 0x15], "`ff 15`", "bytes that mean something else"),
        ([0x48, 0xbf], "`48 bf`", "bytes that mean something else"),
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
        line.contains("is used by relocation R_X86_64_PLT32+0, which is not a call's"),
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
    let defined = "a probe that is defined is a function call and no probe; leave it undefined";
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
        ("__dtrace_probe_a$b", "probe name \"a$b\" has '$' in it"),
        (&*long, "is longer than 63 bytes"),
    ] {
        let line = only(|f| f.symbol_named(PROBE).name = name.into());
        assert!(line.contains(reason), "{line}");
    }
    // What counts is the converted name.
    let mut fixture = Fixture::good();
    let name = format!("__dtrace_probe_{}", "n__".repeat(31)).leak();
    fixture.symbol_named(PROBE).name = (&*name).into();
    let summary = module(&fixture.file()).unwrap();
    assert!(summary.probes.contains(&format!("sdt:::{}", "n-".repeat(31))), "{summary}");
}

/// A module whose one probe is described so.
fn described(lines: &[&str]) -> Result<(), String> {
    let mut fixture = Fixture::good();
    let text: Vec<_> =
        lines.iter().map(|line| format!("{}\n\0\0", line.replace(' ', "\t"))).collect();
    fixture.note(".sdt_probes", text.concat().as_bytes());
    module(&fixture.file()).map(|_| ()).map_err(|findings| {
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
            "symbol {PROBE}: two probes would be one: proc::exec-success(int, char) and sdt::exec-success(int); \
             rename one of them, or build with --route provider, where each has a provider of its own"
        )
    );
    // Whose symbol the module does not fire.
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
            "symbol {PROBE}: proc::exec-success has 1 argument at one place, and 3 arguments at another; krtld makes \
             one probe of both"
        )
    );
    let line = says(&["count HASH 1", "arg HASH 0 int", "arg HASH 0 uint64_t"]);
    assert!(line.contains(" has `int` as arg0 at one place, and `uint64_t` at another;"), "{line}");
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
            "symbol {PROBE}: belongs to provider proc, by the prefix of its name; the module names \
             only sdt, io in .sdt_providers"
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
        let expected = format!("symbol {name}: must be a global function of the module's own text");
        let line = only(|f| f.symbol_named(name).set_st_info(elf::STB_LOCAL, elf::STT_FUNC));
        assert_eq!(line, expected);
        let mut fixture = Fixture::good();
        let data = fixture.data;
        fixture.symbol_named(name).section = Some(data);
        let said = said_of(&fixture.file());
        let data = "a function in .data, which is not executable; fbt reads it as code";
        for expected in [expected, format!("symbol {name}: {data}")] {
            assert!(said.contains(&expected), "{said:#?}");
        }
    }
}

#[test]
fn undefined_symbols() {
    let line = |name| {
        only(|f| {
            f.named(".dynamic").delete = true;
            f.symbol(name, None, elf::STB_GLOBAL);
        })
    };
    assert!(line("puts").starts_with("warning: uses a symbol, which is not known here: "));
    assert_eq!(
        line("dtrace_register"),
        "symbol dtrace_register: undefined; drv/dtrace exports it, and the module does not depend on that"
    );
    assert!(line("__start_set_x").starts_with("symbol __start_set_x: undefined; krtld gives no"));
    assert_eq!(
        only(|f| {
            f.symbol("mac_open", None, elf::STB_LOCAL);
        }),
        "symbol mac_open: a local symbol that is not defined; krtld looks for it nowhere and refuses the module"
    );
    let mut weak = Fixture::good();
    weak.named(".dynamic").delete = true;
    weak.symbol("nobody", None, elf::STB_WEAK);
    module(&weak.file()).expect("krtld leaves it 0");
    let mut dtrace = Fixture::good();
    dtrace.named(".dynamic").delete = true;
    dtrace.depends(&["drv/dtrace"]);
    dtrace.symbol("dtrace_register", None, elf::STB_GLOBAL);
    module(&dtrace.file()).expect("drv/dtrace has it");
}

/// What OPTE uses of the kernel.
fn opte() -> Vec<&'static str> {
    include_str!("opte.txt").lines().filter(|line| !line.starts_with('#')).collect()
}

/// The fixture, as a driver that depends on what OPTE's depends on, and uses these symbols.
fn driver(symbols: &[&'static str]) -> Vec<u8> {
    let mut fixture = Fixture::good();
    fixture.named(".dynamic").delete = true;
    fixture.depends(&["drv/dld", "drv/ip", "misc/dls", "misc/mac"]);
    for symbol in symbols {
        fixture.symbol(symbol, None, elf::STB_GLOBAL);
    }
    fixture.file()
}

fn kernel(files: &[(&str, &[&str])]) -> Kernel {
    let mut kernel = Kernel::default();
    for (name, symbols) in files {
        let list: String = symbols.iter().map(|symbol| format!("{symbol} T 0 0\n")).collect();
        kernel.add_list(Path::new(name), &list).expect("a list");
    }
    kernel
}

#[test]
fn a_driver_that_uses_much_of_the_kernel() {
    let opte = opte();
    assert!(opte.len() >= 138 && opte.is_sorted(), "{}", opte.len());
    let driver = driver(&opte);
    // Nobody can be asked: it can be loaded, and one line says what of it is not known.
    let summary = module(&driver).expect("no symbol is refused");
    assert_eq!(summary.warnings.len(), 1, "{:#?}", summary.warnings);
    let line = summary.warnings[0].to_string();
    assert!(line.contains("qprocson") || line.contains("mac_register"), "{line}");
    assert!(!line.contains("kmem_alloc"), "{line}");
    // The kernel is asked.
    let all: Vec<_> = opte.iter().copied().chain(["mod_install"]).collect();
    let whole = kernel(&[("unix", &all)]);
    assert_eq!(module_against(&driver, &whole).expect("it has them all").warnings, []);
    // One is not there; the modules that could have it have been given.
    let (lost, rest) = all.split_first().expect("there are some");
    let modules = ["dld", "ip", "dls", "mac"].map(|name| (name, &["x"][..]));
    let less = kernel(&[&[("unix", rest)], &modules[..]].concat());
    let said: Vec<_> =
        module_against(&driver, &less).unwrap_err().iter().map(ToString::to_string).collect();
    let asked = "unix, dld, ip, dls, mac";
    assert_eq!(said, [format!("symbol {lost}: undefined, and {asked} do not export it")]);
    // Without their files, one of them may have it.
    let less = kernel(&[("unix", rest)]);
    let summary = module_against(&driver, &less).expect("nobody can say that it is missing");
    let line = summary.warnings[0].to_string();
    assert!(line.contains("drv/dld, drv/ip, misc/dls, misc/mac may have it"), "{line}");
}

#[test]
fn relocations_that_lead_astray() {
    // `.data+8` is the address of `_info`, at 12 of the text.
    let point = |addend| {
        move |f: &mut Fixture| match &mut f.named(".rela.data").data {
            object::build::elf::SectionData::Relocation(all) => all[0].r_addend = addend,
            other => panic!("no relocations: {other:?}"),
        }
    };
    let line = only(point(13));
    assert!(line.starts_with(".data+0x8: points 0xd bytes into "), "{line}");
    let line = only(point(17));
    let expected = "relocation R_X86_64_64 against .text+0x11 points outside the symbol's section";
    assert_eq!(line, format!(".data+0x8: {expected}"));
    let file = with_header(Fixture::good().file(), ".rela.data", |header| header[17] = 0x10);
    let expected =
        "has the address 0x1000; in a relocatable file all sections are at 0 (link with -r)";
    assert_eq!(only_of(&file), format!(".rela.data: {expected}"));
    let line = only(|f| {
        let symbol = f.symbol_named("_fini");
        symbol.st_size = 99;
    });
    assert!(line.starts_with("symbol _fini: 0x63 bytes from +0xe on are not all in its section"));
    let line = only(|f| f.note(".sdt_depends", b"misc/mac\0"));
    assert!(line.starts_with(".sdt_depends: is for the link step, "), "{line}");
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
            "sdt_is_enabled+0x0: an element of sdt_is_enabled is not the address of "
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
fn alignments_and_sizes_that_no_kernel_has() {
    for align in [1_u64 << 32, 1 << 40] {
        let file = with_header(Fixture::good().file(), ".text", |header| {
            header[48..56].copy_from_slice(&align.to_le_bytes());
        });
        let line = only_of(&file);
        assert!(line.starts_with(&format!(".text: alignment {align}; the loader's ")), "{line}");
    }
    let mut fixture = Fixture::good();
    fixture.section(".bss", WRITABLE, Vec::new());
    fixture.named(".bss").sh_type = elf::SHT_NOBITS;
    let file = with_header(fixture.file(), ".bss", |header| {
        header[32..40].copy_from_slice(&(1_u64 << 50).to_le_bytes());
    });
    let line = only_of(&file);
    assert!(line.starts_with("takes 1125899906842656 bytes of memory; "), "{line}");
}

#[test]
fn enabled_sites_that_are_not_in_the_file() {
    // A check that went by this size would not end.
    let mut fixture = Fixture::good();
    enabled_site(&mut fixture, 1, [(0, 0), (8, 0)]);
    let said = said_of(&with_header(fixture.file(), "sdt_is_enabled", |header| {
        header[4..8].copy_from_slice(&elf::SHT_NOBITS.0.to_le_bytes());
        header[32..40].copy_from_slice(&(1_u64 << 50).to_le_bytes());
    }));
    let expected = "sdt_is_enabled: 1125899906842624 bytes of a set, of which 0 are in the file; its elements have to be";
    assert!(said.iter().any(|line| line == expected), "{said:#?}");
}

#[test]
fn what_krtld_does_not_notice() {
    let said_with = |flags: elf::SectionFlags| {
        let mut fixture = Fixture::good();
        enabled_site(&mut fixture, 1, [(0, 0), (8, 0)]);
        said_of(&with_header(fixture.file(), "sdt_is_enabled", |header| {
            header[8..16].copy_from_slice(&flags.0.to_le_bytes());
        }))
    };
    for (flags, expected) in [
        (elf::SectionFlags(0), "sdt_is_enabled: a set that is not to be loaded (SHF_ALLOC): "),
        (
            elf::SectionFlags(READ_ONLY.0 | elf::SHF_COMPRESSED.0),
            "sdt_is_enabled: is to be loaded, and compressed (SHF_COMPRESSED), ",
        ),
    ] {
        let said = said_with(flags);
        assert!(said.iter().any(|line| line.starts_with(expected)), "{said:#?}");
    }
    let line = only(|f| {
        let symbol = f.symbol("counter", None, elf::STB_GLOBAL);
        f.builder.symbols.get_mut(symbol).st_shndx = elf::SymbolSection(0xff20);
    });
    assert!(line.starts_with("symbol counter: is in section 0xff20, a number that is "), "{line}");
    let line = only(|f| f.note(".sdt_providers", b"proc\0io\0"));
    assert!(line.starts_with("warning: provider io has probes, or is declared, and no "), "{line}");
}

#[test]
fn symbols_that_are_common_or_the_kernels() {
    let line = only(|f| {
        let symbol = f.symbol("counter", None, elf::STB_GLOBAL);
        f.builder.symbols.get_mut(symbol).st_shndx = elf::SHN_COMMON;
    });
    assert_eq!(line, "symbol counter: a common symbol; compile with -fno-common");
    let line = only(|f| {
        let text = f.text;
        f.symbol("cmn_err", Some(text), elf::STB_GLOBAL);
    });
    assert!(line.starts_with("warning: symbol cmn_err: the kernel exports it, too; "), "{line}");
}

#[test]
fn dynamic_sections() {
    let line = only(|f| f.depends(&["fs/sockfs"]));
    assert!(line.starts_with(".dynamic: more than one dynamic section; "), "{line}");
    let file = with_header(Fixture::good().file(), ".dynamic", |header| header[40] = 0);
    assert!(only_of(&file).starts_with(".dynamic: the dynamic section has no strings; "));
    let line = only(|f| f.bytes(".dynamic").truncate(32));
    assert!(line.starts_with(".dynamic: the dynamic section has no end (DT_NULL); "), "{line}");
    let line = only(|f| f.bytes(".dynamic")[8] = 200);
    assert!(line.starts_with(".dynamic: a name is outside of the strings; "), "{line}");
}

#[test]
fn names_of_dependencies() {
    let line = |name| {
        only(|f| {
            f.named(".dynamic").delete = true;
            f.depends(&[name]);
        })
    };
    assert_eq!(line("mac"), "dependency \"mac\" is not a module's folder and name, like misc/mac");
    assert!(
        line("misc/a_module_with_too_long_a_name").ends_with("is too long for krtld (30 bytes)")
    );
    assert!(line("misc/a b").ends_with("has characters in it that no module's name has"));
}

#[test]
fn dependencies_the_old_way() {
    let add = |fixture: &mut Fixture, size| {
        fixture.named(".dynamic").delete = true;
        let strings = fixture.section(".rodata", READ_ONLY, b"misc/mac drv/ip\0x".to_vec());
        let symbol = fixture.symbol("_depends_on", Some(strings), elf::STB_GLOBAL);
        fixture.builder.symbols.get_mut(symbol).st_size = size;
    };
    let mut fixture = Fixture::good();
    add(&mut fixture, 16);
    assert_eq!(module(&fixture.file()).unwrap().depends, ["misc/mac", "drv/ip"]);
    let line = only(|f| add(f, 17));
    assert!(line.starts_with("symbol _depends_on: not a string of the module with its NUL; "));
    let mut longer = Fixture::good();
    add(&mut longer, 99);
    let said = said_of(&longer.file());
    assert!(said[0].starts_with("symbol _depends_on: not a string of the module with its NUL; "));
    assert!(said[1].starts_with("symbol _depends_on: 0x63 bytes from +0x0 on are not all in"));
}

#[test]
fn truncated_files() {
    let file = Fixture::good().file();
    for length in 0..file.len() {
        assert!(module(&file[..length]).is_err(), "{length} of {} bytes", file.len());
    }
}

proptest! {
    #[test]
    fn no_damage_makes_it_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<Option<prop::sample::Index>>(),
    ) {
        let _ = module(&crate::check::tests::damaged(Fixture::good().file(), changes, cut));
    }
}
