//! Builds kernel modules: compiles for their target, links, and checks.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use cargo_metadata::{Artifact, Message, TargetKind};

use crate::arch::Arch;
use crate::check::{self, Against, Contents, Finding, FreeBsdSummary, Kernel};
use crate::link::{self, LinkError};
use crate::output;
use crate::platform::{FreeBsd, NoSuchKernel, Os, Patch, Route};
use crate::process::{self, ProcessError};
use crate::progress::step;
use crate::project::{Project, companion_of};
use crate::setup::{self, SetupError};
use crate::targets::Target;
use crate::toolchain::{Toolchain, profile_flags};
use crate::whole;

/// A complete build of `core` and a crate takes less than a minute.
const LIMIT: Duration = Duration::from_secs(1200);

/// A module or kernel could not be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A program that the build needs is missing.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// No kernel exists with these options.
    #[error(transparent)]
    NoSuchKernel(#[from] NoSuchKernel),
    /// No module exists with these options.
    #[error("{0}")]
    NoSuchModule(String),
    /// Cargo failed.
    #[error("building {package} for {target} failed: {source}")]
    Cargo { package: String, target: String, source: ProcessError },
    /// Clippy reported a warning or an error.
    #[error("{what}: {source}")]
    Lint { what: String, source: ProcessError },
    /// Cargo succeeded without making the expected artifact.
    #[error("cargo built no {what} of {package}")]
    NoArtifact { what: &'static str, package: String },
    /// The link failed.
    #[error("linking {file} failed: {source}")]
    Link { file: String, source: LinkError },
    /// The linked module breaks a rule: a bug in it, or in the build.
    #[error("{file} must not be loaded:\n{}", lines(.findings))]
    Check { file: String, findings: Vec<Finding> },
    /// The linked module is for another release or route than requested: its package ignores the environment.
    #[error(
        "{file} is not for {wanted}: its package ignores SDT_FREEBSD or SDT_ROUTE; declare the \
         module with freebsd_module! of sdt-core, which uses them"
    )]
    Other { file: String, wanted: String },
    /// The linked module is good, but contains the folder in which it was built.
    #[error("{file} contains paths of this machine, under {}, so the build is not reproducible on \
        another machine", .folder.display())]
    Place { file: String, folder: PathBuf },
    /// The module cannot be written to the requested place.
    #[error("cannot write {}: {why}", .output.display())]
    Output { output: PathBuf, why: &'static str },
    /// A file could not be read or written.
    #[error("{}: {source}", .file.display())]
    File { file: PathBuf, source: std::io::Error },
}

fn lines(findings: &[Finding]) -> String {
    let line = |finding: &Finding| format!("  {}: {finding}\n", finding.level());
    findings.iter().map(line).collect::<String>().trim_end().into()
}

/// A module to build: its package, and the kernel that it is for.
#[derive(Clone, Debug)]
pub struct Module {
    /// Its workspace.
    pub project: Project,
    /// The architecture of the kernel.
    pub arch: Arch,
    /// Its package in the workspace.
    pub package: String,
    /// Features of the package to turn on.
    pub features: Vec<String>,
    /// Whether the package's default features are on.
    pub default_features: bool,
    /// The operating system of the kernel.
    pub os: Os,
    /// The release of FreeBSD. On illumos, the default one.
    pub freebsd: FreeBsd,
    /// The route of its probes.
    pub route: Route,
    /// On the provider route: the patch mode, if it was set.
    pub patch: Option<Patch>,
    /// Settings for this build, in the form of cargo's `--config`: `profile.release.lto="fat"`.
    pub config: Vec<String>,
    /// The name of its file, if it differs from the library's.
    pub name: Option<String>,
    /// Whether functions keep rustc's mangled names.
    pub raw_symbols: bool,
    /// A target file that replaces the one of the operating system and the architecture.
    pub target_file: Option<PathBuf>,
}

impl Module {
    /// Returns the module of a package with default options: for the newest FreeBSD, by its native route.
    pub fn new(project: Project, package: &str, arch: Arch) -> Self {
        Self {
            project,
            arch,
            package: package.into(),
            features: Vec::new(),
            default_features: true,
            os: Os::default(),
            freebsd: FreeBsd::default(),
            route: Route::default(),
            patch: None,
            config: Vec::new(),
            name: None,
            raw_symbols: false,
            target_file: None,
        }
    }

    /// Returns the companion of this module: on illumos, a module with a provider of its own has a companion, from the
    /// package of the same name with the suffix `-dtrace`.
    pub fn companion(&self) -> Option<Self> {
        let has_one = self.os == Os::Illumos && self.route == Route::Provider;
        has_one.then(|| Self {
            package: companion_of(&self.package),
            name: None,
            features: Vec::new(),
            default_features: true,
            route: Route::default(),
            patch: None,
            ..self.clone()
        })
    }

