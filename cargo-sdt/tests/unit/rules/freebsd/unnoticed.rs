//! Defects that no loader detects, and that disable a feature of the module: breaks each rule once.

use object::elf;

use super::module;
use super::relocatable_fixture::{CODE, Fixture, READ_ONLY, WRITABLE, relocation};

fn said_of(file: &[u8]) -> Vec<String> {
    super::said_of(module(file).map(|summary| summary.warnings))
}

fn said(change: impl FnOnce(&mut Fixture)) -> Vec<String> {
    let mut fixture = Fixture::good();
    change(&mut fixture);
    said_of(&fixture.file())
}

#[test]
fn symbols_in_sections_of_reserved_numbers() {
    for number in [0xff00_u16, 0xff20, 0xfff0] {
        let said = said(|f| {
            let symbol = f.symbol("counter", None, elf::STB_GLOBAL);
            f.builder.symbols.get_mut(symbol).st_shndx = elf::SymbolSection(number);
        });
        let expected = format!(
            "symbol counter: is in section {number}, which does not exist; the loader refuses the module, or crashes"
        );
        assert_eq!(said, [expected]);
    }
}

#[test]
fn distances_to_numbers() {
    let said = said(|f| {
        let number = f.symbol("number", None, elf::STB_LOCAL);
        let of = f.builder.symbols.get_mut(number);
        (of.st_shndx, of.st_value) = (elf::SHN_ABS, 0x1000);
        f.relocations(".rela.text")[0].symbol = Some(number);
    });
    let expected = ".text+0x9: relocation R_X86_64_PLT32 against number-0x4 points outside the symbol's section";
    assert_eq!(said, [expected]);
}

/// Adds a sysctl: bytes of the `struct sysctl_oid`, and what its parent and its name point to.
fn sysctl(f: &mut Fixture, flags: elf::SectionFlags, size: usize, named: bool) {
    sysctl_with(f, flags, size, named, 48);
}

/// Adds a sysctl as [`sysctl`] does, with the pointer to its name at the offset `at`.
fn sysctl_with(f: &mut Fixture, flags: elf::SectionFlags, size: usize, named: bool, at: u64) {
    let oid = f.section(".oid", flags, vec![0; size]);
    let set = f.section("set_sysctl_set", READ_ONLY, vec![0; 8]);
    let name = f.section(".rodata.oid", READ_ONLY, b"greet\0".to_vec());
    let oid_symbol = f.symbol("oid", Some(oid), elf::STB_LOCAL);
    let name = f.symbol("name", Some(name), elf::STB_LOCAL);
    let parent = f.symbol("sysctl__children", None, elf::STB_GLOBAL);
    if named {
        let pointer = |at, to| relocation(at, to, elf::R_X86_64_64, 0);
        f.relocate(oid, vec![pointer(8, parent), pointer(at, name)]);
    }
    f.relocate(set, vec![relocation(0, oid_symbol, elf::R_X86_64_64, 0)]);
}

#[test]
fn sysctls_that_are_none() {
    let mut good = Fixture::good();
    sysctl(&mut good, WRITABLE, 96, true);
    module(&good.file()).expect("a sysctl");
    let mut since_14 = Fixture::good();
    sysctl_with(&mut since_14, WRITABLE, 112, true, 64);
    module(&since_14.file()).expect("a sysctl since 14");
    for (flags, size, named, expected) in [
        (CODE, 96, false, "a struct sysctl_oid points into .oid, which is not writable data"),
        (READ_ONLY, 96, true, "a struct sysctl_oid points into .oid, which is not writable data"),
        (WRITABLE, 72, true, "not the 80 bytes of a struct sysctl_oid"),
        (
            WRITABLE,
            96,
            false,
            "the parent or the name of a struct sysctl_oid is not the address of anything in this module",
        ),
    ] {
        let said = said(|f| sysctl(f, flags, size, named));
        let expected = format!("set_sysctl_set+0x0: {expected}");
        assert!(said.contains(&expected), "{said:#?}");
    }
}

#[test]
fn providers_without_a_site() {
    let native = |change: fn(&mut Fixture)| {
        let mut fixture = Fixture::native("15".parse().unwrap());
        change(&mut fixture);
        said_of(&fixture.file())
    };
    let expected = |provider: &str| {
        format!(
            "warning: provider {provider} is declared or has probes, but no site fires any of them, so it can never be traced"
        )
    };
    let of_native = native(|f| {
        f.builder.sections.iter_mut().for_each(|section| {
            section.delete |= section.name.to_string().ends_with("set_sdt_tracepoint_set");
        });
    });
    assert_eq!(of_native, [expected("proc")]);
    // A probe of a second provider of the module, `roc`.
    let said = said(|f| {
        let bytes = f.data("linkme_SDT_PROVIDERS");
        let one = bytes.clone();
        bytes.extend_from_slice(&one);
        let (at, length) = (one.len() as u64 + 8, one.len() + 16);
        f.data("linkme_SDT_PROVIDERS")[length] = 4;
        let name = f.relocations(".relalinkme_SDT_PROVIDERS")[0];
        let addend = name.r_addend + 1;
        let second = relocation(at, name.symbol.unwrap(), name.r_type, addend);
        f.relocations(".relalinkme_SDT_PROVIDERS").push(second);
    });
    assert_eq!(said, [expected("roc")]);
}
