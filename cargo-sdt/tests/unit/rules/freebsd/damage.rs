//! Defects that only damage or a wrong link step can cause in a relocatable file: breaks each rule once.

use object::build::elf::SymbolId;
use object::elf;

use super::module;
use super::relocatable_fixture::{CODE, Fixture, READ_ONLY, WRITABLE, relocation};
use super::said_of;
use crate::check::{Against, Kernel, freebsd_module};

/// Returns the findings in a file.
fn said(file: &[u8]) -> Vec<String> {
    said_of(module(file).map(|summary| summary.warnings))
}

/// Returns the only finding in the fixture after a change.
fn only(change: impl FnOnce(&mut Fixture)) -> String {
    let mut fixture = Fixture::good();
    change(&mut fixture);
    only_of(&fixture.file())
}

fn only_of(file: &[u8]) -> String {
    let mut said = said(file);
    assert_eq!(said.len(), 1, "{said:#?}");
    said.remove(0)
}

/// The fixture's file after a change of the header of a section.
pub(super) fn with_header(name: &str, change: impl Fn(&mut [u8])) -> Vec<u8> {
    with_header_of(Fixture::good().file(), name, change)
}

fn with_header_of(mut file: Vec<u8>, name: &str, change: impl Fn(&mut [u8])) -> Vec<u8> {
    let word =
        |file: &[u8], at: usize| u64::from_le_bytes(*file[at..].first_chunk().unwrap()) as usize;
    let half = |file: &[u8], at: usize| usize::from(u16::from_le_bytes([file[at], file[at + 1]]));
    let headers = word(&file, 40);
    let names = word(&file, headers + half(&file, 62) * 64 + 24);
    let found = (0..half(&file, 60)).map(|index| headers + index * 64).find(|&at| {
        let offset = u32::from_le_bytes(*file[at..].first_chunk().unwrap()) as usize;
        file[names + offset..].starts_with(&[name.as_bytes(), b"\0"].concat())
    });
    let at = found.unwrap_or_else(|| panic!("no section {name}"));
    change(&mut file[at..at + 64]);
    file
}

/// Adds a function to the text.
fn function(f: &mut Fixture, name: &'static str, value: u64, size: u64) -> SymbolId {
    let text = f.named(".text").id();
    let symbol = f.symbol(name, Some(text), elf::STB_LOCAL);
    let of = f.builder.symbols.get_mut(symbol);
    of.set_st_info(elf::STB_LOCAL, elf::STT_FUNC);
    (of.st_value, of.st_size) = (value, size);
    symbol
}

#[test]
fn sections_for_the_link_step() {
    let line = only(|f| {
        f.section(".sdt_depends", elf::SectionFlags(0), b"misc/mac\0".to_vec());
    });
    assert!(line.starts_with(".sdt_depends: is an input of the link step, which removes it; "));
}

#[test]
fn notes_are_passed_over() {
    let with = |used: bool| {
        let mut fixture = Fixture::good();
        let note = fixture.section(".note.build-id", READ_ONLY, vec![0; 16]);
        fixture.named(".note.build-id").sh_type = elf::SHT_NOTE;
        if used {
            let symbol = fixture.relocations(".rela.data")[0].symbol.unwrap();
            fixture.relocate(note, vec![relocation(0, symbol, elf::R_X86_64_64, 0)]);
        }
        module(&fixture.file())
    };
    with(false).expect("the loader leaves it out, and no relocation refers to it");
    let line = with(true).unwrap_err()[0].to_string();
    let expected = ".note.build-id: of type 0x7, which FreeBSD's loader ignores or does not load";
    assert_eq!(line, expected);
}

#[test]
fn relocations_of_something_else() {
    let lines = said(&with_header(".relaset_sysinit_set", |header| header[4] = 1));
    let expected =
        "the name says relocations of set_sysinit_set, but of type 0x1; the file is damaged";
    assert!(lines.contains(&format!(".relaset_sysinit_set: {expected}")), "{lines:#?}");
    let said = said(&with_header(".relasdt_sites", |header| header[44] = 4));
    let expected = ".relasdt_sites: the name says relocations of sdt_sites, but applied to ";
    assert!(said.iter().any(|line| line.starts_with(expected)), "{said:#?}");
}

