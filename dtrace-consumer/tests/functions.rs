//! The functions of real ELF files: of this test program itself, and of the crates that it links.

use std::path::Path;
use std::process::Command;

use dtrace_consumer::functions::{Coverage, Functions, Obstacle};

/// The test's own file.
fn own() -> Functions {
    let file = std::env::current_exe().unwrap();
    Functions::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

#[test]
fn a_function_has_its_entry_and_all_its_returns() {
    #[inline(never)]
    #[unsafe(no_mangle)]
    extern "C" fn sdt_test_two_returns(value: u64) -> u64 {
        if std::hint::black_box(value) == 0 {
            return std::hint::black_box(7);
        }
        std::hint::black_box(value.to_string().len() as u64)
    }
    assert_eq!(sdt_test_two_returns(10), 2);
    let functions = own();
    let of = functions.all.iter().find(|of| of.name.function == "sdt_test_two_returns").unwrap();
    assert_eq!(of.name.module, "kernel");
    let entry = of.entry.as_ref().unwrap();
    assert!((of.address..of.address + 16).contains(&entry.address), "{entry:?}");
    let returns = of.returns.as_ref().unwrap();
    assert!(!returns.is_empty());
    assert!(returns.iter().all(|site| (of.address..of.address + of.size).contains(&site.address)));
}

#[test]
fn a_function_that_panics_only_never_returns() {
    let functions = own();
    let panic = |name: &str| name == "core::panicking::panic_fmt";
    let of = functions.all.iter().find(|of| panic(&of.name.function)).unwrap();
    assert_eq!(of.returns, Err(Obstacle::NeverReturns));
    assert_eq!(of.name.module, "core");
}

/// Functions that a breakpoint handler calls, directly or not, are not traced; functions that only a panic calls are.
#[test]
fn the_functions_that_a_handler_reaches_are_excluded() {
    #[inline(never)]
    #[unsafe(no_mangle)]
    extern "C" fn sdt_test_handler(value: u64) -> u64 {
        std::hint::black_box(sdt_test_helper(value) + 1)
    }
    #[inline(never)]
    #[unsafe(no_mangle)]
    extern "C" fn sdt_test_helper(value: u64) -> u64 {
        assert_ne!(std::hint::black_box(value), 7);
        std::hint::black_box(value)
    }
    assert_eq!(sdt_test_handler(1), 2);
    let mut functions = own();
    let find = |functions: &Functions, name: &str| {
        functions.all.iter().find(|of| of.name.function == name).unwrap().clone()
    };
    let handler = find(&functions, "sdt_test_handler").address;
    functions.exclude_reachable(&[handler]);
    for name in ["sdt_test_handler", "sdt_test_helper"] {
        let of = find(&functions, name);
        assert_eq!(
            (of.entry, of.returns),
            (Err(Obstacle::Handler), Err(Obstacle::Handler)),
            "{name}"
        );
    }
    assert!(find(&functions, "sdt_test_two_returns").entry.is_ok());
    assert_ne!(find(&functions, "core::panicking::panic_fmt").entry, Err(Obstacle::Handler));
}

#[test]
fn most_functions_can_be_traced() {
    let coverage = Coverage::of(&own());
    assert!(coverage.functions > 1000, "{coverage}");
    // An unoptimised program stores arguments below the stack pointer, which no kernel does.
    assert!(coverage.entries * 100 >= coverage.functions * 85, "{coverage}");
    assert!(coverage.returns * 100 >= coverage.returning * 95, "{coverage}");
}

fn dtrace(file: &Path) -> (bool, String, String) {
    let command = env!("CARGO_BIN_EXE_dtrace");
    let out = Command::new(command).arg("--functions").arg(file).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (out.status.success(), text(out.stdout), text(out.stderr))
}

#[test]
fn the_command_lists_what_cannot_be_traced() {
    let (success, out, err) = dtrace(&std::env::current_exe().unwrap());
    assert!(success, "{err}");
    assert!(out.starts_with("ADDRESS"), "{out}");
    assert!(out.contains("' cannot be emulated"), "{out}");
    let last: Vec<_> = out.lines().rev().take(2).collect();
    assert!(last[0].starts_with("return: ") && last[1].starts_with("entry:  "), "{last:?}");
}

#[test]
fn a_file_without_functions_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text");
    std::fs::write(&text, "no ELF file").unwrap();
    let (success, _, err) = dtrace(&text);
    assert!(!success && err.contains("not an ELF file"), "{err}");

    let stripped = folder.path().join("stripped");
    let own = std::env::current_exe().unwrap();
    let Ok(status) = Command::new("strip").arg("-o").arg(&stripped).arg(own).status() else {
        return;
    };
    assert!(status.success());
    let (_, out, err) = dtrace(&stripped);
    // A program that exports functions still has those.
    assert!(err.contains("it was stripped") || out.starts_with("ADDRESS"), "{err}");
    let (success, _, err) = dtrace(&folder.path().join("none"));
    assert!(!success && err.contains("none: "), "{err}");
}

/// The kernel's decoder and iced agree about the length of each instruction of the test's own text.
#[test]
#[cfg(target_arch = "x86_64")]
fn the_kernel_decodes_as_iced_does() {
    use iced_x86::{Decoder, DecoderOptions};
    use object::{Object as _, ObjectSection as _};

    let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let text = file.section_by_name(".text").unwrap();
    let text = text.data().unwrap();
    let mut decoder = Decoder::new(64, text, DecoderOptions::NONE);
    let mut known = 0;
    while decoder.can_decode() {
        let at = decoder.position();
        let length = decoder.decode().len();
        let Some(decoded) = dtrace_abi::function::x86_64::decode(&text[at..]) else { continue };
        let code = &text[at..at + length];
        assert_eq!(usize::from(decoded.length), length, "{at:#x}: {code:02x?} {decoded:?}");
        known += 1;
    }
    assert!(known > 100_000, "{known}");
}
