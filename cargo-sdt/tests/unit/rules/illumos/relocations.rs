//! Relocations: what krtld makes of them.

use object::elf;

use super::fixture::{CODE, Fixture, PROBE, SITE, WRITABLE, with_header};
use super::{module, only, only_of, said_of};

#[test]
fn relocation_sections() {
    let file = with_header(Fixture::good().file(), ".rela.data", |header| {
        header[4] = elf::SHT_REL.0 as u8;
    });
    assert_eq!(
        only_of(&file),
        ".rela.data: REL relocations; the loader supports only RELA on this architecture"
    );
    for (at, value) in [(40, 1), (44, 77), (44, 0)] {
        let file = with_header(Fixture::good().file(), ".rela.data", |header| header[at] = value);
        let line = only_of(&file);
        assert!(line.starts_with(".rela.data: relocations without a section"), "{line}");
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
                line.contains(&format!(" bytes in entries of {entry}; entries must have 24")),
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
        (elf::R_X86_64_GOTPC32, "R_X86_64_GOTPC32", "supports no global offset table"),
        (elf::R_X86_64_GOT64, "R_X86_64_GOT64", "supports no global offset table"),
        (elf::R_X86_64_32, "R_X86_64_32", "code-model=kernel"),
        (elf::R_X86_64_TPOFF32, "R_X86_64_TPOFF32", "cannot have thread-local storage"),
        (elf::R_X86_64_NONE, "R_X86_64_NONE", "use the target files"),
        (elf::RelocationType(200), "of type 200", "use the target files"),
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
        assert!(
            line.ends_with(": a function of another module must be called at its start"),
            "{line}"
        );
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
    let expected = "relocation against mod_install: the field is fc 00 00 00; it must be 0";
    assert_eq!(line, format!(".text+0x7: {expected}, because krtld adds to it"));
    let line = only(|f| f.bytes(".text")[2] = 0xfc);
    assert!(line.starts_with(&format!(".text+0x2: relocation against {PROBE}: the field is ")));
}

#[test]
fn floating_point() {
    let line = only(|f| {
        f.section(".text.float", CODE, vec![0x0f, 0x57, 0xc0]);
    });
    assert!(line.starts_with(".text.float+0x0: `xorps %xmm0,%xmm0` uses "), "{line}");
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
    let line = only(|f| {
        let symbol = f.symbol_named("_fini");
        symbol.st_size = 99;
    });
    assert!(line.starts_with("symbol _fini: 0x63 bytes from +0xe on are not all in its section"));
    let line = only(|f| f.note(".sdt_depends", b"misc/mac\0"));
    assert!(line.starts_with(".sdt_depends: is an input of the link step, "), "{line}");
}

#[test]
fn relocations_against_the_null_symbol() {
    let line = only(|f| {
        let relocation = f.relocation(1);
        (relocation.symbol, relocation.r_type) = (None, elf::R_X86_64_PC32);
    });
    let expected =
        "relocation R_X86_64_PC32 against symbol 0, the null symbol; krtld uses 0 as its address";
    assert_eq!(line, format!(".text+0x7: {expected}"));
}

#[test]
fn bounds_that_are_numbers() {
    let line = only(|f| {
        f.section("set_things", WRITABLE, vec![0; 8]);
        let start = f.symbol("__start_set_things", None, elf::STB_LOCAL);
        f.builder.symbols.get_mut(start).st_shndx = elf::SHN_ABS;
    });
    assert_eq!(line, "symbol __start_set_things: is not the start of section set_things");
}