#[test]
fn symbols_outside_of_their_sections() {
    let line = only(|f| {
        function(f, "far", 0x99, 1);
    });
    let expected = "+0x99 is outside of its section, .text, of 16 bytes; fbt reads there";
    assert_eq!(line, format!("symbol far: {expected}"));
    let line = only(|f| {
        function(f, "long", 8, 16);
    });
    assert!(line.starts_with("symbol long: 0x10 bytes from +0x8 on are not all in its section, "));
    let line = only(|f| {
        let symbol = f.symbol("gone", None, elf::STB_GLOBAL);
        let of = f.builder.symbols.get_mut(symbol);
        of.set_st_info(elf::STB_GLOBAL, elf::STT_FUNC);
        of.st_value = 64;
    });
    let expected = "a function with an address but without a section; fbt would disassemble it";
    assert_eq!(line, format!("symbol gone: {expected}"));
    let line = only(|f| {
        let data = f.named(".data").id();
        let symbol = f.symbol("moved", Some(data), elf::STB_LOCAL);
        let of = f.builder.symbols.get_mut(symbol);
        of.set_st_info(elf::STB_LOCAL, elf::STT_SECTION);
        of.st_value = 1;
    });
    let expected = "a section symbol 0x1 bytes after the start of the section: relocations with it would be wrong";
    assert!(line.ends_with(expected), "{line}");
    let line = only(|f| {
        let data = f.named(".data").id();
        let symbol = f.symbol("datum", Some(data), elf::STB_LOCAL);
        f.builder.symbols.get_mut(symbol).set_st_info(elf::STB_LOCAL, elf::STT_FUNC);
    });
    assert!(line.starts_with("symbol datum: a function in .data, which is not executable; "));
}

#[test]
fn bounds_that_are_defined_elsewhere() {
    let bound = |name: &'static str, value| {
        move |f: &mut Fixture| {
            let set = f.named("set_sysinit_set").id();
            let symbol = f.symbol(name, Some(set), elf::STB_LOCAL);
            f.builder.symbols.get_mut(symbol).st_value = value;
        }
    };
    let line = only(bound("__start_set_sysinit_set", 8));
    let expected = "symbol __start_set_sysinit_set: is not the start of section set_sysinit_set";
    assert_eq!(line, expected);
    let mut right = Fixture::good();
    bound("__stop_set_sysinit_set", 8)(&mut right);
    module(&right.file()).expect("that is its end");
}

#[test]
fn sets_that_are_larger_than_the_file() {
    // If the check used these sizes, it would run forever.
    let without_bytes = |file: Vec<u8>, set: &str| {
        let file = with_header_of(file, set, |header| {
            header[4..8].copy_from_slice(&elf::SHT_NOBITS.0.to_le_bytes());
            header[32..40].copy_from_slice(&(1_u64 << 50).to_le_bytes());
        });
        let said = said(&file);
        let expected = format!(
            "{set}: 1125899906842624 bytes of a set, of which 0 are in the file; all elements must be in the file"
        );
        assert!(said.contains(&expected), "{said:#?}");
    };
    for set in ["set_modmetadata_set", "set_sysinit_set", "linkme_SDT_PROBES", "sdt_sites"] {
        without_bytes(Fixture::good().file(), set);
    }
    for set in [
        "set_sdt_providers_set",
        "set_sdt_probes_set",
        "set_sdt_argtypes_set",
        "set_sdt_tracepoint_set",
    ] {
        without_bytes(Fixture::native("15".parse().unwrap()).file(), set);
    }
}

