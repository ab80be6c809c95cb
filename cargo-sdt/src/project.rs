//! The cargo workspace that a module is built in, and the module's settings in its manifest.

use std::path::{Path, PathBuf};

use cargo_metadata::{Metadata, MetadataCommand, Package, Target, TargetKind};

use crate::settings::{Settings, SettingsError};

/// A workspace, and the folder for everything that is built for kernels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    root: PathBuf,
    build: PathBuf,
    outside: Vec<Outside>,
}

/// A package on this machine that is outside of the workspace's root folder, and on which packages of the workspace
/// depend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outside {
    /// The folder of the package.
    pub folder: PathBuf,
    /// Its name and its version: `sdt-core-0.1.0`.
    pub name: String,
}

/// A module cannot be built in a folder.
#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    /// Cargo cannot read the project.
    #[error("cargo cannot read the project: {0}")]
    Metadata(#[from] cargo_metadata::Error),
    /// The workspace has no such package.
    #[error("no package {package} in {}: its packages are {}", .root.display(), .others.join(", "))]
    NoSuchPackage { package: String, root: PathBuf, others: Vec<String> },
    /// No package was named, and the workspace has several.
    #[error("{} has several packages: select one with --package ({})", .root.display(), .packages.join(", "))]
    WhichPackage { root: PathBuf, packages: Vec<String> },
    /// The package has no library.
    #[error(
        "package {0} has no library, which a kernel module needs: move its code to src/lib.rs; to \
         trace a program, use the crate sdt-process instead of a module"
    )]
    NoLibrary(String),
    /// The manifest's settings of the module are wrong.
    #[error(transparent)]
    Settings(#[from] SettingsError),
}

/// A package to build as a module.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its workspace.
    pub project: Project,
    /// Its name.
    pub package: String,
    /// `[package.metadata.sdt]`.
    pub settings: Settings,
    /// Whether the workspace has the package that would be its companion on illumos.
    pub has_companion: bool,
}

impl Project {
    /// Returns the workspace with the root folder `root` and the output folder `build`.
    pub const fn new(root: PathBuf, build: PathBuf) -> Self {
        Self { root, build, outside: Vec::new() }
    }

    /// Finds the package of this name in the workspace of `folder`; without a name, the package of `folder`, or the
    /// workspace's only one. The output folder is `sdt/` in cargo's target folder.
    ///
    /// # Errors
    /// The workspace or the package does not exist, the package has no library, or its settings are wrong.
    pub fn find(folder: &Path, package: Option<&str>) -> Result<Found, ProjectError> {
        let metadata = MetadataCommand::new().current_dir(folder).no_deps().exec()?;
        let root = metadata.workspace_root.clone().into_std_path_buf();
        let build = metadata.target_directory.as_std_path().join("sdt");
        let package = pick(&metadata, folder, package)?;
        if !package.targets.iter().any(is_library) {
            return Err(ProjectError::NoLibrary(package.name.to_string()));
        }
        let settings = Settings::read(&package.name, &package.metadata)?;
        let companion = companion_of(&package.name);
        let has_companion = metadata.packages.iter().any(|of| of.name == companion);
        let outside = outside(folder, &root);
        let project = Self { root, build, outside };
        Ok(Found { project, package: package.name.to_string(), settings, has_companion })
    }

    /// Returns the packages elsewhere on this machine on which it depends by their paths.
    pub fn outside(&self) -> &[Outside] {
        &self.outside
    }

    /// The workspace's root folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder for everything that is made for a kernel: modules, target files, cargo's target folders.
    pub fn build(&self) -> &Path {
        &self.build
    }

    /// Returns cargo's target folder for everything that is compiled for kernels. All kernels share one, so that macros
    /// and `core` are compiled once.
    pub fn cargo_target(&self) -> PathBuf {
        self.build.join("cargo-kmod")
    }

    /// The folder for target files.
    pub fn targets(&self) -> PathBuf {
        self.build.join("targets")
    }
}

fn is_library(target: &Target) -> bool {
    use TargetKind::{CDyLib, DyLib, Lib, RLib, StaticLib};
    target.kind.iter().any(|kind| matches!(kind, Lib | RLib | StaticLib | CDyLib | DyLib))
}

/// Returns the name of the package that is the companion of a package on illumos.
pub fn companion_of(package: &str) -> String {
    format!("{package}-dtrace")
}

/// Returns the packages with a path that are not below `root`. If cargo cannot list them, its build reports why.
fn outside(folder: &Path, root: &Path) -> Vec<Outside> {
    let Ok(metadata) = MetadataCommand::new().current_dir(folder).exec() else { return Vec::new() };
    let local = metadata.packages.into_iter().filter(|package| package.source.is_none());
    let outside = local.filter_map(|package| {
        let folder = package.manifest_path.parent()?.as_std_path().to_owned();
        let name = format!("{}-{}", package.name, package.version);
        (!folder.starts_with(root)).then_some(Outside { folder, name })
    });
    outside.collect()
}

fn pick<'m>(
    metadata: &'m Metadata,
    folder: &Path,
    named: Option<&str>,
) -> Result<&'m Package, ProjectError> {
    let packages = metadata.workspace_packages();
    let names = || packages.iter().map(|package| package.name.to_string()).collect();
    let root = || metadata.workspace_root.clone().into_std_path_buf();
    if let Some(named) = named {
        let found = packages.iter().find(|package| package.name == named);
        return found.copied().ok_or_else(|| ProjectError::NoSuchPackage {
            package: named.into(),
            root: root(),
            others: names(),
        });
    }
    // Like cargo: the innermost package that contains the folder.
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let around = |package: &&&Package| {
        let own = package.manifest_path.parent().map(|own| own.as_std_path());
        own.is_some_and(|own| folder.starts_with(own))
    };
    let depth = |package: &&&Package| package.manifest_path.components().count();
    if let Some(package) = packages.iter().filter(around).max_by_key(depth) {
        return Ok(package);
    }
    match packages.as_slice() {
        [only] => Ok(only),
        _ => Err(ProjectError::WhichPackage { root: root(), packages: names() }),
    }
}

#[cfg(test)]
#[path = "../tests/unit/project.rs"]
mod tests;
