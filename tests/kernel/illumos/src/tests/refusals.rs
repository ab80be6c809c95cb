//! Tests of broken modules, and of the messages about them.

use std::sync::atomic::Ordering;

use super::*;

/// Returns the console's lines about a module that is refused with EINVAL.
fn said(name: &str, file: &[u8]) -> Vec<String> {
    let modules = modules();
    let refusal = modules.load(name, file).expect_err("the module is broken");
    assert_eq!(refusal.errno(), EINVAL, "{refusal}");
    assert!(modules.modules().is_empty() && modules.kernel().memory.is_empty());
    let mut console = modules.kernel().console();
    assert_eq!(console.pop(), Some(format!("error loading 'misc/{name}', error 22")));
    console
}

/// Applies `change` to the header of the section `name`; returns the file.
fn with_header(file: Vec<u8>, name: &str, change: impl Fn(&mut [u8])) -> Vec<u8> {
    let mut file = file;
    let word =
        |file: &[u8], at: usize| u64::from_le_bytes(*file[at..].first_chunk().unwrap()) as usize;
    let half = |file: &[u8], at: usize| usize::from(u16::from_le_bytes([file[at], file[at + 1]]));
    let headers = word(&file, 40);
    let names = word(&file, headers + half(&file, 62) * 64 + 24);
    for at in (0..half(&file, 60)).map(|index| headers + index * 64) {
        let offset = u32::from_le_bytes(*file[at..].first_chunk().unwrap()) as usize;
        if file[names + offset..].split(|&byte| byte == 0).next().unwrap() == name.as_bytes() {
            change(&mut file[at..at + 64]);
            return file;
        }
    }
    panic!("no section {name}")
}

fn calling(symbol: &str) -> Vec<u8> {
    let mut module = ModuleBuilder::whole();
    let symbol = module.file.undefined(symbol, false);
    module.call(24, symbol);
    module.finish()
}

/// A module with one relocation against `mod_install`.
fn relocating(kind: elf::RelocationType, offset: u64) -> Vec<u8> {
    let mut module = ModuleBuilder::whole();
    let (text, symbol) = (module.file.text(), module.file.undefined("mod_install", false));
    module.file.patch(text, 24, &[0; 16]);
    module.file.relocate(text, offset, kind, symbol, 0);
    module.finish()
}

#[test]
fn headers() {
    let with = |at: usize, byte: u8| {
        let mut file = ModuleBuilder::whole().finish();
        file[at] = byte;
        file
    };
    assert_eq!(said("not_elf", &with(0, 0)), ["not_elf not an elf module"]);
    assert_eq!(said("not_elf", b""), ["not_elf not an elf module"]);
    let machine = "wrong_machine not an elf module for this ISA";
    assert_eq!(said("wrong_machine", &with(18, 183)), [machine]);
    let kind = "et_dyn isn't a relocatable (ET_REL) module";
    assert_eq!(said("et_dyn", &with(16, 3)), [kind]);
}

#[test]
fn sections_and_symbols() {
    let good = || ModuleBuilder::whole().finish();
    let file = with_header(good(), ".text", |header| header[17] = 0x10);
    assert_eq!(
        said("sh_addr", &file),
        [
            "/kernel/misc/amd64/sh_addr non-zero sect addr in input file",
            "sh_addr error reading sections"
        ]
    );
    let file = with_header(good(), ".symtab", |header| header[4] = 1);
    assert_eq!(
        said("no_symtab", &file),
        [
            "krtld: get_syms: /kernel/misc/amd64/no_symtab no SHT_SYMTAB symbol table found",
            "no_symtab error reading symbols"
        ]
    );
    // Find the symbol `work` by its type, value and size.
    let mut file = good();
    let at = (0..file.len() - 24)
        .find(|&at| file[at + 4] == 2 && file[at + 8] == 24 && file[at + 16] == 40)
        .expect("the symbol of work");
    file[at + 6] = 99;
    let said = said("bad_shndx", &file);
    assert!(said[0].starts_with("/kernel/misc/amd64/bad_shndx bad shndx in symbol "), "{said:?}");
    assert_eq!(said[1], "bad_shndx error reading symbols");
}

