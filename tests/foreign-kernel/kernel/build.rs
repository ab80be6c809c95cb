//! Links the kernel to the address at which it runs.

fn main() {
    println!("cargo::rustc-link-arg=-T{}/kernel.ld", env!("CARGO_MANIFEST_DIR"));
    println!("cargo::rerun-if-changed=kernel.ld");
}
