//! Sets `cfg`s from variables in the environment of the build. These settings are not features, because any crate in a module
//! could enable a feature for the whole module.
//!
//! | variable | | default |
//! |---|---|---|
//! | `SDT_ROUTE` | `native`: the kernel's own sdt finds the probes; `provider`: the image registers its providers itself, with DTrace or with the framework that it hosts | `native` on FreeBSD and illumos; elsewhere there is only `provider` |
//! | `SDT_PATCH` | how control leaves an enabled site of the provider route: `trap`, `jump`, or `gate`, for hosts that cannot write to text | `trap`; on illumos `jump`; `gate` on architectures whose instructions this crate does not have |
//! | `SDT_FREEBSD` | the release of FreeBSD for which a module is built: 10 to 15, or an exact `__FreeBSD_version` | 15 |
//!
//! | `cfg` | |
//! |---|---|
//! | `sdt_route`, `sdt_patch` | as above; the second on the provider route only |
//! | `sdt_site` | the form of a site, which both variables determine: `patched`, one nop; `gate`, a test of the probe's flag; `tested`, the test of FreeBSD before 15; `call`, the two calls that illumos's linker turns into a probe |
//! | `sdt_stap` | feature `stapsdt`, in programs on Linux |
//! | `sdt_args` | the largest number of arguments of a probe: `5`, `6` or `10` |
//! | `sdt_off` | feature `off`: probes add nothing to the image |
//! | `sdt_freebsd_since` | contains those of 11, 12, 14 and 15 that are not newer than the release |
//!
//! Build scripts of crates that depend on this one get the largest number of arguments of a probe in `DEP_SDT_CORE_ARGS`.

use std::env;
use std::fs;
use std::path::Path;