#[test]
fn relocations_that_overlap() {
    let line = only(|f| {
        let first = f.relocations(".rela.text")[0];
        f.relocations(".rela.text").push(first);
    });
    let expected =
        "relocation R_X86_64_PLT32 against printf overlaps the previous one; one of them is lost";
    assert_eq!(line, format!(".text+0x9: {expected}"));
    let line = only(|f| {
        let symbol = f.relocations(".rela.data")[0].symbol.unwrap();
        f.relocations(".rela.data").push(relocation(20, symbol, elf::R_X86_64_64, 0));
    });
    assert!(
        line.starts_with(".data+0x14: relocation R_X86_64_64 against .text overlaps"),
        "{line}"
    );
}

#[test]
fn calls_and_pointers_into_functions() {
    // The two functions of the text, the cold block being one of its own.
    let whole = |f: &mut Fixture| {
        function(f, "hot", 0, 8);
        function(f, "cold", 8, 8)
    };
    let call = |addend| {
        move |f: &mut Fixture| {
            let cold = whole(f);
            f.relocations(".rela.text")[0] = relocation(9, cold, elf::R_X86_64_PLT32, addend);
        }
    };
    let mut right = Fixture::good();
    call(-4)(&mut right);
    module(&right.file()).expect("a call of a function");
    for (addend, said) in [
        (-3, "call of cold+0x1: no function starts at the target"),
        (0x1000, "call of cold+0x1004: the target is outside of the function's section"),
        (-0x100, "call of cold-0xfc: the target is outside of the function's section"),
    ] {
        assert_eq!(only(call(addend)), format!(".text+0x9: {said}"));
    }
    let line = only(|f| {
        whole(f);
        f.relocations(".rela.data")[0].r_addend = 4;
    });
    assert!(line.contains("points 0x4 bytes into hot, where no function starts"), "{line}");
}

#[test]
fn sysinits_and_handlers_that_are_no_functions() {
    let with_handler = |at, addend| {
        let mut fixture = Fixture::good();
        function(&mut fixture, "handler", 0, 16);
        let symbol = fixture.relocations(".rela.data")[0].symbol.unwrap();
        let handler = relocation(at, symbol, elf::R_X86_64_64, addend);
        fixture.relocations(".rela.rodata").push(handler);
        fixture.file()
    };
    module(&with_handler(112 + 8, 0)).expect("a handler");
    let expected =
        ".rodata+0x78: the event handler of a moduledata_t is not the address of a function";
    // An address in the middle of a function, and an address of which the kernel reads only a part.
    for (at, addend) in [(112 + 8, 3), (112 + 10, 0), (112 + 1, 0)] {
        let lines = said(&with_handler(at, addend));
        assert!(lines.iter().any(|line| line == expected), "{at} {addend}: {lines:#?}");
    }
    // `module_register_init` with an argument that is not a module of the file.
    let register = |addend| {
        move |f: &mut Fixture| {
            let register = f.symbol("module_register_init", None, elf::STB_GLOBAL);
            let rodata = f.relocations(".rela.rodata")[0].symbol.unwrap();
            // `SI_SUB_DUMMY` would not be run.
            f.data(".data")[0] = 1;
            *f.relocations(".rela.data") = vec![
                relocation(16, register, elf::R_X86_64_64, 0),
                relocation(24, rodata, elf::R_X86_64_64, addend),
            ];
        }
    };
    let mut right = Fixture::good();
    register(112)(&mut right);
    module(&right.file()).expect("the module's own");
    let line = only(register(113));
    let expected =
        "module_register_init for a record that is not a module of this file; the kernel panics";
    assert_eq!(line, format!("set_sysinit_set+0x0: {expected}"));
}

