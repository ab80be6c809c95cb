//! Rules for symbols: undefined ones, exports of the kernel, and dependencies of the module.

use std::path::Path;

use object::elf;

use super::fixture::{Fixture, READ_ONLY, with_header};
use super::{module, only, only_of, said_of};
use crate::check::Kernel;
use crate::check::{Against, illumos_module};

#[test]
fn symbol_tables() {
    let change = |file, kind: u32| {
        with_header(file, ".symtab", |header| header[4..8].copy_from_slice(&kind.to_le_bytes()))
    };
    let line = only_of(&change(Fixture::good().file(), elf::SHT_DYNSYM.0));
    assert_eq!(line, "0 symbol tables; krtld requires exactly one");
    let file = with_header(Fixture::good().file(), ".symtab", |header| header[40] = 0);
    assert!(only_of(&file).starts_with(
        "the names of the symbols are not in a string table, from which krtld reads them"
    ));
}

#[test]
fn too_many_symbols() {
    let line = only(|f| {
        for _ in 0..=u16::MAX {
            let text = f.text;
            f.symbol("x", Some(text), elf::STB_LOCAL);
        }
    });
    assert!(
        line.ends_with(
            "symbols; old releases of krtld use 16-bit symbol numbers: strip local symbols"
        ),
        "{line}"
    );
}

#[test]
fn undefined_symbols() {
    let line = |name| {
        only(|f| {
            f.named(".dynamic").delete = true;
            f.symbol(name, None, elf::STB_GLOBAL);
        })
    };
    assert!(line("puts").starts_with("note: uses a symbol, which is not known here: "));
    assert_eq!(
        line("dtrace_register"),
        "symbol dtrace_register: undefined; drv/dtrace exports it, but is not a dependency of the module"
    );
    assert!(
        line("__start_set_x")
            .starts_with("symbol __start_set_x: undefined bound of section set_x, ")
    );
    assert_eq!(
        only(|f| {
            f.symbol("mac_open", None, elf::STB_LOCAL);
        }),
        "symbol mac_open: undefined and local; krtld looks up only global and weak symbols"
    );
    let mut weak = Fixture::good();
    weak.named(".dynamic").delete = true;
    weak.symbol("missing", None, elf::STB_WEAK);
    module(&weak.file()).expect("krtld leaves it 0");
    let mut dtrace = Fixture::good();
    dtrace.named(".dynamic").delete = true;
    dtrace.depends(&["drv/dtrace"]);
    dtrace.symbol("dtrace_register", None, elf::STB_GLOBAL);
    module(&dtrace.file()).expect("drv/dtrace has it");
}

/// The kernel's symbols that OPTE uses.
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
    // Without a kernel file, the check passes the module, and one note lists the unknown symbols.
    let summary = module(&driver).expect("no symbol is refused");
    assert_eq!(summary.warnings.len(), 1, "{:#?}", summary.warnings);
    let line = summary.warnings[0].to_string();
    assert!(line.contains("qprocson") || line.contains("mac_register"), "{line}");
    assert!(!line.contains("kmem_alloc"), "{line}");
    // With the kernel's symbols, the check knows all of them.
    let all: Vec<_> = opte.iter().copied().chain(["mod_install"]).collect();
    let whole = kernel(&[("unix", &all)]);
    assert_eq!(
        illumos_module(&driver, Against { file: None, kernel: &whole })
            .expect("it has them all")
            .warnings,
        []
    );
    // One symbol is missing, and the files of all dependencies were given.
    let (lost, rest) = all.split_first().expect("there are some");
    let modules = ["dld", "ip", "dls", "mac"].map(|name| (name, &["x"][..]));
    let less = kernel(&[&[("unix", rest)], &modules[..]].concat());
    let said: Vec<_> = illumos_module(&driver, Against { file: None, kernel: &less })
        .unwrap_err()
        .iter()
        .map(ToString::to_string)
        .collect();
    let asked = "unix, dld, ip, dls, mac";
    assert_eq!(said, [format!("symbol {lost}: undefined, and {asked} do not export it")]);
    // Without the files of the dependencies, one of the dependencies may export the symbol.
    let less = kernel(&[("unix", rest)]);
    let summary = illumos_module(&driver, Against { file: None, kernel: &less })
        .expect("without the files of its dependencies, the symbol may exist");
    let line = summary.warnings[0].to_string();
    assert!(line.contains("drv/dld, drv/ip, misc/dls, misc/mac may define it"), "{line}");
}

#[test]
fn symbols_that_are_common_or_the_kernels() {
    let line = only(|f| {
        let symbol = f.symbol("counter", None, elf::STB_GLOBAL);
        f.builder.symbols.get_mut(symbol).st_shndx = elf::SHN_COMMON;
    });
    assert!(line.starts_with("symbol counter: a common symbol, "), "{line}");
    let line = only(|f| {
        let text = f.text;
        f.symbol("cmn_err", Some(text), elf::STB_GLOBAL);
    });
    assert!(line.starts_with("warning: symbol cmn_err: the kernel exports it, too; "), "{line}");
}

#[test]
fn indirect_functions() {
    let line = only(|f| f.symbol_named("_info").set_st_info(elf::STB_GLOBAL, elf::STT_GNU_IFUNC));
    let expected =
        "symbol _info: an indirect function (STT_GNU_IFUNC) for krtld, which supports none; ";
    assert!(line.starts_with(expected), "{line}");
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
    assert!(
        line("misc/a b").ends_with("contains characters that the name of a module cannot have")
    );
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
    assert!(
        line.starts_with("symbol _depends_on: not a string of the module that ends with a NUL"),
        "{line}"
    );
    let mut longer = Fixture::good();
    add(&mut longer, 99);
    let said = said_of(&longer.file());
    let has = |start| said.iter().any(|line: &String| line.starts_with(start));
    assert!(
        has("symbol _depends_on: not a string of the module that ends with a NUL"),
        "{said:#?}"
    );
    assert!(has("symbol _depends_on: 0x63 bytes from +0x0 on are not all in"), "{said:#?}");
}
