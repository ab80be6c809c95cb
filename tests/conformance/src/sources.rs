//! Compiles the objects to compare: those of C with zig, those of Rust with cargo, both for FreeBSD's kernels; and those of Rust
//! also for other targets.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;
use cargo_metadata::Message;
use cargo_sdt::internal::arch::Arch;
use cargo_sdt::internal::module::{compile_apart, lock};
use cargo_sdt::internal::platform::Os;
use cargo_sdt::internal::process;
use cargo_sdt::internal::targets::Target;
use harness::setup;
use harness::workspace;
use harness::zig::Zig;
use object::read::archive::ArchiveFile;

use crate::layout::{self, Layout};

const LIMIT: Duration = Duration::from_secs(600);
/// The package with the Rust side.
const PROBES: &str = "conformance-probes";
/// The variable by which cargo hands options to rustc.
const RUSTFLAGS: &str = "CARGO_ENCODED_RUSTFLAGS";

/// Compiles a file of `c/`.
///
/// # Errors
/// The messages of the compiler.
pub fn c(zig: &Zig, arch: Arch, file: &str, options: &[&str]) -> anyhow::Result<Vec<u8>> {
    let folder = tempfile::tempdir()?;
    let object = folder.path().join("unit.o");
    let source = workspace::root().join("tests/conformance/c").join(file);
    let mut command = zig.cc(arch);
    command.args(options).arg("-c").arg(source).arg("-o").arg(&object);
    process::run(&mut command, LIMIT)?;
    Ok(fs::read(object)?)
}

/// The target of the Rust side, without the architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Build {
    /// The kernel's own sdt, of a major release of FreeBSD.
    Native(u32),
    /// The provider route, on FreeBSD 15.
    Provider,
    /// The kernel's own sdt, of illumos.
    Illumos,
    /// A host of its own, with registers that kernels do not use.
    Host(Host),
}

/// A target that is no kernel module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Host {
    /// Its name.
    pub target: &'static str,
    /// Options of rustc.
    pub flags: &'static [&'static str],
}

impl Build {
    /// The release of FreeBSD it is for, or would be.
    const fn freebsd(self) -> u32 {
        match self {
            Self::Native(major) => major,
            _ => 15,
        }
    }

    /// Cargo's `rustc` for the target.
    fn cargo(self, arch: Arch) -> anyhow::Result<Command> {
        let os = match self {
            Self::Native(_) | Self::Provider => Os::FreeBsd,
            Self::Illumos => Os::Illumos,
            Self::Host(host) => {
                let mut cargo = setup::cargo_for("rustc", host.target, "core")?;
                cargo.args(["--target", host.target]);
                return Ok(cargo);
            }
        };
        let toolchain = setup::toolchain(arch)?;
        let folder = workspace::project().targets();
        let target = Target::of(os, arch).write_to(&folder, toolchain.release())?;
        let mut cargo = toolchain.cargo("rustc", "core");
        cargo.arg("--target").arg(target);
        Ok(cargo)
    }

    /// Returns the kind of library, and the suffix of its file. Only a module of FreeBSD has a panic handler.
    const fn library(self) -> (&'static str, &'static str) {
        match self {
            Self::Native(_) | Self::Provider => ("staticlib", "a"),
            Self::Illumos | Self::Host(_) => ("rlib", "rlib"),
        }
    }
}

/// The Rust side.
#[derive(Debug)]
pub struct Rust {
    /// The object of the package `conformance-probes`.
    pub probes: Vec<u8>,
    /// The layouts of all structures of that package and of `sdt-core`.
    pub layouts: BTreeMap<String, Layout>,
}

/// Compiles the Rust side, with debugging information and optimised as kernels are (`-O2`).
///
/// # Errors
/// Cargo's messages.
pub fn rust(arch: Arch, build: Build) -> anyhow::Result<Rust> {
    let six: &[_] = if build.freebsd() >= 15 { &["--features", "six"] } else { &[] };
    compile(PROBES, "conformance_probes", six, arch, build)
}

