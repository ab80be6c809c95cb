//! Turns what a build chooses, in its environment, into `cfg`s. Nothing else chooses: a feature would be switched on
//! for the whole module by any one crate that it is made of.
//!
//! | variable | | default |
//! |---|---|---|
//! | `SDT_ROUTE` | `native`: the kernel's own sdt finds the probes; `provider`: the image registers its providers itself, with DTrace or with the framework that it hosts | `native` on FreeBSD and illumos; elsewhere there is only `provider` |
//! | `SDT_PATCH` | what enabled sites of the provider route do: `trap`, `jump`, or `gate`, where text cannot be written | `trap`; on illumos `jump`; `gate` on architectures whose instructions are not known here |
//! | `SDT_FREEBSD` | the FreeBSD that a module is for: 10 to 15, or an exact `__FreeBSD_version` | 15 |
//!
//! | `cfg` | |
//! |---|---|
//! | `sdt_route`, `sdt_patch` | as above; the second on the provider route only |
//! | `sdt_site` | what follows from both, the form of a site: `patched`, one nop; `gate`, a test of the probe's flag; `tested`, a test that FreeBSD before 15 wants; `call`, the two calls that illumos's linker makes probes of |
//! | `sdt_off` | feature `off`: no probe leaves anything |
//! | `sdt_freebsd_since` | has each of 11, 12, 14 and 15 that the release is not older than |
//!
//! Build scripts of crates that depend on this one find in `DEP_SDT_CORE_ARGS` how many arguments a probe can have.

use std::env;
use std::fs;
use std::path::Path;

/// A FreeBSD that modules are built for.
struct Release {
    /// Lowest `__FreeBSD_version` of the kernel.
    version: u32,
}

impl Release {
    const DEFAULT: Self = Self { version: 1_500_000 };

    /// `15`, or an exact `__FreeBSD_version`.
    fn parse(text: &str) -> Option<Self> {
        let number: u32 = text.trim().parse().ok()?;
        match number {
            10..=15 => Some(Self { version: number * 100_000 }),
            1_000_000..=1_599_999 => Some(Self { version: number }),
            _ => None,
        }
    }

    fn major(&self) -> u32 {
        self.version / 100_000
    }
}

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
        ("sdt_freebsd_since", r#""11", "12", "14", "15""#),
    ] {
        println!("cargo::rustc-check-cfg=cfg({name}, values({values}))");
    }

    let os = env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    let native =
        has_native(&os) && chosen("SDT_ROUTE", &["native", "provider"], "native") == "native";
    set("sdt_route", if native { "native" } else { "provider" });
    let release = (os == "freebsd").then(release);
    let site = if native {
        if !chosen("SDT_PATCH", &["trap", "jump", "gate"], "").is_empty() {
            refuse(
                "SDT_PATCH is for SDT_ROUTE=provider: on the native route the kernel patches, as it does",
            );
        }
        match &release {
            None => "call",
            Some(release) if release.major() < 15 => "tested",
            Some(_) => "patched",
        }
    } else {
        let patch = patch(&os);
        set("sdt_patch", &patch);
        if patch == "gate" { "gate" } else { "patched" }
    };
    set("sdt_site", site);
    if let Some(release) = release {
        freebsd(&release, native);
    }
    // For build scripts of crates that declare by it.
    let args = match site {
        "tested" => 5,
        "call" => 10,
        _ => 6,
    };
    println!("cargo::metadata=args={args}");
}

/// Whether the system's kernel has an sdt of its own.
fn has_native(os: &str) -> bool {
    matches!(os, "freebsd" | "illumos")
}

/// What enabled sites of the provider route do.
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
            "SDT_PATCH is `{patch}`, but the instructions of {arch} are not known here: gate"
        ));
    }
    if patch == "trap" && os == "illumos" {
        refuse(
            "SDT_PATCH is `trap`, but illumos's handlers of breakpoints cannot send a CPU elsewhere: jump or gate",
        );
    }
    patch
}

fn release() -> Release {
    println!("cargo::rerun-if-env-changed=SDT_FREEBSD");
    match env::var("SDT_FREEBSD") {
        Err(_) => Release::DEFAULT,
        Ok(text) => Release::parse(&text).unwrap_or_else(|| {
            let range = "10 to 15, or an exact __FreeBSD_version";
            refuse(&format!("SDT_FREEBSD is `{text}`, which is no release: {range}"));
            Release::DEFAULT
        }),
    }
}

/// What depends on the release.
fn freebsd(release: &Release, native: bool) {
    if !native && release.major() < 11 {
        refuse(
            "SDT_ROUTE=provider needs FreeBSD 11 or later: before, the kernel gave the handler of breakpoints no \
             trapframe to redirect; take SDT_ROUTE=native",
        );
    }
    for since in [11, 12, 14, 15] {
        if release.major() >= since {
            set("sdt_freebsd_since", &since.to_string());
        }
    }
    let version = release.version;
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

/// What a variable of the environment chooses. Another value ends the build.
fn chosen(variable: &str, values: &[&str], default: &str) -> String {
    println!("cargo::rerun-if-env-changed={variable}");
    let value = env::var(variable).unwrap_or_default();
    if value.is_empty() {
        return default.to_owned();
    }
    if !values.contains(&value.as_str()) {
        refuse(&format!("{variable} is `{value}`; it can be {}", values.join(", ")));
        return default.to_owned();
    }
    value
}

/// Ends the build with a message, as an error of cargo's.
fn refuse(why: &str) {
    println!("cargo::error={why}");
}
