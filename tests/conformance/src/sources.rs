//! The objects: C's by zig, Rust's by cargo, both for FreeBSD's kernels.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use cargo_metadata::Message;
use object::read::archive::ArchiveFile;
use xtask::process;
use xtask::setup;
use xtask::workspace::{self, Arch};
use xtask::zig::Zig;

use crate::layout::{self, Layout};

const LIMIT: Duration = Duration::from_secs(600);
/// The package with the Rust side.
const PROBES: &str = "conformance-probes";

/// Compiles a file of `c/`.
///
/// # Errors
/// What the compiler says.
pub fn c(zig: &Zig, arch: Arch, file: &str, options: &[&str]) -> anyhow::Result<Vec<u8>> {
    let folder = tempfile::tempdir()?;
    let object = folder.path().join("unit.o");
    let source = workspace::root().join("tests/conformance/c").join(file);
    let mut command = zig.cc(arch);
    command.args(options).arg("-c").arg(source).arg("-o").arg(&object);
    process::run(&mut command, LIMIT)?;
    Ok(fs::read(object)?)
}

/// What the Rust side is built for, besides an architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Build {
    /// The kernel's own sdt, of a major release.
    Native(u32),
    /// A provider of its own, on 15.
    OwnProvider,
}

impl Build {
    const fn freebsd(self) -> u32 {
        match self {
            Self::Native(major) => major,
            Self::OwnProvider => 15,
        }
    }
}

/// The Rust side.
#[derive(Debug)]
pub struct Rust {
    /// The object of the package `conformance-probes`.
    pub probes: Vec<u8>,
    /// The layouts of all structures of that and of `sdt-core`.
    pub layouts: BTreeMap<String, Layout>,
}

/// Compiles the Rust side, with debugging information and optimised as kernels are (`-O2`).
///
/// # Errors
/// What cargo says.
pub fn rust(arch: Arch, build: Build) -> anyhow::Result<Rust> {
    let folder = workspace::build_dir();
    fs::create_dir_all(&folder)?;
    // The library is in the same place whatever it is built for: one at a time, among processes too.
    let lock = File::create(folder.join("conformance.lock"))?;
    lock.lock()?;
    let mut command = setup::toolchain(arch)?.cargo("rustc", "core");
    command.args(["--release", "--package", PROBES, "--lib", "--crate-type", "staticlib"]);
    command.arg("--target").arg(arch.module_target());
    command.arg("--target-dir").arg(folder.join("cargo-kmod"));
    command.arg("--message-format=json-render-diagnostics");
    command.env("SDT_FREEBSD", build.freebsd().to_string());
    if build.freebsd() >= 15 {
        command.args(["--features", "six"]);
    }
    if build == Build::OwnProvider {
        command.args(["--features", "sdt-core/own-provider"]);
    }
    // Not for all packages: `core` is built already, for other modules.
    for (package, setting) in [
        (PROBES, "opt-level=2"),
        (PROBES, "codegen-units=1"),
        (PROBES, "debug=2"),
        ("sdt-core", "debug=2"),
    ] {
        command.args(["--config", &format!("profile.release.package.{package}.{setting}")]);
    }
    let written = process::run(&mut command, LIMIT)?;
    let library = Message::parse_stream(&*written.stdout)
        .filter_map(Result::ok)
        .filter_map(|message| match message {
            Message::CompilerArtifact(artifact) => Some(artifact),
            _ => None,
        })
        .flat_map(|artifact| artifact.filenames)
        .filter(|file| file.file_name() == Some("libconformance_probes.a"))
        .last();
    let library = library.context("cargo made no libconformance_probes.a")?;
    read(library.as_std_path())
}

fn read(library: &Path) -> anyhow::Result<Rust> {
    let archive = fs::read(library)?;
    let mut probes = None;
    let mut layouts = BTreeMap::new();
    for member in ArchiveFile::parse(&*archive)?.members() {
        let member = member?;
        let (name, data) = (String::from_utf8_lossy(member.name()), member.data(&*archive)?);
        let ours = name.starts_with("conformance_probes-");
        if !ours && !name.starts_with("sdt_core-") || !name.ends_with(".o") {
            continue;
        }
        layouts.extend(layout::layouts(data).with_context(|| name.clone().into_owned())?);
        if ours && probes.replace(data.to_vec()).is_some() {
            anyhow::bail!("more than one object of {PROBES}");
        }
    }
    let probes = probes.with_context(|| format!("no object of {PROBES}"))?;
    Ok(Rust { probes, layouts })
}
