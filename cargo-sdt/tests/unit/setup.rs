//! Tests of `src/setup.rs`.

use super::*;

#[test]
fn debians_current_toolchain_comes_first() {
    let listed = "rustc - Rust systems programming language\nrustc-web - for web browsers\n";
    let picked = pick_toolchain(listed, |_| Some(96)).unwrap();
    assert_eq!(picked, ["rustc-web", "cargo-web", "rust-web-src", "rust-web-clippy"]);
}

#[test]
fn ubuntus_newest_one_is_taken() {
    let listed = "rustc-1.94 - x\nrustc-1.97 - x\nrustc-1.95 - x\nrustc - x\n";
    let picked = pick_toolchain(listed, |_| None).unwrap();
    assert_eq!(picked, ["rustc-1.97", "cargo-1.97", "rust-1.97-src", "rust-1.97-clippy"]);
}

#[test]
fn old_toolchains_are_not_taken() {
    assert_eq!(pick_toolchain("rustc - x\nrustc-1.80 - x\n", |_| Some(80)), None);
    assert_eq!(pick_toolchain("rustc-web - x\n", |_| Some(94)), None);
    assert_eq!(pick_toolchain("", |_| None), None);
}

#[test]
fn candidates_are_read() {
    let policy = "rustc-web:\n  Installed: (none)\n  Candidate: 1.96.0+dfsg1-1~deb12u2\n";
    assert_eq!(candidate_minor(policy), Some(96));
    assert_eq!(candidate_minor("rustc-web:\n  Candidate: (none)\n"), None);
    assert_eq!(candidate_minor(""), None);
}

#[test]
fn the_command_to_run_is_named() {
    let error = SetupError::NotAllowed { what: "x is".into(), command: "do this".into() };
    assert_eq!(error.to_string(), "x is missing. Run this command, then try again:\n    do this");
}