#[test]
fn constructors_are_functions() {
    let with = |name: &'static str, kind, addend: Option<i64>| {
        move |f: &mut Fixture| {
            let section = f.section(name, WRITABLE, vec![0; 16]);
            f.named(name).sh_type = kind;
            function(f, "start", 0, 8);
            function(f, "cold", 8, 8);
            match addend {
                Some(addend) => {
                    let text = f.relocations(".rela.data")[0].symbol.unwrap();
                    f.relocate(section, vec![relocation(8, text, elf::R_X86_64_64, addend)]);
                }
                None => f.data(name)[8..].fill(0x41),
            }
        }
    };
    for (name, kind) in [
        (".init_array", elf::SHT_INIT_ARRAY),
        (".fini_array", elf::SHT_PROGBITS),
        (".ctors", elf::SHT_PROGBITS),
        (".dtors", elf::SHT_PROGBITS),
        (".odd", elf::SHT_FINI_ARRAY),
    ] {
        let mut right = Fixture::good();
        with(name, kind, Some(0))(&mut right);
        module(&right.file()).expect("a function, and a word that is passed over");
        let expected =
            format!("{name}+0x8: a constructor or destructor is not the address of a function");
        assert_eq!(only(with(name, kind, None)), expected);
        let middle = said_of({
            let mut wrong = Fixture::good();
            with(name, kind, Some(4))(&mut wrong);
            module(&wrong.file()).map(|summary| summary.warnings)
        });
        assert!(middle.contains(&expected), "{middle:#?}");
    }
    let expected = ".init_array+0x8: a constructor or destructor is not the address of a function";
    let line = only(|f| {
        with(".init_array", elf::SHT_INIT_ARRAY, Some(0))(f);
        let data = f.relocations(".relasdt_sites")[0].symbol;
        f.relocations(".rela.init_array")[0].symbol = data;
    });
    assert_eq!(line, expected, "of data");
    let line = only(|f| {
        with(".init_array", elf::SHT_INIT_ARRAY, Some(0))(f);
        let missing = f.symbol("missing", None, elf::STB_WEAK);
        f.relocations(".rela.init_array")[0].symbol = Some(missing);
    });
    assert_eq!(line, expected, "a weak symbol");
    let line = only(|f| f.named(".text").sh_type = elf::SHT_INIT_ARRAY);
    assert!(
        line.starts_with(".text: a list of constructors or destructors, by its name "),
        "{line}"
    );
}

#[test]
fn functions_and_elements_that_nobody_may_have() {
    let missing = |f: &mut Fixture| f.symbol("missing", None, elf::STB_WEAK);
    let line = only(|f| {
        // `SI_SUB_DUMMY` would not be run.
        f.data(".data")[0] = 1;
        f.relocations(".rela.data")[0].symbol = Some(missing(f));
    });
    let expected = "the function of a struct sysinit is a weak undefined symbol: if no module \
        defines it, the loader sets it to 0, and the kernel uses that address";
    assert_eq!(line, format!("set_sysinit_set+0x0: {expected}"));
    let set = |binding| {
        move |f: &mut Fixture| {
            let set = f.section("set_sysctl_set", READ_ONLY, vec![0; 8]);
            let element = f.symbol("sysctl___kern", None, binding);
            f.relocate(set, vec![relocation(0, element, elf::R_X86_64_64, 0)]);
        }
    };
    let line = only(set(elf::STB_WEAK));
    assert!(
        line.starts_with("set_sysctl_set+0x0: an element is a weak undefined symbol: "),
        "{line}"
    );
    let mut known = Fixture::good();
    set(elf::STB_GLOBAL)(&mut known);
    module(&known.file()).expect("the kernel has it");
}

#[test]
fn alignments_and_sizes_that_no_kernel_has() {
    for align in [1_u64 << 13, 1 << 31, 1 << 32, 1 << 40] {
        let line = only_of(&with_header(".text", |header| {
            header[48..56].copy_from_slice(&align.to_le_bytes());
        }));
        assert!(
            line.starts_with(&format!(".text: alignment {align}; the loader aligns ")),
            "{line}"
        );
    }
    let bss = |size: u64| {
        let mut fixture = Fixture::good();
        fixture.section(".bss", WRITABLE, Vec::new());
        fixture.named(".bss").sh_type = elf::SHT_NOBITS;
        with_header_of(fixture.file(), ".bss", |header| {
            header[32..40].copy_from_slice(&size.to_le_bytes());
        })
    };
    module(&bss(1 << 28)).expect("large, but there is room");
    for size in [1 << 30, 1 << 50, u64::MAX] {
        let line = only_of(&bss(size));
        assert!(line.starts_with("needs ") && line.contains(" bytes of memory; "), "{line}");
    }
}

