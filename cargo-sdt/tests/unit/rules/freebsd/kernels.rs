//! Symbols, judged by the kernel's own files.

use std::path::Path;

use object::elf;

use super::relocatable_fixture::{Fixture, READ_ONLY};
use super::said_of;
use crate::arch::Arch;
use crate::check::{Against, Kernel, freebsd_module};

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
    let checked = freebsd_module(file, Against { file: None, kernel });
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
    // Symbols in the list of the check that this kernel does not export.
    let expected = "symbol malloc: undefined, and kernel.list does not export it";
    assert_eq!(said(&calling("malloc", None), &known), [expected]);
}

#[test]
fn kernels_of_other_versions() {
    let mut other = Fixture::good();
    let version = other.section(".data.version", READ_ONLY, 900_000_u32.to_le_bytes().to_vec());
    other.symbol("osreldate", Some(version), elf::STB_GLOBAL);
    let text = other.named(".text").id();
    other.symbol("printf", Some(text), elf::STB_GLOBAL);
    let mut known = Kernel::default();
    known.add_file(Path::new("kernel"), &other.file()).expect("a kernel");
    let said = said(&calling("printf", None), &known);
    let expected = "kernel has __FreeBSD_version 900000; the module is for ";
    assert!(said.iter().any(|line| line.starts_with(expected)), "{said:#?}");
}

/// The whole report on a call of a symbol that is a variable of `kernel`'s.
fn calls_variable(symbol: &str, kernel: &str) -> String {
    format!(
        "symbol {symbol}: called, but it is a variable in {kernel}: the call would execute data \
         and panic the kernel; call the function that the variable points to"
    )
}

#[test]
fn a_variable_of_the_kernel_is_not_called() {
    let list = |kind| {
        let mut kernel = Kernel::default();
        let list = format!("0 T printf\n0 {kind} sync_range\n");
        kernel.add_list(Path::new("kernel"), &list).expect("a list");
        kernel
    };
    for kind in ["D", "B", "R"] {
        let expected = calls_variable("sync_range", "kernel");
        assert_eq!(said(&calling("sync_range", None), &list(kind)), [expected], "{kind}");
    }
    assert_eq!(said(&calling("sync_range", None), &list("T")), [""; 0]);
    // Symbols in the list of releases.
    let expected = calls_variable("sdt_probe_func", "FreeBSD 15");
    assert_eq!(said(&calling("sdt_probe_func", None), &Kernel::unknown()), [expected]);
}

#[test]
fn the_kernels_own_file_says_what_a_variable_is() {
    for (kind, fine) in [(elf::STT_OBJECT, false), (elf::STT_FUNC, true), (elf::STT_NOTYPE, true)] {
        let mut fixture = Fixture::good();
        let text = fixture.named(".text").id();
        let symbol = fixture.symbol("sync_range", Some(text), elf::STB_GLOBAL);
        fixture.builder.symbols.get_mut(symbol).set_st_info(elf::STB_GLOBAL, kind);
        fixture.symbol("printf", Some(text), elf::STB_GLOBAL);
        let mut known = Kernel::default();
        known.add_file(Path::new("kernel"), &fixture.file()).expect("a kernel");
        let expected = (!fine).then(|| calls_variable("sync_range", "kernel"));
        let said = said(&calling("sync_range", None), &known);
        assert_eq!(said, Vec::from_iter(expected), "{kind:?}");
    }
}

#[test]
fn a_stub_of_a_shared_object_calls() {
    use super::shared_fixture::{DATA, Fixture, Relocation};

    for (arch, stub, address) in [
        (Arch::Aarch64, elf::R_AARCH64_JUMP_SLOT, elf::R_AARCH64_GLOB_DAT),
        (Arch::Riscv64, elf::R_RISCV_JUMP_SLOT, elf::R_RISCV_64),
    ] {
        for (kind, expected) in [(stub, Some(calls_variable("hz", "kernel"))), (address, None)] {
            let mut fixture = Fixture::good(arch);
            let symbol = fixture.symbols.iter().position(|of| of.name == "printf").unwrap();
            fixture.symbols[symbol].name = "hz";
            let symbol = symbol as u32;
            fixture.relocations.push(Relocation { address: DATA + 24, kind, symbol, addend: 0 });
            let mut known = Kernel::default();
            let list = "0 D hz\n0 T module_register_init\n";
            known.add_list(Path::new("kernel"), list).expect("a list");
            assert_eq!(said(&fixture.file(), &known), Vec::from_iter(expected), "{arch}");
        }
    }
}

#[test]
fn symbols_of_modules_are_looked_for_in_their_files() {
    let mut known = kernel(&["printf"]);
    // No file was given for `netmap`, the module that it depends on.
    let file = calling("netmap_attach", Some(b"netmap\0"));
    let expected = "warning: symbol netmap_attach: undefined, and not in kernel.list; netmap may \
        define it: name the file of that module with --kernel, too";
    assert!(said(&file, &known).iter().any(|line| line == expected), "{:#?}", said(&file, &known));
    add_module(&mut known, "boot/netmap.ko", &["netmap_attach"]);
    let none = |said: Vec<String>| said.iter().all(|line| !line.contains("netmap_"));
    assert!(none(said(&file, &known)));
    let misspelled = calling("netmap_atach", Some(b"netmap\0"));
    let expected = "symbol netmap_atach: undefined, and kernel.list, netmap do not export it";
    assert!(said(&misspelled, &known).iter().any(|line| line == expected));
    let expected =
        "symbol netmap_attach: undefined; netmap exports it, but is not a dependency of the module";
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
        // This replaces the dependency on the kernel, which named the release. The check derives the release from the records.
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
    let expected = "the kernel file kernel is for aarch64, and the module for x86_64";
    assert_eq!(said, [expected]);
}
