//! Modules of users outside of this workspace: written by `cargo sdt new`, built by `cargo sdt kmod`, listed and fired.

use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_sdt::internal::process;
use harness::workspace;

use crate::packages::{LIMIT, Packages};

/// The output of `cargo sdt new` with the packaged version of sdt-core, in a folder of its own.
fn new(os: &str, name: &str) -> (tempfile::TempDir, PathBuf) {
    let packages = Packages::made();
    let folder = tempfile::tempdir_in(packages.folder()).expect("a folder");
    let version = env!("CARGO_PKG_VERSION");
    let (printed, _) =
        packages.cargo_sdt(folder.path(), &["new", "--os", os, "--sdt-core", version, name]);
    assert_eq!(printed, format!("{name}\n"));
    let place = folder.path().join(name);
    (folder, place)
}

/// Builds it, and returns what was built, in the order of loading.
fn kmod(place: &Path, options: &[&str]) -> Vec<PathBuf> {
    let arguments = [&["kmod"], options].concat();
    let (printed, _) = Packages::made().cargo_sdt(place, &arguments);
    let files: Vec<PathBuf> = printed.lines().map(PathBuf::from).collect();
    for file in &files {
        assert!(!names(&std::fs::read(file).unwrap(), place), "{file:?} says where it was built");
    }
    files
}

fn names(bytes: &[u8], folder: &Path) -> bool {
    let folder = folder.as_os_str().as_encoded_bytes();
    bytes.windows(folder.len()).any(|window| window == folder)
}

/// Returns the output of `cargo xtask dtrace` for modules, without the messages of long steps.
fn dtrace(modules: &[PathBuf], arguments: &[&str]) -> (String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.arg("dtrace").args(arguments);
    for module in modules {
        command.arg("--module").arg(module);
    }
    let written = process::run(&mut command, LIMIT).unwrap_or_else(|error| panic!("{error}"));
    let lines = written.stderr.lines().filter(|line| !line.starts_with("xtask: "));
    let err = lines.map(|line| format!("{line}\n")).collect();
    (String::from_utf8(written.stdout).unwrap(), err)
}

/// Lists and fires the only probe of the modules. Each firing must give one hit.
fn is_listed_and_fires(modules: &[PathBuf], system: &[&str], listed: &str, fire: &str) {
    let [provider, module, function, name] = listed.split(':').collect::<Vec<_>>()[..] else {
        panic!("{listed} is no description");
    };
    let description = format!("{provider}:{module}::{name}");
    let (out, err) = dtrace(modules, &[&["-l", "-n", &description], system].concat());
    let row = format!(" {provider:>10} {module:>17} {function:>33} {name}");
    let rows: Vec<_> = out.lines().skip(1).collect();
    assert!(rows.len() == 1 && rows[0].ends_with(&row), "{system:?}: {out}{err}");
    let (out, err) = dtrace(modules, &[&["-n", &description, "-c", fire], system].concat());
    assert_eq!(err, format!("dtrace: description '{description}' matched 1 probe\n"));
    let shown = format!("{function}:{name} ");
    let hits = out.lines().filter(|line| line.trim_start().ends_with(shown.trim_start())).count();
    assert_eq!(hits, 1, "{system:?}: {out}");
}

/// The command in the README of a module prints the string that its user typed.
fn prints_what_its_readme_says(place: &Path, modules: &[PathBuf], system: &[&str], who: &str) {
    let readme = std::fs::read_to_string(place.join("README.md")).unwrap();
    let line = readme.lines().find_map(|line| line.strip_prefix("    dtrace -q -n '"));
    let (program, rest) = line.and_then(|line| line.split_once("' -c '")).expect("such a line");
    let fire = rest.strip_suffix('\'').expect("the end of a command");
    let (out, err) = dtrace(modules, &[&["-q", "-n", program, "-c", fire], system].concat());
    assert_eq!((out, &*err), (format!("{who}\n\n"), ""), "{program}");
}

