//! Building kernel modules and the stand-in kernel: cargo for their targets, then the link.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use cargo_metadata::{Artifact, Message, TargetKind};
use clap::ValueEnum;

use crate::check::{self, Finding, Summary};
use crate::link::{self, LinkError};
use crate::platform::{FreeBsd, NoSuchKernel, Os, Route};
use crate::process::{self, ProcessError};
use crate::progress::step;
use crate::setup::{self, SetupError};
use crate::toolchain::Toolchain;
use crate::workspace::{self, Arch};

/// Building `core` and a crate from nothing takes well under a minute.
const LIMIT: Duration = Duration::from_secs(1200);
/// The package of the example module.
pub const EXAMPLE: &str = "kmod-example";
/// The package of the embedded example, and what it is built for: an ARMv7-M processor.
const EMBEDDED: &str = "embedded-example";
const EMBEDDED_TARGET: &str = "thumbv7m-none-eabi";
/// The package of the stand-in kernel.
pub(crate) const KERNEL: &str = "stand-in-kernel";

/// Why there is no module or kernel.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Something that building needs is missing.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// There are no kernels that it could be for.
    #[error(transparent)]
    NoSuchKernel(#[from] NoSuchKernel),
    /// There are no such modules.
    #[error("{0}")]
    NoSuchModule(String),
    /// Cargo failed.
    #[error("building {package} for {target} failed: {source}")]
    Cargo {
        /// The package.
        package: String,
        /// The target's file name.
        target: String,
        /// What cargo said.
        source: ProcessError,
    },
    /// Clippy has found something.
    #[error("{what}: {source}")]
    Lint {
        /// Clippy on what.
        what: String,
        /// What it said.
        source: ProcessError,
    },
    /// Cargo ended well but did not make what was wanted.
    #[error("cargo made no {what} of {package}")]
    NoArtifact {
        /// What was wanted.
        what: &'static str,
        /// The package.
        package: String,
    },
    /// The link failed.
    #[error("linking {file} failed: {source}")]
    Link {
        /// The module's file name.
        file: String,
        /// Why.
        source: LinkError,
    },
    /// The linked module breaks a rule: a bug in it, or in the build.
    #[error("{file} must not be loaded:\n{}", lines(.findings))]
    Check {
        /// The module's file name.
        file: String,
        /// What is wrong.
        findings: Vec<Finding>,
    },
    /// The linked module is good, but for another release or route: its package does not heed what it is told.
    #[error(
        "{file} is not for {wanted}; build it with sdt-core's freebsd_module!, which sees what is wanted, or \
         heed SDT_FREEBSD and feature own-provider"
    )]
    Other {
        /// The module's file name.
        file: String,
        /// What it was to be for.
        wanted: String,
    },
    /// The linked module is good, but says where it was built: another machine would make another file of it.
    #[error("{file} has paths of this machine in it, under {}", .folder.display())]
    Place {
        /// The module's file name.
        file: String,
        /// The folder that it names.
        folder: PathBuf,
    },
    /// A file could not be read or written.
    #[error("{}: {source}", .file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

fn lines(findings: &[Finding]) -> String {
    findings.iter().map(|finding| format!("  {finding}\n")).collect::<String>().trim_end().into()
}

/// What to build a module from and for.
#[derive(Clone, Debug)]
pub struct Module {
    /// For which kernels.
    pub arch: Arch,
    /// The package, of this workspace.
    pub package: String,
    /// Features of the package to turn on.
    pub features: Vec<String>,
    /// Whether the package's default features are on.
    pub default_features: bool,
    /// For which operating system.
    pub os: Os,
    /// On FreeBSD: for which release. On illumos the default one.
    pub freebsd: FreeBsd,
    /// How the kernel comes to know its probes.
    pub route: Route,
    /// What sites of its own provider do while they are enabled, if that has been chosen.
    pub patch: Option<Patch>,
    /// Settings of cargo's for this build, as `--config` takes them: `profile.release.lto="fat"`.
    pub config: Vec<String>,
    /// Another target file than that of the operating system and the architecture.
    pub target_file: Option<PathBuf>,
}

/// How the sites of a module are enabled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Patch {
    /// A breakpoint is patched over the nop.
    #[default]
    Trap,
    /// A jump is, where it reaches the site's cold block; elsewhere a breakpoint.
    Jump,
    /// Nothing is patched: sites test a flag.
    Gate,
}

