//! Symbols, judged by the kernel's own files.

use std::path::Path;

use object::elf;

use super::relocatable_fixture::Fixture;
use super::said_of;
use crate::check::{Against, Kernel, module_against};

/// A kernel of these symbols.
fn kernel(symbols: &[&str]) -> Kernel {
    let mut kernel = Kernel::default();
    let list: String = symbols.iter().map(|name| format!("0 T {name}\n")).collect();
    kernel.add_list(Path::new("/boot/kernel.list"), &list).expect("a list");
    kernel
}

/// Adds a module for FreeBSD with these symbols.
fn add_module(kernel: &mut Kernel, name: &str, symbols: &[&'static str]) {
    let mut fixture = Fixture::good();
    let text = fixture.named(".text").id();
    for symbol in symbols {
        fixture.symbol(symbol, Some(text), elf::STB_GLOBAL);
    }
    kernel.add_file(Path::new(name), &fixture.file()).expect("a module");
}

/// The fixture, depending on `kernel` and, in place of it, on another module; calling `name`.
fn calling(name: &'static str, depends: Option<&[u8]>) -> Vec<u8> {
    let mut fixture = Fixture::good();
    let symbol = fixture.symbol(name, None, elf::STB_GLOBAL);
    fixture.relocations(".rela.text")[0].symbol = Some(symbol);
    if let Some(depends) = depends {
        fixture.data(".rodata")[31..31 + depends.len()].copy_from_slice(depends);
    }
    fixture.file()
}

fn said(file: &[u8], kernel: &Kernel) -> Vec<String> {
    let checked = module_against(file, Against { file: None, kernel });
    match checked {
        Ok(summary) if summary.warnings.is_empty() => Vec::new(),
        other => said_of(other.map(|summary| summary.warnings)),
    }
}

#[test]
fn what_the_kernel_has_is_fine_and_what_it_has_not_is_an_error() {
    let known = kernel(&["taskqueue_create", "printf"]);
    assert_eq!(said(&calling("taskqueue_create", None), &known), [""; 0]);
    let expected = "symbol taskqueue_craete: undefined, and kernel.list does not export it";
    assert_eq!(said(&calling("taskqueue_craete", None), &known), [expected]);
    // What the list of the check has, and this kernel has not.
    let expected = "symbol malloc: undefined, and kernel.list does not export it";
    assert_eq!(said(&calling("malloc", None), &known), [expected]);
}

#[test]
fn symbols_of_modules_are_looked_for_in_their_files() {
    let mut known = kernel(&["printf"]);
    // Of `netmap`, as the name of the module it depends on, there is no file yet.
    let file = calling("netmap_attach", Some(b"netmap\0"));
    let expected = "warning: symbol netmap_attach: undefined, and not in kernel.list; netmap may have it: give \
                    that module's file with --kernel, too";
    assert!(said(&file, &known).iter().any(|line| line == expected), "{:#?}", said(&file, &known));
    add_module(&mut known, "boot/netmap.ko", &["netmap_attach"]);
    let none = |said: Vec<String>| said.iter().all(|line| !line.contains("netmap_"));
    assert!(none(said(&file, &known)));
    let misspelled = calling("netmap_atach", Some(b"netmap\0"));
    let expected = "symbol netmap_atach: undefined, and kernel.list, netmap do not export it";
    assert!(said(&misspelled, &known).iter().any(|line| line == expected));
    let expected = "symbol netmap_attach: undefined; netmap exports it, and the module does not depend on that";
    assert_eq!(said(&calling("netmap_attach", None), &known), [expected]);
}

#[test]
fn local_symbols_count_before_14_only() {
    let mut fixture = Fixture::good();
    let text = fixture.named(".text").id();
    fixture.symbol("hidden", Some(text), elf::STB_LOCAL);
    fixture.symbol("shown", Some(text), elf::STB_GLOBAL);
    fixture.builder.header.e_type = elf::ET_REL;
    let mut known = kernel(&["printf"]);
    known.add_file(Path::new("netmap.ko"), &fixture.file()).expect("a module");
    for (freebsd, fine) in [("13", true), ("14", false)] {
        let mut fixture = Fixture::native(freebsd.parse().unwrap());
        let symbol = fixture.symbol("hidden", None, elf::STB_GLOBAL);
        fixture.relocations(".rela.text")[0].symbol = Some(symbol);
        fixture.data(".rodata")[31..38].copy_from_slice(b"netmap\0");
        // The dependency on the kernel is gone, and with it the release, which the records tell.
        let said = said(&fixture.file(), &known);
        assert_eq!(said.iter().all(|line| !line.contains("hidden")), fine, "{freebsd}: {said:#?}");
    }
}

#[test]
fn kernels_of_other_architectures() {
    let mut known = kernel(&["printf"]);
    let mut other = Fixture::good();
    other.builder.header.e_machine = elf::EM_AARCH64;
    let text = other.named(".text").id();
    other.symbol("shown", Some(text), elf::STB_GLOBAL);
    known.add_file(Path::new("kernel"), &other.file()).expect("a kernel");
    let said = said(&calling("printf", None), &known);
    let expected =
        "kernel, which is to be asked for symbols, is for arm64, and the module for amd64";
    assert_eq!(said, [expected]);
}