#[test]
fn freebsds_are_traced_by_every_route() {
    let (_folder, place) = new("freebsd", "hello");
    for (options, system) in [
        (&[][..], &[][..]),
        (&["--freebsd", "14"], &["--freebsd", "14"]),
        (&["--route", "provider"], &[]),
        (&["--route", "provider", "--patch", "jump"], &[]),
        (&["--route", "provider", "--patch", "gate"], &[]),
    ] {
        let modules = kmod(&place, options);
        assert_eq!(modules.len(), 1, "{options:?}");
        is_listed_and_fires(
            &modules,
            system,
            "hello:hello:none:greeted",
            "sysctl hello.greet=world",
        );
        prints_what_its_readme_says(&place, &modules, system, "world");
    }
    assert_outside_of_the_workspace();
}

#[test]
fn illumoss_are_traced_by_every_route() {
    let (_folder, place) = new("illumos", "hi-there");
    let (system, fire) = (&["--os", "illumos"][..], "kstat -p hi_there:0:greet");
    let native = kmod(&place, &[]);
    assert_eq!(native.len(), 1);
    is_listed_and_fires(&native, system, "sdt:hi_there:hi_there.greet:hi_there-greeted", fire);
    prints_what_its_readme_says(&place, &native, system, "by hand");

    let both = kmod(&place, &["--route", "provider"]);
    let file_names: Vec<_> = both.iter().filter_map(|file| file.file_name()?.to_str()).collect();
    assert_eq!(file_names, ["hi_there", "hi_there_dtrace"]);
    is_listed_and_fires(&both, system, "hi_there:hi_there_dtrace:none:greeted", fire);

    // A module without its companion, and each of them in a kernel of the other system.
    let (_, err) = dtrace(&both[..1], &["--os", "illumos", "-l", "-P", "hi_there"]);
    let expected = "dtrace: warning: hi_there has no probes: its companion, hi_there_dtrace, registers its provider, and is \
        not loaded: load hi_there_dtrace, too\ndtrace: failed to match hi_there:::: No probe matches description\n";
    assert!(err.starts_with(expected), "{err}");
    let refused = |module: &Path, os: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command.args(["dtrace", "-l", "--os", os, "--module"]).arg(module);
        process::run(&mut command, LIMIT).unwrap_err().to_string()
    };
    let error = refused(&both[1], "illumos");
    let expected = "; it is the companion of hi_there: load hi_there first";
    assert!(error.contains(expected), "{error}");
    let error = refused(&native[0], "freebsd");
    let expected = "it is a module for illumos, and the kernel is freebsd: use --os illumos";
    assert!(error.contains(expected), "{error}");
    assert_outside_of_the_workspace();
}

/// No file that a build has read is a source of this workspace. The list of files of each object is next to the object. Files that
/// the build itself made may be in the workspace's folder for compiled macros and `core`.
fn assert_outside_of_the_workspace() {
    let mut folders = vec![Packages::made().target()];
    let mut lists = 0;
    while let Some(folder) = folders.pop() {
        // Another test builds at the same time, so files and folders can disappear.
        let Ok(entries) = std::fs::read_dir(folder) else { continue };
        for entry in entries.map_while(Result::ok) {
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                folders.push(entry.path());
            } else if entry.path().extension().is_some_and(|extension| extension == "d") {
                let Ok(list) = std::fs::read(entry.path()) else { continue };
                let list = String::from_utf8_lossy(&list);
                let is_source = |file: &&str| {
                    Path::new(file).starts_with(workspace::root())
                        && !Path::new(file).starts_with(workspace::build_dir())
                };
                let source = list.split([' ', '\n', ':']).find(is_source);
                assert_eq!(source, None, "{:?}", entry.path());
                lists += 1;
            }
        }
    }
    assert!(lists > 0, "no build has read anything");
}