#[test]
fn versions_of_the_file() {
    let mut file = Fixture::good().file();
    file[20] = 2;
    let expected = "the version is 2; FreeBSD's loader for amd64 supports 1 (EV_CURRENT) only";
    assert_eq!(only_of(&file), expected);
}

#[test]
fn symbols_that_the_loader_does_not_look_for() {
    let calling = |name: &'static str, binding| {
        move |f: &mut Fixture| {
            let symbol = f.symbol(name, None, binding);
            f.relocations(".rela.text")[0].symbol = Some(symbol);
        }
    };
    let looks = "FreeBSD's loader looks up only global and weak symbols";
    for (name, binding, what) in [
        ("malloc", elf::STB_LOCAL, "local"),
        ("malloc", elf::STB_GNU_UNIQUE, "unique (STB_GNU_UNIQUE)"),
        ("", elf::STB_GLOBAL, "without a name"),
        ("", elf::STB_WEAK, "without a name"),
    ] {
        let expected = format!("symbol {name}: undefined and {what}; {looks}");
        assert_eq!(only(calling(name, binding)), expected);
    }
    let mut unused = Fixture::good();
    unused.symbol("malloc", None, elf::STB_LOCAL);
    module(&unused.file()).expect("no relocation uses it");
}

#[test]
fn variables_of_each_cpu_are_no_pointers() {
    let mut fixture = Fixture::good();
    fixture.section("set_pcpu", WRITABLE, vec![7; 12]);
    fixture.section("set_vnet", WRITABLE, vec![7; 4]);
    module(&fixture.file()).expect("they hold what they are named for");
}

#[test]
fn registers_that_the_kernel_saves() {
    let mut fixture = Fixture::good();
    fixture.section(".text.aes", CODE, vec![0x0f, 0x57, 0xc0, 0x0f, 0x57, 0xc0]);
    let enter = fixture.symbol("fpu_kern_enter", None, elf::STB_GLOBAL);
    fixture.relocations(".rela.text")[0].symbol = Some(enter);
    let said = said(&fixture.file());
    let expected = "warning: .text.aes: 2 instructions use SSE, MMX or x87 state; the module calls \
        fpu_kern_enter, which allows this";
    assert!(said.iter().any(|line| line == expected), "{said:#?}");
}

#[test]
fn the_name_of_the_file() {
    let of = |fixture: Fixture, file| {
        let kernel = Kernel::unknown();
        let against = Against { file: Some(file), kernel: &kernel };
        said_of(freebsd_module(&fixture.file(), against).map(|summary| summary.warnings))
    };
    let line = of(Fixture::good(), "other.ko").remove(0);
    let expected = "the file is other.ko, and its modules are proc_example: its provider's probes \
        would outlive the file; give both the same name";
    assert_eq!(line, expected);
    let native = Fixture::native("15".parse().unwrap());
    let line = of(native, "other.ko").remove(0);
    let expected = "warning: the file is other.ko, and its modules are proc_example: DTrace lists its probes by the file's name";
    assert_eq!(line, expected);
    let kernel = Kernel::unknown();
    let against = Against { file: Some("proc_example.ko"), kernel: &kernel };
    let summary = freebsd_module(&Fixture::good().file(), against).expect("its own name");
    assert_eq!(summary.warnings, []);
}

#[test]
fn names_of_relocations_are_those_of_their_sections() {
    let line = only(|f| f.named(".data").name = ".dat".into());
    let expected =
        ".rela.data: the name says relocations of .data, but applied to .dat; the file is damaged";
    assert_eq!(line, expected);
}

