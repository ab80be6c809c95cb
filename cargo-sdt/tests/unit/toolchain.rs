//! Tests of `src/toolchain.rs`.

use super::*;

#[test]
fn a_folder_without_programs_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let error =
        Toolchain::in_folder(folder.path(), &project(folder.path()), Arch::X86_64).unwrap_err();
    assert!(matches!(error, Unfit::Missing(_)), "{error}");
}

#[test]
fn paths_of_this_machine_are_found() {
    let file = b"\0at/home/me/.cargo/registry/src/x.rs:1\0library/core/src/lib.rs";
    assert!(names(file, Path::new("/home/me/.cargo")));
    assert!(!names(file, Path::new("/home/me/.car")), "the beginning of a name");
    assert!(!names(file, Path::new("/home/you")));
    assert!(!names(file, Path::new("/src")), "a part of another path");
    assert!(!names(b"", Path::new("/home/me")));
}

#[test]
fn the_host_has_a_sysroot() {
    assert!(host_sysroot().unwrap().join("lib").is_dir());
}

#[test]
fn versions_that_differ_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    fake(folder.path(), "cargo", "echo cargo 1.90.0");
    fake(folder.path(), "rustc", "echo rustc 1.96.0");
    let error =
        Toolchain::in_folder(folder.path(), &project(folder.path()), Arch::X86_64).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cargo has version 1.90.0, and rustc 1.96.0: install the same version of both"
    );
}

#[test]
fn sources_are_demanded() {
    let folder = tempfile::tempdir().unwrap();
    fake(folder.path(), "cargo", "echo cargo 1.96.0");
    fake(folder.path(), "rustc", "case $1 in -V) echo rustc 1.96.0;; *) echo /nowhere;; esac");
    let error =
        Toolchain::in_folder(folder.path(), &project(folder.path()), Arch::X86_64).unwrap_err();
    assert!(matches!(error, Unfit::NoSources(_)), "{error}");
}

fn project(folder: &Path) -> Project {
    Project::new(folder.to_owned(), folder.join("build"))
}

fn fake(folder: &Path, name: &str, script: &str) {
    use std::os::unix::fs::PermissionsExt;
    let file = folder.join(name);
    std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
}
