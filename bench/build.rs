//! Tells the program which compiler it was built with.

use std::process::Command;

fn main() {
    let rustc = std::env::var_os("RUSTC").expect("cargo names the compiler");
    let output = Command::new(rustc).arg("-V").output().expect("the compiler runs");
    let version = String::from_utf8_lossy(&output.stdout);
    println!("cargo::rustc-env=BENCH_RUSTC={}", version.trim());
    println!("cargo::rerun-if-changed=build.rs");
}