impl Patch {
    /// The feature of `sdt-core` that makes a module's sites so, which is also the folder of such modules.
    const fn feature(self) -> Option<&'static str> {
        match self {
            Self::Trap => None,
            Self::Jump => Some("jump"),
            Self::Gate => Some("gate"),
        }
    }
}

impl Module {
    /// The example module.
    pub fn example(arch: Arch) -> Self {
        Self {
            arch,
            package: EXAMPLE.into(),
            features: Vec::new(),
            default_features: true,
            os: Os::default(),
            freebsd: FreeBsd::default(),
            route: Route::default(),
            patch: None,
            config: Vec::new(),
            target_file: None,
        }
    }

    /// The module that goes with this one: on illumos, a module with a provider of its own has a companion, of the
    /// package of the same name with `-dtrace` behind it.
    pub fn companion(&self) -> Option<Self> {
        let has_one = self.os == Os::Illumos && self.route == Route::Provider;
        has_one.then(|| Self {
            package: format!("{}-dtrace", self.package),
            features: Vec::new(),
            default_features: true,
            route: Route::default(),
            patch: None,
            ..self.clone()
        })
    }

    /// Builds, links and checks the module. It is written to `output`, or under the library's name to
    /// [`folder`](Self::folder). Returns where.
    ///
    /// # Errors
    /// There are no such modules, any step failed, or the module breaks a rule of the loader's.
    pub fn build(&self, output: Option<&Path>) -> Result<PathBuf, BuildError> {
        self.check()?;
        let lld = setup::lld()?;
        let folder = self.folder();
        create_dir(&folder)?;
        // The library is in the same place whatever its features are: one module at a time.
        let _building = lock(&workspace::build_dir().join("kmod").join("lock"))?;
        let toolchain = setup::toolchain(self.arch)?;
        let artifacts = self.artifacts(&toolchain)?;
        let no_artifact =
            || BuildError::NoArtifact { what: "static library", package: self.package.clone() };
        let library = artifacts
            .iter()
            .rfind(|artifact| artifact.target.kind.contains(&TargetKind::StaticLib))
            .ok_or_else(no_artifact)?;
        let archive = library
            .filenames
            .iter()
            .find(|file| file.extension() == Some("a"))
            .ok_or_else(no_artifact)?;

        let default = folder.join(self.os.module_file(&library.target.name));
        let output = output.unwrap_or(&default);
        let file = output.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let archive = archive.as_std_path();
        let image = match self.os {
            Os::FreeBsd => link::freebsd::module(&lld, self.arch, self.freebsd, archive, &folder),
            Os::Illumos => link::illumos::module(&lld, archive, &folder),
        };
        let image = image.map_err(|source| BuildError::Link { file: file.clone(), source })?;
        let checked = match self.os {
            Os::FreeBsd => check::module(&image).map(|summary| self.is_for(&summary)),
            Os::Illumos => check::illumos::module(&image).map(|_| true),
        };
        match checked {
            Ok(true) => {}
            Ok(false) => {
                let wanted = format!("FreeBSD {}, route {}", self.freebsd, self.route);
                return Err(BuildError::Other { file, wanted });
            }
            Err(findings) => return Err(BuildError::Check { file, findings }),
        }
        if let Some(folder) = toolchain.named_in(&image) {
            return Err(BuildError::Place { file, folder });
        }
        write(output, &image)?;
        Ok(output.to_owned())
    }

    /// Where modules of this kind are: `build/kmod/ARCH`, and in there a folder for each thing that is not
    /// the default.
    fn folder(&self) -> PathBuf {
        let mut folder = workspace::build_dir().join("kmod").join(self.arch.name());
        match self.os {
            Os::FreeBsd if self.freebsd == FreeBsd::default() => {}
            Os::FreeBsd => folder.push(format!("freebsd-{}", self.freebsd)),
            Os::Illumos => folder.push(self.os.name()),
        }
        if self.route != Route::default() {
            folder.push(self.route.name());
        }
        folder.extend(self.patch.and_then(Patch::feature));
        folder
    }

    /// Whether a module turned out to be for what it was built for.
    fn is_for(&self, summary: &Summary) -> bool {
        let by_route = summary.route.is_none_or(|route| route == self.route);
        summary.release == self.freebsd && by_route
    }

