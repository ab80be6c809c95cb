//! `cfg(sdt_args = "10")`: probes can have ten arguments on the route that the module is built for.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(sdt_args, values(\"10\"))");
    let args = std::env::var("DEP_SDT_CORE_ARGS").expect("sdt-core says so");
    if args == "10" {
        println!("cargo::rustc-cfg=sdt_args=\"10\"");
    }
}
