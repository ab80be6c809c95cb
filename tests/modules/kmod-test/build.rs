//! `cfg(sdt_args = "6")`: probes can have six arguments in the kernel that the module is for.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(sdt_args, values(\"6\"))");
    let args = std::env::var("DEP_SDT_CORE_ARGS").expect("sdt-core says so");
    let args: u32 = args.parse().expect("a number");
    if args >= 6 {
        println!("cargo::rustc-cfg=sdt_args=\"6\"");
    }
}