    /// What cargo builds for.
    pub(crate) fn target(&self) -> PathBuf {
        self.target_file.clone().unwrap_or_else(|| match self.os {
            Os::FreeBsd => self.arch.module_target(),
            Os::Illumos => workspace::root().join("targets/x86_64-illumos-kmod.json"),
        })
    }

    /// Whether there are such modules.
    fn check(&self) -> Result<(), BuildError> {
        let no = |reason: String| Err(BuildError::NoSuchModule(reason));
        self.os.runs_on(self.arch)?;
        match (self.route, self.patch) {
            (Route::Native, Some(_)) => no("--patch is for modules with a provider of their own \
                 (--route provider): without one it is the kernel that patches, as it does"
                .into()),
            (Route::Provider, Some(Patch::Trap)) if self.os == Os::Illumos => no(
                "--patch trap cannot be had on illumos, whose handlers of breakpoints cannot send a CPU elsewhere: \
                 sites jump".into(),
            ),
            (Route::Provider, _) if !self.freebsd.takes_own_providers() => no(format!(
                "--route provider cannot be had on FreeBSD {}: breakpoint handlers get the trap frame since \
                 11 only; take --route native",
                self.freebsd
            )),
            _ => Ok(()),
        }
    }

    /// Has cargo build the static library. Returns all that it consists of.
    pub(crate) fn artifacts(&self, toolchain: &Toolchain) -> Result<Vec<Artifact>, BuildError> {
        let mut command = toolchain.cargo("rustc", "core");
        command.args(["--release", "--package", &self.package]);
        command.arg("--target").arg(self.target());
        command.arg("--target-dir").arg(workspace::build_dir().join("cargo-kmod"));
        self.configure(&mut command);
        command.args(["--lib", "--crate-type", "staticlib"]);
        let what = format!("building {} for {}", self.package, self.arch);
        run_cargo(&mut command, &what, &self.package, &self.target())
    }

    /// Tells cargo what the module is for, and its features and settings.
    pub(crate) fn configure(&self, command: &mut Command) {
        for feature in &self.features {
            command.args(["--features", feature]);
        }
        if !self.default_features {
            command.arg("--no-default-features");
        }
        for setting in &self.config {
            command.args(["--config", setting]);
        }
        command.env("SDT_FREEBSD", self.freebsd.to_string());
        if self.route == Route::Provider {
            command.args(["--features", "sdt-core/own-provider"]);
        }
        if let Some(feature) = self.patch.and_then(Patch::feature) {
            command.args(["--features", &format!("sdt-core/{feature}")]);
        }
    }
}

/// Builds the stand-in kernel and returns where it is.
///
/// # Errors
/// Set-up or cargo failed.
pub fn kernel(arch: Arch) -> Result<PathBuf, BuildError> {
    let artifacts = kernel_artifacts(arch)?;
    let built = artifacts.into_iter().rev().find_map(|artifact| artifact.executable);
    let built = built
        .ok_or_else(|| BuildError::NoArtifact { what: "executable", package: KERNEL.into() })?;
    Ok(built.into())
}

/// Has cargo build the stand-in kernel. Returns all that it consists of.
pub(crate) fn kernel_artifacts(arch: Arch) -> Result<Vec<Artifact>, BuildError> {
    let lld = setup::lld()?;
    let target = arch.kernel_target();
    let mut command = setup::toolchain(arch)?.cargo("build", "core,alloc");
    command.env(linker_variable(&target), lld.program());
    command.args(["--release", "--package", KERNEL, "--features", "boot", "--bin", KERNEL]);
    command.arg("--target").arg(&target);
    command.arg("--target-dir").arg(workspace::build_dir().join("cargo-kernel"));
    let what = format!("building the stand-in kernel for {arch}");
    run_cargo(&mut command, &what, KERNEL, &target)
}

/// Builds the embedded example and returns where it is.
///
/// # Errors
/// Set-up or cargo failed.
pub fn embedded() -> Result<PathBuf, BuildError> {
    let lld = setup::lld()?;
    let target = Path::new(EMBEDDED_TARGET);
    let mut command = setup::toolchain(Arch::default())?.cargo("build", "core");
    command.env(linker_variable(target), lld.program());
    command.args(["--release", "--package", EMBEDDED, "--features", "board"]);
    command.arg("--target").arg(target);
    command.arg("--target-dir").arg(workspace::build_dir().join("cargo-embedded"));
    let artifacts = run_cargo(&mut command, "building the embedded example", EMBEDDED, target)?;
    let built = artifacts.into_iter().rev().find_map(|artifact| artifact.executable);
    let built = built
        .ok_or_else(|| BuildError::NoArtifact { what: "executable", package: EMBEDDED.into() })?;
    Ok(built.into())
}

