//! `cfg(sdt_args)`: how many arguments probes can have on the route and the release that the module is built for.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(sdt_args, values(\"5\", \"6\", \"10\"))");
    let args = std::env::var("DEP_SDT_CORE_ARGS").expect("sdt-core says so");
    println!("cargo::rustc-cfg=sdt_args=\"{args}\"");
}
