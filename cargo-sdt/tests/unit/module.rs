//! Tests of `src/module.rs`.

use std::collections::HashSet;

use super::*;

fn module(arch: Arch) -> Module {
    Module::new(Project::new("/project".into(), "/project/build".into()), "driver", arch)
}

fn built_for(freebsd: &str, route: Route, patch: Option<Patch>) -> Module {
    let freebsd = freebsd.parse().expect("a release");
    Module { freebsd, route, patch, ..module(Arch::X86_64) }
}

#[test]
fn no_module_overwrites_another() {
    let default = module(Arch::X86_64).folder();
    assert_eq!(default, Path::new("/project/build/kmod/x86_64"));
    let mut folders = HashSet::from([default]);
    for (freebsd, route, patch) in [
        ("14", Route::Native, None),
        ("1500068", Route::Native, None),
        ("15", Route::Provider, None),
        ("14", Route::Provider, None),
        ("15", Route::Provider, Some(Patch::Jump)),
        ("15", Route::Provider, Some(Patch::Gate)),
    ] {
        let module = built_for(freebsd, route, patch);
        module.check().unwrap();
        assert!(folders.insert(module.folder()), "{module:?}");
    }
    let illumos = Module { os: Os::Illumos, ..module(Arch::X86_64) };
    assert!(folders.insert(illumos.folder()));
    let raw = Module { raw_symbols: true, ..illumos };
    assert!(folders.insert(raw.folder()));
}

#[test]
fn sdt_core_is_compiled_apart_for_each_kernel() {
    let mut settings = HashSet::new();
    for (freebsd, route, patch) in [
        ("15", Route::Native, None),
        ("14", Route::Native, None),
        ("15", Route::Provider, None),
        ("15", Route::Provider, Some(Patch::Jump)),
        ("15", Route::Provider, Some(Patch::Gate)),
    ] {
        let mut command = Command::new("cargo");
        built_for(freebsd, route, patch).configure(&mut command, &[]);
        let arguments = command.get_args().map(|argument| argument.to_string_lossy());
        let setting = arguments.filter(|argument| argument.contains("sdt-core.rustflags"));
        assert!(settings.insert(setting.collect::<String>()), "{freebsd} {route} {patch:?}");
    }
}

#[test]
fn where_to_write_is_looked_at_before_anything_is_built() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let at = |place: &Path| {
        // A package that does not exist, so that no build can succeed.
        let none = Module { package: "none".into(), ..module(Arch::X86_64) };
        none.build(Some(place)).unwrap_err().to_string()
    };
    let missing = folder.path().join("native");
    let (native, here) = (missing.join("x.ko"), folder.path().display());
    assert_eq!(at(&native), format!("cannot write {here}/native/x.ko: its folder does not exist"));
    let below = file.join("x.ko");
    assert_eq!(at(&below), format!("cannot write {here}/file/x.ko: its parent is not a folder"));
    assert_eq!(at(folder.path()), format!("cannot write {here}: it is a folder"));
    for good in [folder.path().join("x.ko"), file, PathBuf::from("x.ko")] {
        assert!(can_be_written(&good).is_ok(), "{}", good.display());
    }
}

#[test]
fn there_are_no_such_modules() {
    for patch in [Patch::Trap, Patch::Jump, Patch::Gate] {
        let error = built_for("15", Route::Native, Some(patch)).build(None).unwrap_err();
        assert!(error.to_string().starts_with("--patch requires --route provider"));
    }
    let illumos = Module { os: Os::Illumos, ..built_for("15", Route::Provider, Some(Patch::Trap)) };
    let error = illumos.build(None).unwrap_err().to_string();
    assert!(error.starts_with("--patch trap is not supported on illumos, "), "{error}");
    let error = built_for("10", Route::Provider, None).build(None).unwrap_err().to_string();
    assert!(error.starts_with("--route provider is not supported on FreeBSD 10, "), "{error}");
    let illumos = Module { os: Os::Illumos, ..module(Arch::Aarch64) };
    let error = illumos.build(None).unwrap_err().to_string();
    assert_eq!(error, "illumos does not run on aarch64: use --arch x86_64");
}