#[test]
fn dynamic_sections() {
    let dynamic = |count: usize, link_to_strings: bool| {
        let mut module = ModuleBuilder::whole();
        for _ in 0..count {
            let none = elf::SectionFlags(0);
            module.file.section(".dynamic", elf::SHT_PROGBITS, none, &[0; 16], 8);
        }
        let mut file = module.finish();
        for _ in 0..count {
            // Changes the next section that is not a dynamic section yet.
            file = with_next_dynamic(file, link_to_strings);
        }
        file
    };
    let said_of = said("dyn_two", &dynamic(2, true));
    assert_eq!(
        said_of,
        [
            "krtld: get_dynamic: /kernel/misc/amd64/dyn_two, multiple dynamic sections",
            "dyn_two error reading dynamic section"
        ]
    );
    let said_of = said("dyn_badlink", &dynamic(1, false));
    let start = "krtld: get_dynamic: /kernel/misc/amd64/dyn_badlink, sh_link not a string table for section ";
    assert!(said_of[0].starts_with(start), "{said_of:?}");
}

/// Changes the type of the first PROGBITS section `.dynamic` to `SHT_DYNAMIC`.
fn with_next_dynamic(file: Vec<u8>, link_to_strings: bool) -> Vec<u8> {
    let strings = {
        let half = |at: usize| u16::from_le_bytes([file[at], file[at + 1]]);
        if link_to_strings { half(62) as u8 } else { 0 }
    };
    let mut file = file;
    let headers = u64::from_le_bytes(*file[40..].first_chunk().unwrap()) as usize;
    for at in (headers..file.len()).step_by(64) {
        // `.dynamic` is the only PROGBITS section that is not loaded and has 16 bytes.
        if file[at + 4] == 1 && file[at + 8] == 0 && file[at + 32] == 16 {
            file[at + 4] = elf::SHT_DYNAMIC.0 as u8;
            file[at + 40] = strings;
            return file;
        }
    }
    panic!("no such section")
}

#[test]
fn undefined_symbols() {
    assert_eq!(
        said("missing_symbol", &calling("mod_instalx")),
        [
            "/kernel/misc/amd64/missing_symbol: undefined symbol 'mod_instalx'",
            "WARNING: mod_load: cannot load module 'missing_symbol'"
        ]
    );
    let isenabled = said("isenabled", &calling("__dtrace_isenabled_foo"));
    assert!(isenabled[0].ends_with("undefined symbol '__dtrace_isenabled_foo'"), "{isenabled:?}");
    let mut weak = ModuleBuilder::whole();
    let symbol = weak.file.undefined("missing", true);
    weak.call(24, symbol);
    let modules = modules();
    modules.load("weak_undef", &weak.finish()).unwrap();
    let memory = &modules.kernel().memory;
    assert_eq!(memory.read(BASE + 24), [0xe8, 0, 0, 0, 0], "left as it is");
}

#[test]
fn relocation_tables() {
    let good = || relocating(elf::R_X86_64_PLT32, 24);
    let file = with_header(good(), ".rela.text", |header| header[4] = elf::SHT_REL.0 as u8);
    assert_eq!(
        said("sht_rel", &file),
        [
            "/kernel/misc/amd64/sht_rel can't process type SHT_REL",
            "sht_rel error doing relocations"
        ]
    );
    let file = with_header(good(), ".rela.text", |header| header[40] = 1);
    assert_eq!(
        said("rela_link", &file)[0],
        "/kernel/misc/amd64/rela_link reloc for non-default symtab"
    );
    let file = with_header(good(), ".rela.text", |header| header[44] = 99);
    let line = &said("rela_info", &file)[0];
    assert!(line.starts_with("do_relocations: /kernel/misc/amd64/rela_info sh_info out of range "));
}

#[test]
fn relocation_types() {
    let of = |kind| said("reloc", &relocating(kind, 0x20));
    assert_eq!(
        of(elf::R_X86_64_GOTTPOFF),
        [
            "krtld: invalid relocation type 22 at 0x20: file=/kernel/misc/amd64/reloc",
            "do_relocations: /kernel/misc/amd64/reloc do_relocate failed",
            "reloc error doing relocations"
        ]
    );
    assert!(of(elf::RelocationType(44))[0].starts_with("krtld: invalid relocation type 44 at "));
    assert_eq!(
        of(elf::R_X86_64_GOT64),
        [
            "relocation error: R_AMD64_GOT64: file /kernel/misc/amd64/reloc: symbol mod_install: offset \
             size (0 bytes) is not supporteddo_relocations: /kernel/misc/amd64/reloc do_relocate failed",
            "reloc error doing relocations"
        ]
    );
    assert!(of(elf::R_X86_64_32)[0].starts_with(
        "relocation error: R_AMD64_32: file /kernel/misc/amd64/reloc: symbol mod_install: value \
         0xffffffff80100000 does not fit"
    ));
    // krtld applies these relocations incorrectly, without a message.
    for kind in [elf::R_X86_64_GOTPCREL, elf::R_X86_64_GOTPCRELX, elf::R_X86_64_REX_GOTPCRELX] {
        let said = of(kind);
        assert!(said[0].contains("a relocation through the global offset table"), "{said:?}");
        assert!(
            said[0].ends_with("; krtld would load it and illumos would have panicked"),
            "{said:?}"
        );
    }
}

