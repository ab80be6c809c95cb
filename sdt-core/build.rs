//! Chooses the route by which probes reach their kernel, from the target, the features and `SDT_FREEBSD`.
//!
//! `cfg(sdt_route)` is `"registry"`: the records are registered at run time, with a framework or as a provider of
//! its own; `"freebsd"` or `"illumos"`: the kernel's own sdt finds the probes in the module's file.
//! `cfg(sdt_site)` is what a site is: `"patched"`, one nop; `"gate"`, a test of the probe's flag; `"asked"`, a test
//! that FreeBSD before 15 wants; `"twin"`, a test of the text that illumos patches. `cfg(sdt_freebsd)` says how a site fires on FreeBSD's native route: `"tracepoint"`, it is patched (15 and
//! later); `"flag"`, it tests the kernel's flag (12 to 14); `"id"`, it tests the probe's id (10 and 11).

use std::env;
use std::fmt::Write as _;
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

    /// How sites fire on the native route.
    fn firing(&self) -> &'static str {
        match self.major() {
            ..=11 => "id",
            12..=14 => "flag",
            _ => "tracepoint",
        }
    }
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=SDT_FREEBSD");
    println!(r#"cargo::rustc-check-cfg=cfg(sdt_route, values("registry", "freebsd", "illumos"))"#);
    println!(r#"cargo::rustc-check-cfg=cfg(sdt_freebsd, values("tracepoint", "flag", "id"))"#);
    println!(r#"cargo::rustc-check-cfg=cfg(sdt_site, values("patched", "gate", "asked", "twin"))"#);
    println!("cargo::rustc-check-cfg=cfg(sdt_sysinit_list)");
    println!("cargo::rustc-check-cfg=cfg(sdt_disable_wp)");

    let own_provider = env::var_os("CARGO_FEATURE_OWN_PROVIDER").is_some();
    let os = env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    let route = match os.as_str() {
        "freebsd" | "illumos" if !own_provider => os.as_str(),
        _ => "registry",
    };
    println!("cargo::rustc-cfg=sdt_route=\"{route}\"");
    let mut site = match route {
        "illumos" => "twin",
        "registry" if gate() => "gate",
        _ => "patched",
    };
    if os == "freebsd" {
        let firing = freebsd(own_provider);
        if !own_provider && firing != "tracepoint" {
            site = "asked";
        }
    }
    println!("cargo::rustc-cfg=sdt_site=\"{site}\"");
}

/// Whether sites cannot be patched, or are not to be.
fn gate() -> bool {
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    env::var_os("CARGO_FEATURE_GATE").is_some()
        || !["x86_64", "aarch64", "riscv64"].contains(&arch.as_str())
}

/// What depends on the release. Returns how sites fire on the native route.
fn freebsd(own_provider: bool) -> &'static str {
    let release = match env::var("SDT_FREEBSD") {
        Err(_) => Release::DEFAULT,
        Ok(text) => Release::parse(&text).unwrap_or_else(|| {
            let range = "10 to 15, or an exact __FreeBSD_version";
            refuse(&format!("SDT_FREEBSD is `{text}`, which is no release: {range}"));
            Release::DEFAULT
        }),
    };
    if own_provider && release.major() < 11 {
        refuse(
            "an own provider needs FreeBSD 11 or later: before, the kernel gave the handler of breakpoints no \
             trapframe to redirect; build without feature `own-provider`",
        );
    }
    if !own_provider {
        println!("cargo::rustc-cfg=sdt_freebsd=\"{}\"", release.firing());
    }
    // `struct sysinit` became an element of a list in 14.
    if release.major() >= 14 {
        println!("cargo::rustc-cfg=sdt_sysinit_list");
    }
    if release.major() >= 12 {
        println!("cargo::rustc-cfg=sdt_disable_wp");
    }
    let version = release.version;
    let mut source = String::new();
    writeln!(source, "/// Lowest version of the kernel that the module works with.").unwrap();
    writeln!(source, "pub(crate) const VERSION: c_int = {version};").unwrap();
    let out = env::var_os("OUT_DIR").expect("cargo sets it");
    fs::write(Path::new(&out).join("freebsd_version.rs"), source)
        .expect("the folder is cargo's own");
    release.firing()
}

/// Ends the build with a message, as an error of cargo's.
fn refuse(why: &str) {
    println!("cargo::error={why}");
}