    /// Builds, links and checks the module. Writes it to `output`, or under the library's name to the default folder, and returns the
    /// path.
    ///
    /// # Errors
    /// No module exists with these options, a step failed, or the check refuses the module.
    pub fn build(&self, output: Option<&Path>) -> Result<PathBuf, BuildError> {
        Ok(self.build_for(output, Against::default().kernel)?.0)
    }

    /// Like [`build`](Self::build), and checks the module against a kernel. Also returns the warnings and notes of the check.
    ///
    /// # Errors
    /// The errors of [`build`](Self::build).
    pub fn build_for(
        &self,
        output: Option<&Path>,
        kernel: &Kernel,
    ) -> Result<(PathBuf, Vec<Finding>), BuildError> {
        self.check()?;
        output.map_or(Ok(()), can_be_written)?;
        let lld = setup::lld()?;
        let folder = self.folder();
        create_dir(&folder)?;
        let _building = lock(&self.project)?;
        let toolchain = setup::toolchain(&self.project, self.arch)?;
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

        let name = self.name.as_ref().unwrap_or(&library.target.name);
        let default = folder.join(self.os.module_file(name));
        let output = output.unwrap_or(&default);
        let file = output.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let archive = archive.as_std_path();
        let image = match self.os {
            Os::FreeBsd => link::freebsd::module(&lld, self.arch, self.freebsd, archive, &folder),
            Os::Illumos => link::illumos::module(&lld, archive, &folder),
        };
        let named = |mut image| {
            if !self.raw_symbols {
                link::make_readable(&mut image)?;
            }
            Ok(image)
        };
        let image = image.and_then(named);
        let mut image = image.map_err(|source| BuildError::Link { file: file.clone(), source })?;
        link::seal(&mut image);
        let against = Against { file: Some(&file), kernel };
        let contents = check::module(self.os, &image, against)
            .map_err(|findings| BuildError::Check { file: file.clone(), findings })?;
        if let Contents::FreeBsd(summary) = &contents
            && !self.is_for(summary)
        {
            let wanted = format!("FreeBSD {}, route {}", self.freebsd, self.route);
            return Err(BuildError::Other { file, wanted });
        }
        if let Some(folder) = toolchain.named_in(&image) {
            return Err(BuildError::Place { file, folder });
        }
        write(output, &image)?;
        Ok((output.to_owned(), contents.warnings().to_vec()))
    }

    /// Returns the folder of modules of this kind: `build/kmod/ARCH`, and in there a folder for each choice that is not
    /// the default.
    fn folder(&self) -> PathBuf {
        let mut folder = self.project.build().join("kmod").join(self.arch.name());
        match self.os {
            Os::FreeBsd if self.freebsd == FreeBsd::default() => {}
            Os::FreeBsd => folder.push(format!("freebsd-{}", self.freebsd)),
            Os::Illumos => folder.push(self.os.name()),
        }
        if self.route != Route::default() {
            folder.push(self.route.name());
        }
        folder.extend(self.patch.filter(|&patch| patch != Patch::default()).map(Patch::name));
        if self.raw_symbols {
            folder.push("raw-symbols");
        }
        folder
    }

    /// Returns whether a module is for the release and the route for which it was built.
    fn is_for(&self, summary: &FreeBsdSummary) -> bool {
        let by_route = summary.route.is_none_or(|route| route == self.route);
        summary.release == self.freebsd && by_route
    }

    /// Returns the target file for cargo.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn target(&self, toolchain: &Toolchain) -> Result<PathBuf, BuildError> {
        if let Some(file) = &self.target_file {
            return Ok(file.clone());
        }
        let folder = self.project.targets();
        let written = Target::of(self.os, self.arch).write_to(&folder, toolchain.release());
        written.map_err(|source| BuildError::File { file: folder, source })
    }

    /// Checks that a module with these options exists.
    fn check(&self) -> Result<(), BuildError> {
        let no = |reason: String| Err(BuildError::NoSuchModule(reason));
        self.os.runs_on(self.arch)?;
        match (self.route, self.patch) {
            (Route::Native, Some(_)) => no("--patch requires --route provider: on the native route \
                the kernel patches the sites; omit --patch"
                .into()),
            (Route::Provider, Some(Patch::Trap)) if self.os == Os::Illumos => no(
                "--patch trap is not supported on illumos, whose breakpoint handlers cannot resume \
                 a CPU elsewhere: use --patch jump".into(),
            ),
            (Route::Provider, _) if !self.freebsd.has_provider_route() => no(format!(
                "--route provider is not supported on FreeBSD {}, whose breakpoint handlers do not \
                 get the trap frame: use --route native",
                self.freebsd
            )),
            _ => Ok(()),
        }
    }

    /// Builds the static library with cargo, and returns its parts. The caller holds the [lock].
    ///
    /// # Errors
    /// Cargo failed.
    pub fn artifacts(&self, toolchain: &Toolchain) -> Result<Vec<Artifact>, BuildError> {
        let target = self.target(toolchain)?;
        let mut command = toolchain.cargo("rustc", "core");
        command.args(["--release", "--package", &self.package]);
        command.arg("--target").arg(&target);
        command.arg("--target-dir").arg(self.project.cargo_target());
        self.configure(&mut command, &toolchain.project_flags());
        command.args(["--lib", "--crate-type", "staticlib"]);
        let what = format!("building {} for {}", self.package, self.arch);
        run_cargo(&mut command, &what, &self.package, &target)
    }

    /// Adds the kernel, the features and the settings to a command of cargo; `flags` are the options of rustc for the project's
    /// crates.
    pub fn configure(&self, command: &mut Command, flags: &[String]) {
        for feature in &self.features {
            command.args(["--features", feature]);
        }
        if !self.default_features {
            command.arg("--no-default-features");
        }
        for setting in &self.config {
            command.args(["--config", setting]);
        }
        let (freebsd, route) = (self.freebsd.to_string(), self.route.name());
        let patch = self.patch.map_or("", Patch::name);
        compile_apart(command, flags, &[&freebsd, route, patch]);
        command.env("SDT_FREEBSD", freebsd);
        command.env("SDT_ROUTE", route);
        // An empty value means none, and overrides `[env]` of cargo's configuration.
        command.env("SDT_PATCH", patch);
    }
}

