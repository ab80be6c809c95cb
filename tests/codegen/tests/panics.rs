//! The code of a site cannot panic, nor can `sdt-framework` when a probe fires, for any D programs: the linker finds no
//! call of the panic handler.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

mod support;

use support::{Build, KERNEL_LIKE, PROFILE};

/// Returns whether the program links, or the linker's messages.
fn linked(cfgs: &[&str]) -> Result<(), String> {
    let package = "codegen-panics";
    let own = [cfgs, &["-Clto=fat"]].concat();
    let build = Build { package, rustflags: &KERNEL_LIKE, own: &own, profile: &PROFILE };
    build.try_then(|_| ())
}

#[test]
fn no_site_can_panic() {
    linked(&["--cfg=without_panics"]).expect("no panic can be reached");
}

/// Checks that the test detects an argument that can panic.
#[test]
fn an_argument_that_can_is_found() {
    let error = linked(&["--cfg=without_panics", "--cfg=with_a_panic"]).unwrap_err();
    assert!(error.contains("a_panic_can_be_reached"), "{error}");
}

#[test]
fn no_firing_can_panic() {
    linked(&["--cfg=without_panics", "--cfg=firing"]).expect("no panic can be reached");
}

/// The D machine is linked into the program: the test detects a kernel that panics when a D program loads from its memory.
#[test]
fn a_kernel_that_can_is_found() {
    let error =
        linked(&["--cfg=without_panics", "--cfg=firing", "--cfg=with_a_panic"]).unwrap_err();
    assert!(error.contains("a_panic_can_be_reached"), "{error}");
}