/// Compiles the Rust side with the functions that pass arguments of every kind.
///
/// # Errors
/// Cargo's messages.
pub fn arguments(arch: Arch, build: Build) -> anyhow::Result<Rust> {
    compile(PROBES, "conformance_probes", &["--features", "arguments"], arch, build)
}

/// Compiles the Rust side with the code that must not compile.
///
/// # Errors
/// The compiler's messages. Success is a defect of the test.
pub fn refused(arch: Arch, build: Build) -> anyhow::Result<Rust> {
    compile(PROBES, "conformance_probes", &["--features", "refused"], arch, build)
}

/// Compiles another package, whose library is called `library`, with the same options as the Rust side.
///
/// # Errors
/// Cargo's messages.
pub fn package(package: &str, library: &str, arch: Arch, build: Build) -> anyhow::Result<Rust> {
    compile(package, library, &[], arch, build)
}

fn compile(
    package: &str,
    library: &str,
    options: &[&str],
    arch: Arch,
    build: Build,
) -> anyhow::Result<Rust> {
    let _building = lock(&workspace::project())?;
    let (kind, ending) = build.library();
    let file = format!("lib{library}.{ending}");
    let mut command = build.cargo(arch)?;
    command.args(["--release", "--package", package, "--lib", "--crate-type", kind]);
    command.args(options);
    command.arg("--target-dir").arg(workspace::project().cargo_target());
    if let Build::Host(host) = build {
        // Keeps the options that the toolchain has set.
        let wanted = command.get_envs().find(|(name, _)| *name == RUSTFLAGS);
        let wanted = wanted.and_then(|(_, flags)| flags?.to_str()).unwrap_or_default();
        let flags = wanted.split('\u{1f}').filter(|flag| !flag.is_empty());
        let flags = flags.chain(host.flags.iter().copied()).collect::<Vec<_>>().join("\u{1f}");
        command.env(RUSTFLAGS, flags);
    }
    command.arg("--message-format=json-render-diagnostics");
    let freebsd = build.freebsd().to_string();
    let route = if build == Build::Provider { "provider" } else { "" };
    compile_apart(&mut command, &[], &[&freebsd, route]);
    command.env("SDT_FREEBSD", freebsd).env("SDT_ROUTE", route);
    // Not for all packages, because `core` is already built for other modules. For a host, no test compares layouts.
    let debug = if matches!(build, Build::Host(_)) { "debug=0" } else { "debug=2" };
    for (of, setting) in [
        (package, "opt-level=2"),
        (package, "codegen-units=1"),
        (package, debug),
        ("sdt-core", debug),
    ] {
        command.args(["--config", &format!("profile.release.package.{of}.{setting}")]);
    }
    let written = process::run(&mut command, LIMIT)?;
    let made = Message::parse_stream(&*written.stdout)
        .filter_map(Result::ok)
        .filter_map(|message| match message {
            Message::CompilerArtifact(artifact) => Some(artifact),
            _ => None,
        })
        .flat_map(|artifact| artifact.filenames)
        .filter(|path| path.file_name() == Some(&*file))
        .last();
    let made = made.with_context(|| format!("cargo made no {file}"))?;
    read(made.as_std_path(), library)
}

fn read(archive: &Path, library: &str) -> anyhow::Result<Rust> {
    let archive = fs::read(archive)?;
    let mut probes = None;
    let mut layouts = BTreeMap::new();
    for member in ArchiveFile::parse(&*archive)?.members() {
        let member = member?;
        let (name, data) = (String::from_utf8_lossy(member.name()), member.data(&*archive)?);
        let ours = name.strip_prefix(library).is_some_and(|rest| rest.starts_with('-'));
        if !ours && !name.starts_with("sdt_core-") || !name.ends_with(".o") {
            continue;
        }
        layouts.extend(layout::layouts(data).with_context(|| name.clone().into_owned())?);
        if ours && probes.replace(data.to_vec()).is_some() {
            anyhow::bail!("more than one object of {library}");
        }
    }
    let probes = probes.with_context(|| format!("no object of {library}"))?;
    Ok(Rust { probes, layouts })
}
