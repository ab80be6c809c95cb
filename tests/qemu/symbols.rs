//! Functions of the example: what fbt and `stack()` show of them can be typed in a probe description.

use harness::workspace;
use std::collections::BTreeSet;

use cargo_sdt::internal::arch::Arch;
use cargo_sdt::internal::module::Module;
use cargo_sdt::internal::platform::{Os, Route};
use object::{Object, ObjectSymbol, SymbolKind};

use crate::bench::{module_by, on_every_route};

/// The functions that a module defines, in the order of the table.
fn functions(file: &[u8]) -> Vec<String> {
    let file = object::File::parse(file).expect("a module");
    let functions =
        file.symbols().filter(|symbol| symbol.is_definition() && symbol.kind() == SymbolKind::Text);
    functions.map(|symbol| symbol.name().expect("a name").to_owned()).collect()
}

fn can_be_typed(file: &[u8]) {
    let functions = functions(file);
    for name in &functions {
        // The characters that libdtrace's lexer accepts in a description, except wildcards, macros and `:` (`RGX_PSPEC`).
        let says = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        assert!(name.chars().all(says), "{name}");
        assert!(name.len() < 128 && !name.starts_with("_R"), "{name}");
    }
    let distinct: BTreeSet<_> = functions.iter().collect();
    assert_eq!(distinct.len(), functions.len(), "{functions:?}");
    assert!(functions.iter().any(|name| name == "proc_example.on_exec"), "{functions:?}");
}

on_every_route!(functions_can_be_typed);

fn functions_can_be_typed(arch: Arch, route: Route) {
    can_be_typed(&module_by(arch, route));
}

#[test]
fn on_illumos_too_but_not_if_they_are_to_be_raw() {
    let named = Module { os: Os::Illumos, ..workspace::example(Arch::X86_64) };
    let raw = Module { raw_symbols: true, ..named.clone() };
    let read = |module: &Module| std::fs::read(module.build(None).expect("it can be built"));
    can_be_typed(&read(&named).expect("it is there"));
    let raw = functions(&read(&raw).expect("it is there"));
    let on_exec = |name: &&String| name.starts_with("_R") && name.ends_with("7on_exec");
    assert_eq!(raw.iter().filter(on_exec).count(), 1, "{raw:?}");
}