/// The environment variable by which cargo takes a target's linker.
fn linker_variable(target: &Path) -> String {
    let name = target.file_stem().unwrap_or_default().to_string_lossy();
    format!("CARGO_TARGET_{}_LINKER", name.to_uppercase().replace('-', "_"))
}

/// Runs a cargo command that builds; returns all artifacts, those of the package last.
fn run_cargo(
    command: &mut Command,
    what: &str,
    package: &str,
    target: &Path,
) -> Result<Vec<Artifact>, BuildError> {
    command.arg("--message-format=json-render-diagnostics");
    let written =
        step(what, || process::run(command, LIMIT)).map_err(|source| BuildError::Cargo {
            package: package.into(),
            target: target.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            source,
        })?;
    // Cargo's own lines are of no interest after a success; warnings are.
    if written.stderr.contains("warning: ") {
        eprint!("{}", written.stderr);
    }
    let messages = Message::parse_stream(&*written.stdout).filter_map(Result::ok);
    let artifacts = messages.filter_map(|message| match message {
        Message::CompilerArtifact(artifact) => Some(artifact),
        _ => None,
    });
    Ok(artifacts.collect())
}

/// Creates a folder and those above it.
pub(crate) fn create_dir(folder: &Path) -> Result<(), BuildError> {
    std::fs::create_dir_all(folder)
        .map_err(|source| BuildError::File { file: folder.into(), source })
}

/// Waits until nobody else holds the file, and holds it until the result is dropped.
fn lock(file: &Path) -> Result<File, BuildError> {
    let locked = File::create(file).and_then(|held| held.lock().map(|()| held));
    locked.map_err(|source| BuildError::File { file: file.into(), source })
}

fn write(file: &Path, bytes: &[u8]) -> Result<(), BuildError> {
    std::fs::write(file, bytes).map_err(|source| BuildError::File { file: file.into(), source })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn built_for(freebsd: &str, route: Route, patch: Option<Patch>) -> Module {
        let freebsd = freebsd.parse().expect("a release");
        Module { freebsd, route, patch, ..Module::example(Arch::X86_64) }
    }

    #[test]
    fn no_module_overwrites_another() {
        let default = Module::example(Arch::X86_64).folder();
        assert_eq!(default, workspace::root().join("build/kmod/x86_64"));
        let mut folders = HashSet::from([default]);
        for (freebsd, route, patch) in [
            ("14", Route::Native, None),
            ("1500068", Route::Native, None),
            ("15", Route::Provider, None),
            ("14", Route::Provider, None),
            ("15", Route::Provider, Some(Patch::Jump)),
            ("15", Route::Provider, Some(Patch::Gate)),
        ] {
            let module = built_for(freebsd, route, patch);
            module.check().unwrap();
            assert!(folders.insert(module.folder()), "{module:?}");
        }
        let illumos = Module { os: Os::Illumos, ..Module::example(Arch::X86_64) };
        assert!(folders.insert(illumos.folder()));
    }

    #[test]
    fn there_are_no_such_modules() {
        for patch in [Patch::Trap, Patch::Jump, Patch::Gate] {
            let error = built_for("15", Route::Native, Some(patch)).build(None).unwrap_err();
            assert!(error.to_string().starts_with("--patch is for modules with a provider of "));
        }
        let illumos =
            Module { os: Os::Illumos, ..built_for("15", Route::Provider, Some(Patch::Trap)) };
        let error = illumos.build(None).unwrap_err().to_string();
        assert!(error.starts_with("--patch trap cannot be had on illumos, "), "{error}");
        let error = built_for("10", Route::Provider, None).build(None).unwrap_err().to_string();
        assert!(error.starts_with("--route provider cannot be had on FreeBSD 10: "), "{error}");
        let illumos = Module { os: Os::Illumos, ..Module::example(Arch::Aarch64) };
        let error = illumos.build(None).unwrap_err().to_string();
        assert_eq!(error, "illumos is not there for aarch64: take --arch x86_64");
    }
}