/// Makes cargo store sdt-core and the crates that depend on it once for each combination of values of the variables of sdt-core's
/// build script. Without it, cargo uses the same files for all values, and compiles these crates again whenever a value
/// changes. `flags` are the options of rustc that sdt-core gets besides.
pub fn compile_apart(command: &mut Command, flags: &[String], values: &[&str]) {
    // No code tests this `cfg`. It only makes cargo store the crates separately.
    let apart = format!("--cfg=sdt_for_{}", values.join("_"));
    let flags = [flags, &[apart]].concat();
    let setting = profile_flags("profile.release.package.sdt-core", &flags);
    command.args(["-Zprofile-rustflags", "--config", &setting]);
}

/// Returns the name of the environment variable that sets a target's linker for cargo.
pub fn linker_variable(target: &Path) -> String {
    let name = target.file_stem().unwrap_or_default().to_string_lossy();
    format!("CARGO_TARGET_{}_LINKER", name.to_uppercase().replace('-', "_"))
}

/// Runs a cargo command that builds, and returns all artifacts, the package's last.
///
/// # Errors
/// The command failed.
pub fn run_cargo(
    command: &mut Command,
    what: &str,
    package: &str,
    target: &Path,
) -> Result<Vec<Artifact>, BuildError> {
    run_cargo_rustc(command, &[], what, package, target)
}

/// Like [`run_cargo`], for `cargo rustc`, with options of rustc for the package alone.
///
/// # Errors
/// The errors of [`run_cargo`].
pub fn run_cargo_rustc(
    command: &mut Command,
    options: &[&str],
    what: &str,
    package: &str,
    target: &Path,
) -> Result<Vec<Artifact>, BuildError> {
    command.arg("--message-format=json-render-diagnostics");
    if !options.is_empty() {
        command.arg("--").args(options);
    }
    let written =
        step(what, || process::run(command, LIMIT)).map_err(|source| BuildError::Cargo {
            package: package.into(),
            target: target.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            source,
        })?;
    // After a success, cargo's output is printed only if it contains warnings.
    if written.stderr.contains("warning: ") {
        output::say(&written.stderr);
    }
    let messages = Message::parse_stream(&*written.stdout).filter_map(Result::ok);
    let artifacts = messages.filter_map(|message| match message {
        Message::CompilerArtifact(artifact) => Some(artifact),
        _ => None,
    });
    Ok(artifacts.collect())
}

/// Checks before the build that the output can be written.
fn can_be_written(output: &Path) -> Result<(), BuildError> {
    let folder = match output.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => output,
    };
    let why = if output.is_dir() {
        "it is a folder"
    } else if !folder.exists() {
        "its folder does not exist"
    } else if !folder.is_dir() {
        "its parent is not a folder"
    } else {
        return Ok(());
    };
    Err(BuildError::Output { output: output.to_owned(), why })
}

/// Creates a folder and those above it.
///
/// # Errors
/// The folder cannot be created.
pub fn create_dir(folder: &Path) -> Result<(), BuildError> {
    std::fs::create_dir_all(folder)
        .map_err(|source| BuildError::File { file: folder.into(), source })
}

/// Waits for the build of other modules of the project, and blocks further builds until the result is dropped: cargo writes a
/// package's library to the same path for all kernels.
///
/// # Errors
/// The lock cannot be made.
pub fn lock(project: &Project) -> Result<File, BuildError> {
    let folder = project.build().join("kmod");
    create_dir(&folder)?;
    let file = folder.join("lock");
    let locked = File::create(&file).and_then(|held| held.lock().map(|()| held));
    locked.map_err(|source| BuildError::File { file, source })
}

fn write(file: &Path, bytes: &[u8]) -> Result<(), BuildError> {
    whole::write(file, bytes).map_err(|source| BuildError::File { file: file.into(), source })
}

#[cfg(test)]
#[path = "../tests/unit/module.rs"]
mod tests;
