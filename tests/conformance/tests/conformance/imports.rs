//! Modules in C that use the kernel's interfaces: locks, devices, threads, sysctls, variables of each CPU. The check refuses none
//! of them, and with the kernel's symbols it finds the missing ones.

use std::fs;
use std::path::{Path, PathBuf};

use cargo_sdt::internal::arch::Arch;
use cargo_sdt::internal::check::{self, Against, Kernel, Place, Rule};
use harness::workspace;

use crate::zig;

/// The modules' sources.
fn sources() -> Vec<PathBuf> {
    let folder = workspace::root().join("tests/conformance/c/modules");
    let mut sources: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    sources.sort();
    assert!(sources.len() >= 12, "a dozen: {sources:?}");
    sources
}

/// Returns the names of a module's imports that the check does not know.
fn unknown(summary: &check::FreeBsdSummary) -> Vec<String> {
    let unasked = summary.warnings.iter().filter(|finding| finding.rule == Rule::Unasked);
    let names = unasked.filter_map(|finding| finding.details.last());
    names.flat_map(|names| names.split(", ")).map(str::to_owned).collect()
}

fn kernel(names: &[String]) -> Kernel {
    let mut kernel = Kernel::default();
    let names = names.iter().map(String::as_str).chain(LISTED);
    let list: String = names.map(|name| format!("ffffffff80200000 T {name}\n")).collect();
    kernel.add_list(Path::new("kernel.symbols"), &list).unwrap();
    kernel
}

#[test]
fn modules_in_c_may_use_all_that_there_is() {
    for (release, arches) in [(15, &Arch::ALL[..]), (14, &[Arch::X86_64])] {
        let Some(zig) = zig(release) else { return };
        for source in sources() {
            for &arch in arches {
                let what = format!("{}, {arch}, FreeBSD {release}", source.display());
                let file =
                    zig.module(arch, &source).unwrap_or_else(|error| panic!("{what}: {error}"));
                let image = fs::read(&file).unwrap();
                let summary = check::freebsd_module(&image, check::Against::default()).unwrap();
                assert_eq!(summary.release.major(), release, "{what}");
                let stem = source.file_stem().unwrap().to_str().unwrap();
                assert_eq!(summary.modules, [stem], "{what}");
                judged_by_its_kernel(&image, &summary, &what);
            }
        }
    }
}

/// With all symbols of the kernel, the check reports none as missing. If one symbol is left out, it reports this symbol.
fn judged_by_its_kernel(image: &[u8], summary: &check::FreeBsdSummary, what: &str) {
    let mut names: Vec<_> = object_imports(image);
    names.sort();
    let unknown = unknown(summary);
    assert!(unknown.iter().all(|name| names.contains(name)), "{what}: {unknown:?}");
    let whole = kernel(&names);
    let unresolved =
        |kernel: &Kernel| match check::freebsd_module(image, Against { file: None, kernel }) {
            Ok(summary) => summary.warnings,
            Err(findings) => findings,
        };
    let is_about_symbols =
        |rule: Rule| matches!(rule, Rule::Undefined | Rule::UnaskedModule | Rule::Unasked);
    let said = unresolved(&whole);
    assert!(!said.iter().any(|of| is_about_symbols(of.rule)), "{what}: {said:#?}");
    // The symbols that relocations use. The loader looks up no others.
    let symbols = unresolved(&kernel(&[])).into_iter().filter(|of| is_about_symbols(of.rule));
    let Some(Place::Symbol(lost)) = symbols.map(|finding| finding.place).next() else { return };
    names.retain(|name| *name != lost);
    let said = unresolved(&kernel(&names));
    let said = said.iter().filter(|of| is_about_symbols(of.rule));
    let places: Vec<_> = said.map(|finding| finding.place.clone()).collect();
    assert_eq!(places, [Place::Symbol(lost)], "{what}");
}

/// The symbols that [`kernel`] adds to every list.
const LISTED: [&str; 6] = ["module_register_init", "printf", "malloc", "free", "M_TEMP", "hz"];

/// Returns the names of the symbols that a module does not define, except the bounds of its sets.
fn object_imports(image: &[u8]) -> Vec<String> {
    use object::{Object as _, ObjectSymbol as _};
    let file = object::File::parse(image).unwrap();
    let symbols = file.symbols().chain(file.dynamic_symbols());
    let undefined = symbols.filter(|symbol| symbol.is_undefined() && !symbol.is_weak());
    let names = undefined.filter_map(|symbol| symbol.name().ok().map(str::to_owned));
    names.filter(|name| !name.is_empty() && !name.starts_with("__st")).collect()
}
