//! Modules in Rust beside C compiled against FreeBSD's own headers.

mod arguments;
mod changed;
mod fbt;
mod hosts;
mod imports;
mod layouts;
mod modules;
mod opte;
mod records;
mod refused;
mod sites;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use cargo_sdt::internal::arch::Arch;
use conformance::sources::{self, Build, Rust};
use harness::zig::Zig;

/// Returns the C compiler with the headers of a release; `None` if it cannot be fetched.
fn zig(freebsd: u32) -> Option<Zig> {
    Zig::for_tests(freebsd).unwrap_or_else(|error| panic!("{error}"))
}

/// An object of C.
fn c(zig: &Zig, arch: Arch, file: &str, options: &[&str]) -> Vec<u8> {
    sources::c(zig, arch, file, options).unwrap_or_else(|error| panic!("{arch}: {error:#}"))
}

/// The Rust side; compiled once.
fn rust(arch: Arch, build: Build) -> Arc<Rust> {
    type Built = BTreeMap<(usize, Build), Arc<Rust>>;
    static BUILT: Mutex<Built> = Mutex::new(BTreeMap::new());
    let mut built = BUILT.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let rust = built.entry((arch as usize, build)).or_insert_with(|| {
        let rust = sources::rust(arch, build);
        Arc::new(rust.unwrap_or_else(|error| panic!("{arch}, {build:?}: {error:#}")))
    });
    Arc::clone(rust)
}
