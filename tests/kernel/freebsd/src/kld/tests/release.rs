//! Tests of linkers that behave like other FreeBSD releases.

use super::*;

fn linker_of(version: i32) -> Linker<Machine> {
    let linker = linker();
    linker.set_release(Release::new(version.cast_unsigned()).unwrap()).unwrap();
    linker
}

/// Builds a module for a release, with a SYSINIT.
fn built_for(version: i32) -> ModuleBuilder {
    let ceiling = (version / 100_000 + 1) * 100_000 - 1;
    ModuleBuilder::of(Release::new(version.cast_unsigned()).unwrap())
        .depend("kernel", [version, version, ceiling])
        .module("one", 8)
        .sysinit(false, 0x310_0000, 9, 3)
}

#[test]
fn a_module_loads_in_its_release_and_no_other() {
    let releases = [1_003_000, 1_201_000, 1_302_000, 1_404_000, 1_500_068];
    for built in releases {
        for running in releases {
            let linker = linker_of(running);
            let result = linker.load("one.ko", &built_for(built).finish());
            if built == running {
                result.unwrap();
                assert_eq!(linker.log(), ["event 0 to 8", "call 3", "one.ko is loaded"], "{built}");
                linker.unload("one.ko").unwrap();
            } else {
                assert!(matches!(result, Err(Refusal::Dependency { .. })), "{built} in {running}");
                assert_eq!(
                    linker.console(),
                    ["KLD one.ko: depends on kernel - not available or version mismatch"]
                );
                assert_eq!(linker.log(), [""; 0]);
            }
            linker.assert_empty();
        }
    }
    // A later kernel of the same major release loads the module, an earlier kernel refuses it.
    linker_of(1_404_500).load("one.ko", &built_for(1_404_000).finish()).unwrap();
    let earlier = linker_of(1_403_000).load("one.ko", &built_for(1_404_000).finish());
    assert!(matches!(earlier, Err(Refusal::Dependency { .. })));
}

#[test]
fn records_of_another_size_are_not_what_they_were() {
    // The file claims to be for FreeBSD 14 but has the SYSINIT records of 13: at the offset at which 14 has the function, 13 has
    // the argument.
    let file = ModuleBuilder::of(Release::new(1_302_000).unwrap())
        .depend("kernel", [1_404_000, 1_404_000, 1_499_999])
        .module("one", 8)
        .finish();
    let linker = linker_of(1_404_000);
    let refusal = linker.load("one.ko", &file).unwrap_err();
    assert!(matches!(refusal, Refusal::Record(_)), "{refusal:?}");
    linker.assert_empty();
}

#[test]
fn plt32_is_unknown_before_12() {
    let module = |version| {
        let mut module = built_for(version);
        let text = module.file.text();
        let symbol = module.file.section_symbol(text);
        module.file.relocate(text, 0, elf::R_X86_64_PLT32, symbol, -4);
        module.finish()
    };
    linker_of(1_201_000).load("one.ko", &module(1_201_000)).unwrap();
    let linker = linker_of(1_103_000);
    let refusal = linker.load("one.ko", &module(1_103_000)).unwrap_err();
    assert_eq!(refusal.errno(), errno::ENOEXEC);
    let console = linker.console();
    assert!(console[0].starts_with("kldload: unexpected relocation type 4,"), "{console:?}");
    linker.assert_empty();
}

#[test]
fn dependencies_are_looked_at_before_symbols() {
    let module = |version| {
        let mut module = built_for(version);
        let (text, symbol) = (module.file.text(), module.file.undefined("sdt_probe", false));
        module.file.relocate(text, 0, elf::R_X86_64_PC32, symbol, -4);
        module.finish()
    };
    for (running, line) in [
        (1_404_000, "KLD one.ko: depends on kernel - not available or version mismatch"),
        (1_500_068, "link_elf_obj: symbol sdt_probe undefined"),
    ] {
        let linker = linker_of(running);
        linker.load("one.ko", &module(1_500_068)).unwrap_err();
        assert_eq!(linker.console(), [line]);
        linker.assert_empty();
    }
}

#[test]
fn the_release_stays_while_files_are_loaded() {
    let linker = linker_of(1_404_000);
    linker.load("one.ko", &built_for(1_404_000).finish()).unwrap();
    let refusal = linker.set_release(DEFAULT).unwrap_err();
    assert_eq!((&refusal, refusal.errno()), (&Refusal::ReleaseInUse, errno::EBUSY));
    assert_eq!(linker.release().version(), 1_404_000);
    linker.unload("one.ko").unwrap();
    linker.set_release(DEFAULT).unwrap();
    linker.load("one.ko", &module("one").finish()).unwrap();
}
