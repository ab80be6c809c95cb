//! The toolchain that builds for kernels: a cargo and a rustc of one version, with the sources of
//! `core`, and lld.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::arch::Arch;
use crate::platform::Os;
use crate::process::{self, ProcessError, clean_cargo_env};
use crate::project::Project;
use crate::targets::Target;

const SHORT: Duration = Duration::from_secs(60);

/// A toolchain that can build `core` for a kernel's target, and the workspace that it builds.
#[derive(Clone, Debug)]
pub struct Toolchain {
    project: Project,
    cargo: PathBuf,
    rustc: PathBuf,
    /// The folder with the sources of `core` and of the other crates of the standard library.
    sources: PathBuf,
    /// Whether cargo has the flag `-Zjson-target-spec`. If it has, JSON targets require it.
    json_target_flag: bool,
    release: String,
}

/// Why a toolchain cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    /// A program of the toolchain does not exist.
    #[error("{0} does not exist")]
    Missing(PathBuf),
    /// One of its programs does not run.
    #[error(transparent)]
    Broken(#[from] ProcessError),
    /// The target's file cannot be written.
    #[error("the target file cannot be written: {0}")]
    Write(#[from] std::io::Error),
    /// Cargo, rustc and the sources have different versions.
    #[error("{what} has version {found}, and rustc {expected}: install the same version of both")]
    Mixed { what: &'static str, found: String, expected: String },
    /// The toolchain lacks the sources of `core`.
    #[error("{0} lacks the sources of core: add the component rust-src")]
    NoSources(PathBuf),
    /// rustc does not accept the target.
    #[error("rustc {release} does not accept {target}: {reason}")]
    Target { release: String, target: String, reason: String },
}

impl Toolchain {
    /// Returns the toolchain whose programs are in a folder, if it can build the project for `arch`.
    ///
    /// # Errors
    /// Something is missing or does not fit.
    pub fn in_folder(bin: &Path, project: &Project, arch: Arch) -> Result<Self, Unfit> {
        let (cargo, rustc) = (bin.join("cargo"), bin.join("rustc"));
        for program in [&cargo, &rustc] {
            if !program.is_file() {
                return Err(Unfit::Missing(program.clone()));
            }
        }
        let release = version(&rustc)?;
        let found = version(&cargo)?;
        if found != release {
            return Err(Unfit::Mixed { what: "cargo", found, expected: release });
        }
        let sysroot = sysroot(&rustc)?;
        let sources = sysroot.join("lib/rustlib/src/rust");
        if !sources.join("library/core/src/lib.rs").is_file() {
            return Err(Unfit::NoSources(sysroot));
        }
        // Distributions ship `src/version`. rustup's rust-src contains only the library, always of rustc's version.
        if let Ok(found) = std::fs::read_to_string(sources.join("src/version"))
            && found.trim() != release
        {
            let found = found.trim().to_owned();
            return Err(Unfit::Mixed { what: "the source of core", found, expected: release });
        }
        let target = Target::of(Os::FreeBsd, arch).write_to(&project.targets(), &release)?;
        let mut probe = unstable(&rustc);
        probe.args(["-Zunstable-options", "--print", "cfg", "--target"]).arg(&target);
        process::run(&mut probe, SHORT).map_err(|error| Unfit::Target {
            release: release.clone(),
            target: target.display().to_string(),
            reason: error.to_string(),
        })?;
        let flags = process::run(unstable(&cargo).args(["-Z", "help"]), SHORT)?;
        let json_target_flag = String::from_utf8_lossy(&flags.stdout).contains("json-target-spec");
        let project = project.clone();
        Ok(Self { project, cargo, rustc, sources, json_target_flag, release })
    }

    /// A cargo command that builds crates of the standard library (`core`, or `core,alloc`) and a
    /// package for a target JSON. Still missing: the target, the target directory, the package.
    pub fn cargo(&self, subcommand: &str, std: &str) -> Command {
        let mut command = self.command(&self.cargo);
        command.env("RUSTC", &self.rustc).arg(subcommand);
        command.env("CARGO_ENCODED_RUSTFLAGS", remap_flags(self.shared()).join("\u{1f}"));
        command.arg(format!("-Zbuild-std={std}"));
        // The flags for macros and for the standard library do not contain the project's folders, so that projects with
        // one build folder share these crates.
        command.arg("-Zprofile-rustflags");
        let own = profile_flags("profile.release", &self.project_flags());
        let packages = std.split(',').chain(["compiler_builtins"]);
        let shared = packages.map(|of| format!("profile.release.package.{of}"));
        let shared = shared.chain(["profile.release.build-override".to_owned()]);
        let shared = shared.map(|of| profile_flags(&of, &[]));
        for setting in std::iter::once(own).chain(shared) {
            command.args(["--config", &setting]);
        }
        command.arg("-Zbuild-std-features=compiler-builtins-mem");
        // Warnings about future errors in the standard library concern only its authors.
        command.args(["--config", "future-incompat-report.frequency='never'"]);
        self.take_json(&mut command);
        command
    }

    /// Returns a clippy command that uses the standard library in `sysroot`. The caller adds the same arguments as for
    /// [`cargo`](Self::cargo).
    pub fn clippy(&self, sysroot: &Path) -> Command {
        let mut command = self.command(&self.clippy_program());
        // Without these variables, clippy would run the cargo and the rustc of the PATH.
        command.env("CARGO", &self.cargo).env("RUSTC", &self.rustc).arg("clippy");
        command.env("CARGO_ENCODED_RUSTFLAGS", format!("--sysroot={}", sysroot.display()));
        self.take_json(&mut command);
        command
    }

    /// Returns a command that runs a program of the toolchain in the project.
    fn command(&self, program: &Path) -> Command {
        let mut command = unstable(program);
        command.current_dir(self.project.root());
        command
    }

    /// The release of its rustc: `1.96.0`.
    pub fn release(&self) -> &str {
        &self.release
    }

    /// Returns whether it has clippy.
    pub fn has_clippy(&self) -> bool {
        self.clippy_program().is_file()
    }

    fn clippy_program(&self) -> PathBuf {
        self.cargo.with_file_name("cargo-clippy")
    }

    fn take_json(&self, command: &mut Command) {
        if self.json_target_flag {
            command.arg("-Zjson-target-spec");
        }
    }

    /// Returns the folders of the project's sources, and the names that replace them in a module: the file does not depend on
    /// where it was built.
    fn own(&self) -> Vec<(PathBuf, String)> {
        let outside = self.project.outside().iter();
        let outside = outside.map(|of| (of.folder.clone(), format!("/path/{}", of.name)));
        let mut folders: Vec<(PathBuf, String)> = outside.collect();
        folders.push((self.project.root().to_owned(), ".".into()));
        folders
    }

    /// Returns the folders of sources that all projects on this machine use, and the names that replace them.
    fn shared(&self) -> Vec<(PathBuf, String)> {
        let sources = format!("/rustc/{}", self.release);
        let mut folders: Vec<(PathBuf, String)> = Vec::new();
        folders.extend(cargo_home().map(|home| (home, "/cargo".into())));
        // The folder of a distribution may be a symbolic link, and compilers use the path that they were given. So both
        // paths are replaced.
        folders.extend(self.sources.canonicalize().map(|folder| (folder, sources.clone())));
        folders.push((self.sources.clone(), sources));
        folders
    }

    /// Returns the options of rustc for all crates except the standard library: the names that replace the project's folders.
    pub fn project_flags(&self) -> Vec<String> {
        remap_flags(self.own())
    }

    /// Returns a folder of this machine that a file names, if any.
    pub fn named_in(&self, file: &[u8]) -> Option<PathBuf> {
        let folders = self.own().into_iter().chain(self.shared());
        folders.map(|(folder, _)| folder).find(|folder| names(file, folder))
    }
}

fn remap_flags(folders: Vec<(PathBuf, String)>) -> Vec<String> {
    let flag = |(from, to): (PathBuf, _)| format!("--remap-path-prefix={}={to}", from.display());
    folders.into_iter().map(flag).collect()
}

/// Returns a setting of cargo's `--config`: options of rustc for a profile, or for a package in it. Cargo takes it with
/// `-Zprofile-rustflags`. The options of a package replace those of the profile.
pub fn profile_flags(of: &str, flags: &[String]) -> String {
    format!("{of}.rustflags={flags:?}")
}

/// Returns whether a file contains a path that begins with a folder. A short folder such as `/src` does not count, as it can be a
/// part of any path.
fn names(file: &[u8], folder: &Path) -> bool {
    let folder = folder.join("");
    let bytes = folder.as_os_str().as_encoded_bytes();
    folder.components().count() > 2 && file.windows(bytes.len()).any(|window| window == bytes)
}

/// Returns the folder in which cargo keeps the sources of crates.
fn cargo_home() -> Option<PathBuf> {
    let given = std::env::var_os("CARGO_HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    given.or_else(|| Some(std::env::home_dir()?.join(".cargo")))
}

impl fmt::Display for Toolchain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rustc {} ({})", self.release, self.rustc.display())
    }
}

/// Returns a command for a program of a toolchain with unstable flags enabled.
fn unstable(program: &Path) -> Command {
    let mut command = Command::new(program);
    clean_cargo_env(&mut command);
    command.env("RUSTC_BOOTSTRAP", "1");
    command
}

/// Returns the version number that a program prints with `-V`: `rustc 1.96.0 (ac68faa20 2026-05-25)`.
fn version(program: &Path) -> Result<String, ProcessError> {
    let written = process::run(unstable(program).arg("-V"), SHORT)?;
    Ok(written.first_line().split(' ').nth(1).unwrap_or("unknown").to_owned())
}

fn sysroot(rustc: &Path) -> Result<PathBuf, ProcessError> {
    let written = process::run(unstable(rustc).args(["--print", "sysroot"]), SHORT)?;
    Ok(PathBuf::from(written.first_line()))
}

/// Returns the sysroot of the toolchain that runs this program, or of the one that a shell would run.
///
/// # Errors
/// No rustc was found.
pub fn host_sysroot() -> Result<PathBuf, ProcessError> {
    // Cargo sets `CARGO` to its own path, which is not rustup's proxy.
    let beside_cargo = std::env::var_os("CARGO")
        .and_then(|cargo| Some(Path::new(&cargo).parent()?.join("rustc")))
        .filter(|rustc| rustc.is_file());
    sysroot(beside_cargo.as_deref().unwrap_or(Path::new("rustc")))
}

/// The folders in which a distribution's toolchain may be, newest first: Debian's and Ubuntu's
/// default one, and Ubuntu's versioned ones.
pub fn distribution_folders() -> Vec<PathBuf> {
    let mut versioned: Vec<(u32, PathBuf)> = std::fs::read_dir("/usr/lib")
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let minor = entry.file_name().to_str()?.strip_prefix("rust-1.")?.parse().ok()?;
            Some((minor, entry.path().join("bin")))
        })
        .collect();
    versioned.sort_by_key(|&(minor, _)| std::cmp::Reverse(minor));
    let default = PathBuf::from("/usr/bin");
    std::iter::once(default).chain(versioned.into_iter().map(|(_, bin)| bin)).collect()
}

/// Finds lld: that of rustup, or that of the distribution if it is new enough.
pub fn find_lld() -> Option<Lld> {
    if let Ok(sysroot) = host_sysroot() {
        let host = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let lld = sysroot.join("lib/rustlib").join(host).join("bin/rust-lld");
        if lld.is_file() {
            return Some(Lld { program: lld, flavored: true });
        }
    }
    let lld = Lld { program: process::find("ld.lld")?, flavored: false };
    // Versions before 19 cannot resolve groups of sections in relocatable files.
    let help = process::run(lld.command().arg("--help"), SHORT).ok()?;
    String::from_utf8_lossy(&help.stdout).contains("--force-group-allocation").then_some(lld)
}

/// The linker.
#[derive(Clone, Debug)]
pub struct Lld {
    program: PathBuf,
    /// Whether the program is the generic `lld`, which needs an option to behave like GNU's ld.
    flavored: bool,
}

impl Lld {
    /// Returns the path of the program.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The command, without arguments.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        if self.flavored {
            command.args(["-flavor", "gnu"]);
        }
        command
    }
}

#[cfg(test)]
#[path = "../tests/unit/toolchain.rs"]
mod tests;