use dtrace_abi::freebsd::{Generation, Release};
use dtrace_abi::limits::ARGS;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(sdt_off)");
    if env::var_os("CARGO_FEATURE_OFF").is_some() {
        println!("cargo::rustc-cfg=sdt_off");
    }
    for (name, values) in [
        ("sdt_route", r#""native", "provider""#),
        ("sdt_patch", r#""trap", "jump", "gate""#),
        ("sdt_site", r#""patched", "gate", "tested", "call""#),
        ("sdt_args", r#""5", "6", "10""#),
        ("sdt_freebsd_since", r#""11", "12", "14", "15""#),
    ] {
        println!("cargo::rustc-check-cfg=cfg({name}, values({values}))");
    }

    let os = env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    stap(&os);
    let native =
        has_native(&os) && chosen("SDT_ROUTE", &["native", "provider"], "native") == "native";
    set("sdt_route", if native { "native" } else { "provider" });
    let release = (os == "freebsd").then(release);
    let site = if native {
        if !chosen("SDT_PATCH", &["trap", "jump", "gate"], "").is_empty() {
            refuse(
                "SDT_PATCH requires SDT_ROUTE=provider: on the native route the kernel patches the \
                 sites; unset SDT_PATCH",
            );
        }
        match release.map(Release::generation) {
            None => "call",
            Some(Generation::Tested) => "tested",
            Some(Generation::Patched) => "patched",
        }
    } else {
        let patch = patch(&os);
        set("sdt_patch", &patch);
        if patch == "gate" { "gate" } else { "patched" }
    };
    set("sdt_site", site);
    if let Some(release) = release {
        freebsd(release, native);
    }
    // FreeBSD's own sdt has its own limit. On the other routes, the op `getargval` supplies the arguments that `dtrace_probe`
    // does not carry.
    let args = match release.filter(|_| native) {
        Some(release) => release.generation().arguments(),
        None => ARGS,
    };
    set("sdt_args", &args.to_string());
    println!("cargo::rustc-env=SDT_ARGS={args}");
    // For the build scripts of crates that declare probes with this number of arguments.
    println!("cargo::metadata=args={args}");
}

/// Enables SystemTap notes, if the feature is set and the target has them.
fn stap(os: &str) {
    println!("cargo::rustc-check-cfg=cfg(sdt_stap)");
    let asked = env::var_os("CARGO_FEATURE_STAPSDT").is_some();
    let off = env::var_os("CARGO_FEATURE_OFF").is_some();
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let known = ["x86_64", "aarch64", "riscv64"].contains(&arch.as_str());
    if asked && !off && os == "linux" && known {
        println!("cargo::rustc-cfg=sdt_stap");
    }
}

/// Returns whether the system's kernel has an sdt of its own.
fn has_native(os: &str) -> bool {
    matches!(os, "freebsd" | "illumos")
}

/// Returns the way in which sites of the provider route are enabled.
fn patch(os: &str) -> String {
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let known = ["x86_64", "aarch64", "riscv64"].contains(&arch.as_str());
    let default = match os {
        _ if !known => "gate",
        "illumos" => "jump",
        _ => "trap",
    };
    let patch = chosen("SDT_PATCH", &["trap", "jump", "gate"], default);
    if patch != "gate" && !known {
        refuse(&format!(
            "SDT_PATCH={patch} is not supported on {arch}, whose instructions sdt-core cannot \
             patch: use SDT_PATCH=gate"
        ));
    }
    if patch == "trap" && os == "illumos" {
        refuse(
            "SDT_PATCH=trap is not supported on illumos, whose breakpoint handlers cannot resume a \
             CPU elsewhere: use jump or gate",
        );
    }
    patch
}

fn release() -> Release {
    println!("cargo::rerun-if-env-changed=SDT_FREEBSD");
    match env::var("SDT_FREEBSD") {
        Err(_) => newest(),
        Ok(text) => parse(&text).unwrap_or_else(|| {
            let range = "10 to 15, or an exact __FreeBSD_version";
            refuse(&format!(
                "SDT_FREEBSD is `{text}`, which is not a supported release: use {range}"
            ));
            newest()
        }),
    }
}

fn newest() -> Release {
    Release::of_major(Release::NEWEST).expect("one of those that modules are built for")
}

/// Parses a release: `15`, or an exact `__FreeBSD_version`.
fn parse(text: &str) -> Option<Release> {
    let number = text.trim().parse().ok()?;
    Release::of_major(number).or_else(|| Release::new(number))
}

/// Sets the configuration that depends on the release of FreeBSD.
fn freebsd(release: Release, native: bool) {
    if !native && !release.has_trap_frame() {
        refuse(
            "SDT_ROUTE=provider requires FreeBSD 11 or later: older kernels pass no trapframe to \
             the breakpoint handler; use SDT_ROUTE=native",
        );
    }
    for since in [11, 12, 14, 15] {
        if release.major() >= since {
            set("sdt_freebsd_since", &since.to_string());
        }
    }
    let version = release.version();
    let source = format!(
        "/// The kernel this is built for: its lowest `__FreeBSD_version`.\n\
         pub const VERSION: core::ffi::c_int = {version};\n"
    );
    let out = env::var_os("OUT_DIR").expect("cargo sets it");
    fs::write(Path::new(&out).join("freebsd_version.rs"), source)
        .expect("the folder is cargo's own");
}

fn set(cfg: &str, value: &str) {
    println!("cargo::rustc-cfg={cfg}=\"{value}\"");
}

/// Returns the value of an environment variable. A value that is not in the list ends the build.
fn chosen(variable: &str, values: &[&str], default: &str) -> String {
    println!("cargo::rerun-if-env-changed={variable}");
    let value = env::var(variable).unwrap_or_default();
    if value.is_empty() {
        return default.to_owned();
    }
    if !values.contains(&value.as_str()) {
        refuse(&format!("{variable} is `{value}`; allowed values are {}", values.join(", ")));
        return default.to_owned();
    }
    value
}

/// Ends the build with an error message of cargo.
fn refuse(why: &str) {
    println!("cargo::error={why}");
}
