//! The `cfg`s by which the tests build the program.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(without_panics)");
    println!("cargo::rustc-check-cfg=cfg(firing)");
    println!("cargo::rustc-check-cfg=cfg(with_a_panic)");
}
