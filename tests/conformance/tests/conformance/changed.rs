//! The example module on every route: the check has no findings for it, and passes a changed copy only if a kernel loads the copy
//! in the same way as the original.

use std::fs;

use cargo_sdt::internal::arch::Arch;
use cargo_sdt::internal::check::{self, Against, Kernel};
use cargo_sdt::internal::module::Module;
use cargo_sdt::internal::platform::{FreeBsd, Os, Patch, Route};
use harness::workspace;
use sdt_fuzz::flips::{Kind, Machine, Subject};

/// Changed copies of each module; with `cargo xtask test --all`, four times as many.
const CHANGES: usize = 250;
/// One in this number of changes may pass: changes of bytes that a kernel does not load, such as the mark of the seal.
const FEW: usize = 50;

/// The example for a release of FreeBSD, by each route.
fn freebsd(arch: Arch, major: u32) -> Vec<Module> {
    let freebsd = FreeBsd::major_release(major).unwrap();
    let native = Module { freebsd, route: Route::Native, ..workspace::example(arch) };
    let provider = |patch| Module { route: Route::Provider, patch: Some(patch), ..native.clone() };
    let provider = [Patch::Trap, Patch::Jump, Patch::Gate].map(provider);
    [native].into_iter().chain(provider).collect()
}

/// The example for illumos, by each route, and its companion.
fn illumos() -> Vec<Module> {
    let native = Module { os: Os::Illumos, ..workspace::example(Arch::X86_64) };
    let provider = |patch| Module { route: Route::Provider, patch: Some(patch), ..native.clone() };
    let [jump, gate] = [Patch::Jump, Patch::Gate].map(provider);
    let companion = jump.companion().unwrap();
    vec![native, jump, gate, companion]
}

/// Builds a module, and checks that the check has no findings for it.
fn build(module: &Module, name: String, kind: Kind) -> Subject {
    let (path, findings) = module.build_for(None, &Kernel::unknown()).unwrap();
    assert_eq!(findings, [], "{name}");
    let file = fs::read(&path).unwrap();
    let kernel = Kernel::unknown();
    let against = Against { file: path.file_name().unwrap().to_str(), kernel: &kernel };
    assert_eq!(check::module(module.os, &file, against).unwrap().warnings(), [], "{name}");
    Subject { name, kind, file }
}

fn judge(modules: Vec<Module>, kind: Kind) {
    let changes = if harness::everything() { 4 * CHANGES } else { CHANGES };
    for (seed, module) in (1..).zip(modules) {
        let name =
            format!("{}, {}, {:?}, {:?}", module.package, module.arch, module.route, module.patch);
        let subject = build(&module, name, kind);
        let tally = subject.run(seed, changes);
        println!("{kind:?}: {}: {tally}", subject.name);
        assert!(tally.different.is_empty(), "{}: {:#?}", subject.name, tally.different);
        assert!(tally.dangerous > 0 && tally.passed < changes / FEW, "{}: {tally}", subject.name);
    }
}

#[test]
fn changed_modules_for_freebsd() {
    for (arch, machine, major) in [
        (Arch::X86_64, Machine::X86_64, 13),
        (Arch::X86_64, Machine::X86_64, 15),
        (Arch::Aarch64, Machine::Aarch64, 15),
        (Arch::Riscv64, Machine::Riscv64, 15),
    ] {
        judge(freebsd(arch, major), Kind::FreeBsd(machine, major));
    }
}

#[test]
fn changed_modules_for_illumos() {
    judge(illumos(), Kind::Illumos);
}