#[test]
fn cold_blocks_begin_at_instructions() {
    let block = |addend| {
        move |f: &mut Fixture| {
            function(f, "whole", 0, 16);
            f.relocations(".relasdt_sites")[2].r_addend = addend;
        }
    };
    let expected = "sdt_sites+0x10: the site and its cold block do not match, because the block \
        begins inside an instruction, so the site cannot become a jump";
    assert_eq!(only(block(9)), expected);
    let mut right = Fixture::good();
    block(8)(&mut right);
    module(&right.file()).expect("the call");
}

#[test]
fn bounds_are_those_of_their_set() {
    let bound = |name: &'static str, section: Option<&'static str>| {
        move |f: &mut Fixture| {
            let section = section.map(|section| f.named(section).id());
            let symbol = f.symbol(name, section, elf::STB_LOCAL);
            if section.is_none() {
                f.builder.symbols.get_mut(symbol).st_shndx = elf::SHN_ABS;
            }
        }
    };
    for (name, section, expected) in [
        ("__start_set_sysinit_set", None, "is not the start of section set_sysinit_set"),
        ("__start_set_sysinit_set", Some(".data"), "is not the start of section set_sysinit_set"),
        ("__stop_set_gone", Some(".data"), "is not the end of section set_gone"),
    ] {
        assert_eq!(only(bound(name, section)), format!("symbol {name}: {expected}"));
    }
    let mut none = Fixture::good();
    bound("__start_set_gone", None)(&mut none);
    module(&none.file()).expect("a set without elements starts at 0");
}

#[test]
fn indirect_functions_have_a_resolver() {
    let resolved = |resolver: elf::SymbolType| {
        move |f: &mut Fixture| {
            function(f, "whole", 0, 16);
            let name = function(f, "chosen", 8, 1);
            f.builder.symbols.get_mut(name).set_st_info(elf::STB_LOCAL, elf::STT_GNU_IFUNC);
            let of = function(f, "chosen_resolver", 8, 1);
            f.builder.symbols.get_mut(of).set_st_info(elf::STB_LOCAL, resolver);
        }
    };
    let mut right = Fixture::good();
    resolved(elf::STT_FUNC)(&mut right);
    module(&right.file()).expect("FreeBSD's own modules have these");
    let expected = "symbol chosen: an indirect function (STT_GNU_IFUNC) without a resolver; ";
    let line = only(resolved(elf::STT_NOTYPE));
    assert!(line.starts_with(expected), "{line}");
}

#[test]
fn tables_of_symbols_have_all_that_they_count() {
    let file = with_header(".symtab", |header| header[44..48].copy_from_slice(&[99, 0, 0, 0]));
    let line = only_of(&file);
    let expected = ".symtab: the first global symbol is number 99, and the table has ";
    assert!(line.starts_with(expected), "{line}");
}

#[test]
fn records_are_aligned() {
    let metadata = |f: &mut Fixture| f.relocations(".relaset_modmetadata_set")[0].r_addend += 4;
    let lines = said(&{
        let mut fixture = Fixture::good();
        metadata(&mut fixture);
        fixture.file()
    });
    let expected = "set_modmetadata_set+0x0: an element points to .rodata+0x44, which is not \
        aligned to 8 bytes, so no record begins there";
    assert!(lines.iter().any(|line| line == expected), "{lines:#?}");
    let lines = said(&with_header(".rodata", |header| header[48] = 4));
    let expected = "set_modmetadata_set+0x0: an element points to .rodata+0x40, which is not \
        aligned to 8 bytes, so no record begins there";
    assert!(lines.iter().any(|line| line == expected), "{lines:#?}");
}

#[test]
fn changed_files() {
    let mut file = Fixture::good().file();
    crate::link::seal(&mut file);
    assert_eq!(module(&file).expect("as it was linked").warnings, []);
    let expected = "the contents do not match the checksum of the link: the file was changed; copy or build it again";
    // A letter in `.strtab`, or the like, which no rule is about.
    let last = file.len() - 17;
    file[last] ^= 1;
    assert_eq!(only_of(&file), expected);
}
