//! Building kernel modules: cargo for their targets, the link, the check.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use cargo_metadata::{Artifact, Message, TargetKind};

use crate::arch::Arch;
use crate::check::{self, Against, Contents, Finding, Kernel, Summary};
use crate::link::{self, LinkError};
use crate::output;
use crate::platform::{FreeBsd, NoSuchKernel, Os, Patch, Route};
use crate::process::{self, ProcessError};
use crate::progress::step;
use crate::project::{Project, companion_of};
use crate::setup::{self, SetupError};
use crate::targets::Target;
use crate::toolchain::Toolchain;
use crate::whole;

/// Building `core` and a crate from nothing takes well under a minute.
const LIMIT: Duration = Duration::from_secs(1200);

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
         heed SDT_FREEBSD and SDT_ROUTE"
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
    /// The module cannot be written where it was to be.
    #[error("cannot write {}: {why}", .output.display())]
    Output {
        /// Where it was to be.
        output: PathBuf,
        /// What is wrong with the place.
        why: &'static str,
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
    let line = |finding: &Finding| format!("  {}: {finding}\n", finding.level());
    findings.iter().map(line).collect::<String>().trim_end().into()
}

/// What to build a module from and for.
#[derive(Clone, Debug)]
pub struct Module {
    /// The workspace that it is in.
    pub project: Project,
    /// For which kernels.
    pub arch: Arch,
    /// The package, of that workspace.
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
    /// On the provider route: what enabled sites do, if that has been chosen.
    pub patch: Option<Patch>,
    /// Settings of cargo's for this build, as `--config` takes them: `profile.release.lto="fat"`.
    pub config: Vec<String>,
    /// Its name, which its file has, if that is not its library's.
    pub name: Option<String>,
    /// Whether functions keep the names that rustc has made up.
    pub raw_symbols: bool,
    /// Another target file than that of the operating system and the architecture.
    pub target_file: Option<PathBuf>,
}

impl Module {
    /// The module that a package is by default: for the newest FreeBSD, by its native route.
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

    /// The module that goes with this one: on illumos, a module with a provider of its own has a companion, of the
    /// package of the same name with `-dtrace` behind it.
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

    /// Builds, links and checks the module. It is written to `output`, or under the library's name to
    /// its folder. Returns where.
    ///
    /// # Errors
    /// There are no such modules, any step failed, or the module breaks a rule of the loader's.
    pub fn build(&self, output: Option<&Path>) -> Result<PathBuf, BuildError> {
        Ok(self.build_for(output, Against::default().kernel)?.0)
    }

    /// The same, checked against a kernel. Returns what is worth a look as well, though the module can be loaded.
    ///
    /// # Errors
    /// As of [`build`](Self::build).
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
        let contents = check::module_of(self.os, &image, against)
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

    /// Where modules of this kind are: `build/kmod/ARCH`, and in there a folder for each thing that is not
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

    /// Whether a module turned out to be for what it was built for.
    fn is_for(&self, summary: &Summary) -> bool {
        let by_route = summary.route.is_none_or(|route| route == self.route);
        summary.release == self.freebsd && by_route
    }

    /// What cargo builds for, as the toolchain takes it.
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
            (Route::Provider, _) if !self.freebsd.has_provider_route() => no(format!(
                "--route provider cannot be had on FreeBSD {}: breakpoint handlers get the trap frame since \
                 11 only; take --route native",
                self.freebsd
            )),
            _ => Ok(()),
        }
    }

    /// Has cargo build the static library. Returns all that it consists of. Hold the [lock] meanwhile.
    ///
    /// # Errors
    /// Cargo failed.
    pub fn artifacts(&self, toolchain: &Toolchain) -> Result<Vec<Artifact>, BuildError> {
        let target = self.target(toolchain)?;
        let mut command = toolchain.cargo("rustc", "core");
        command.args(["--release", "--package", &self.package]);
        command.arg("--target").arg(&target);
        command.arg("--target-dir").arg(self.project.cargo_target());
        self.configure(&mut command);
        command.args(["--lib", "--crate-type", "staticlib"]);
        let what = format!("building {} for {}", self.package, self.arch);
        run_cargo(&mut command, &what, &self.package, &target)
    }

    /// Tells cargo what the module is for, and its features and settings.
    pub fn configure(&self, command: &mut Command) {
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
        compile_apart(command, &[&freebsd, route, patch]);
        command.env("SDT_FREEBSD", freebsd);
        command.env("SDT_ROUTE", route);
        // Empty is none, and is before what `[env]` of cargo's configuration says.
        command.env("SDT_PATCH", patch);
    }
}