#[test]
fn probes_that_are_not_called() {
    let probe = |bytes: &[u8], kind| {
        let mut module = ModuleBuilder::whole();
        let (text, symbol) = (module.file.text(), module.file.undefined("__dtrace_probe_x", false));
        module.file.patch(text, 24, bytes);
        module.file.relocate(text, 25, kind, symbol, -4);
        said("probe", &module.finish())
    };
    let line = &probe(&[0xe9, 0, 0, 0, 0], elf::R_X86_64_PLT32)[0];
    assert!(line.contains("a probe's site is no call but e9"), "{line}");
    // krtld checks the type of the relocation before the name of its symbol.
    let line = &probe(&[0xe8, 0, 0, 0, 0], elf::R_X86_64_TPOFF32)[0];
    assert!(line.starts_with("krtld: invalid relocation type 23 at 0x19"), "{line}");
    let mut module = ModuleBuilder::whole();
    let (data, symbol) = (module.file.data(), module.file.undefined("__dtrace_probe_x", false));
    module.file.relocate(data, 8, elf::R_X86_64_64, symbol, 0);
    let line = &said("in_table", &module.finish())[0];
    assert!(line.contains("a probe's address in data, which becomes a site there"), "{line}");
}

#[test]
fn memory_that_is_out() {
    let modules = modules();
    modules.kernel().memory.no_memory.store(true, Ordering::Relaxed);
    let refusal = modules.load("tmod", &ModuleBuilder::whole().finish()).unwrap_err();
    assert_eq!(refusal, Refusal::OutOfMemory);
    assert!(modules.kernel().memory.is_empty());
}

#[test]
fn damaged_files_are_refused_in_order() {
    let mut module = ModuleBuilder::whole();
    module.probe("foo__bar", 24);
    module.depends("misc/mac");
    let file = module.finish();
    for length in 0..file.len() {
        let _ = modules().load("cut", &file[..length]);
    }
    let mut random = 0x9e37_79b9_u32;
    for _ in 0..4000 {
        let mut damaged = file.clone();
        for _ in 0..3 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            damaged[random as usize % file.len()] = (random >> 24) as u8;
        }
        let modules = modules();
        // If the value of a symbol is damaged, the kernel may call another function.
        modules.kernel().lenient.set(true);
        let _ = modules.load("damaged", &damaged);
    }
}

#[test]
fn what_krtld_trusts_in() {
    let unsound = |file: &[u8], reason: &str| {
        let refusal = modules().load("bad", file).expect_err("the module is broken");
        assert!(refusal.would_have_panicked(), "{refusal:?}");
        assert!(refusal.to_string().contains(reason), "{refusal}");
    };
    let file =
        with_header(relocating(elf::R_X86_64_PC32, 24), ".rela.text", |header| header[17] = 1);
    unsound(&file, "relocations that say where in memory they are");
    let mut module = ModuleBuilder::whole();
    let (data, text) = (module.file.data(), module.file.text());
    let symbol = module.file.section_symbol(text);
    module.file.relocate(data, 0, elf::R_X86_64_64, symbol, 1 << 16);
    unsound(&module.finish(), "a pointer to outside of its section");
    let mut module = ModuleBuilder::whole();
    let text = module.file.text();
    module.file.function("far", text, 1 << 30, 8);
    unsound(&module.finish(), "a function outside of the module");
}

#[test]
fn twins_that_init_would_fall_over() {
    let with = |twin: i64, stop: i64| {
        let mut module = ModuleBuilder::whole();
        let (text, data) = (module.file.text(), module.file.data());
        let twins =
            module.file.section("sdt_is_enabled", elf::SHT_PROGBITS, elf::SHF_ALLOC, &[0; 8], 8);
        let text = module.file.section_symbol(text);
        module.file.relocate(twins, 0, elf::R_X86_64_64, text, twin);
        let set = module.file.section_symbol(twins);
        module.file.append(data, &[0; 32]);
        module.file.define("__sdt_is_enabled", data, 0);
        module.file.relocate(data, 0, elf::R_X86_64_64, set, 0);
        module.file.relocate(data, 8, elf::R_X86_64_64, set, stop);
        modules().load("twins", &module.finish())
    };
    assert_eq!(with(8, 8), Ok(()));
    assert_eq!(with(8, 0), Ok(()), "a set of none");
    assert!(with(1 << 30, 8).unwrap_err().would_have_panicked());
    assert!(with(8, 1 << 20).unwrap_err().would_have_panicked());
}