/// Has cargo keep sdt-core, and the crates that depend on it, apart from those that are compiled for other values of the
/// variables of sdt-core's build script. By the variables alone cargo does not tell them apart, and compiles these crates again
/// each time that the values change.
pub fn compile_apart(command: &mut Command, values: &[&str]) {
    // Nothing tests this `cfg`: a crate with other flags is another file.
    let setting = format!(
        "profile.release.package.sdt-core.rustflags=['--cfg=sdt_for_{}']",
        values.join("_")
    );
    command.args(["-Zprofile-rustflags", "--config", &setting]);
}

/// The environment variable by which cargo takes a target's linker.
pub fn linker_variable(target: &Path) -> String {
    let name = target.file_stem().unwrap_or_default().to_string_lossy();
    format!("CARGO_TARGET_{}_LINKER", name.to_uppercase().replace('-', "_"))
}

/// Runs a cargo command that builds; returns all artifacts, those of the package last.
///
/// # Errors
/// It fails.
pub fn run_cargo(
    command: &mut Command,
    what: &str,
    package: &str,
    target: &Path,
) -> Result<Vec<Artifact>, BuildError> {
    run_cargo_rustc(command, &[], what, package, target)
}

/// The same of `cargo rustc`, with options of rustc for the package alone.
///
/// # Errors
/// As [`run_cargo`].
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
    // Cargo's own lines are of no interest after a success; warnings are.
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

/// Whether a file is in a folder that is there, so that a build is not in vain.
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
        "what it is to be in is no folder"
    } else {
        return Ok(());
    };
    Err(BuildError::Output { output: output.to_owned(), why })
}

/// Creates a folder and those above it.
///
/// # Errors
/// It cannot be created.
pub fn create_dir(folder: &Path) -> Result<(), BuildError> {
    std::fs::create_dir_all(folder)
        .map_err(|source| BuildError::File { file: folder.into(), source })
}

/// Waits until no other module of the project is being built, and prevents that one is until the result is dropped: a package's
/// library is in the same place, whatever it is built for.
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
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn module(arch: Arch) -> Module {
        Module::new(Project::new("/project".into(), "/project/build".into()), "driver", arch)
    }

    fn built_for(freebsd: &str, route: Route, patch: Option<Patch>) -> Module {
        let freebsd = freebsd.parse().expect("a release");
        Module { freebsd, route, patch, ..module(Arch::X86_64) }
    }

    #[test]
    fn no_module_overwrites_another() {
        let default = module(Arch::X86_64).folder();
        assert_eq!(default, Path::new("/project/build/kmod/x86_64"));
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
        let illumos = Module { os: Os::Illumos, ..module(Arch::X86_64) };
        assert!(folders.insert(illumos.folder()));
        let raw = Module { raw_symbols: true, ..illumos };
        assert!(folders.insert(raw.folder()));
    }

    #[test]
    fn sdt_core_is_compiled_apart_for_each_kernel() {
        let mut settings = HashSet::new();
        for (freebsd, route, patch) in [
            ("15", Route::Native, None),
            ("14", Route::Native, None),
            ("15", Route::Provider, None),
            ("15", Route::Provider, Some(Patch::Jump)),
            ("15", Route::Provider, Some(Patch::Gate)),
        ] {
            let mut command = Command::new("cargo");
            built_for(freebsd, route, patch).configure(&mut command);
            let arguments = command.get_args().map(|argument| argument.to_string_lossy());
            let setting = arguments.filter(|argument| argument.contains("sdt-core.rustflags"));
            assert!(settings.insert(setting.collect::<String>()), "{freebsd} {route} {patch:?}");
        }
    }

    #[test]
    fn where_to_write_is_looked_at_before_anything_is_built() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let at = |place: &Path| {
            // A package that cannot be built, even if somebody tried.
            let none = Module { package: "none".into(), ..module(Arch::X86_64) };
            none.build(Some(place)).unwrap_err().to_string()
        };
        let missing = folder.path().join("native");
        let (native, here) = (missing.join("x.ko"), folder.path().display());
        assert_eq!(
            at(&native),
            format!("cannot write {here}/native/x.ko: its folder does not exist")
        );
        let below = file.join("x.ko");
        assert_eq!(
            at(&below),
            format!("cannot write {here}/file/x.ko: what it is to be in is no folder")
        );
        assert_eq!(at(folder.path()), format!("cannot write {here}: it is a folder"));
        for good in [folder.path().join("x.ko"), file, PathBuf::from("x.ko")] {
            assert!(can_be_written(&good).is_ok(), "{}", good.display());
        }
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
        let illumos = Module { os: Os::Illumos, ..module(Arch::Aarch64) };
        let error = illumos.build(None).unwrap_err().to_string();
        assert_eq!(error, "illumos is not there for aarch64: take --arch x86_64");
    }
}
