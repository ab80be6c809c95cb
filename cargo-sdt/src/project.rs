//! The cargo workspace that a module is built in, and the module's settings in its manifest.

use std::path::{Path, PathBuf};

use cargo_metadata::{Metadata, MetadataCommand, Package};

use crate::settings::{Settings, SettingsError};

/// Where cargo runs, and where all that is made for kernels goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    root: PathBuf,
    build: PathBuf,
    outside: Vec<Outside>,
}

/// A package on this machine that is not below the workspace's root folder, but is a part of what is built there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outside {
    /// Where it is.
    pub folder: PathBuf,
    /// Its name and its version: `sdt-core-0.1.0`.
    pub name: String,
}

/// Why a folder is not one that a module can be built in.
#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    /// Cargo does not know what is there.
    #[error("cargo cannot read the project: {0}")]
    Metadata(#[from] cargo_metadata::Error),
    /// The workspace has no such package.
    #[error("there is no package {package} in {}; there are {}", .root.display(), .others.join(", "))]
    NoSuchPackage {
        /// The package.
        package: String,
        /// The workspace's root folder.
        root: PathBuf,
        /// Its packages.
        others: Vec<String>,
    },
    /// No package was named, and there are several.
    #[error("{} has several packages: say which with --package ({})", .root.display(), .packages.join(", "))]
    WhichPackage {
        /// The workspace's root folder.
        root: PathBuf,
        /// Its packages.
        packages: Vec<String>,
    },
    /// What the manifest says of the module cannot be understood.
    #[error(transparent)]
    Settings(#[from] SettingsError),
}

/// A package that is to be a module: where, its name, and what its manifest says of it.
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
    /// The workspace whose root folder is `root`; what is made goes below `build`.
    pub const fn new(root: PathBuf, build: PathBuf) -> Self {
        Self { root, build, outside: Vec::new() }
    }

    /// The package of this name in the workspace that `folder` is in; without a name, that of `folder`, or the
    /// workspace's only one. What is made goes to `sdt/` in cargo's target folder.
    ///
    /// # Errors
    /// There is no workspace or no such package, or its settings cannot be understood.
    pub fn find(folder: &Path, package: Option<&str>) -> Result<Found, ProjectError> {
        let metadata = MetadataCommand::new().current_dir(folder).no_deps().exec()?;
        let root = metadata.workspace_root.clone().into_std_path_buf();
        let build = metadata.target_directory.as_std_path().join("sdt");
        let package = pick(&metadata, folder, package)?;
        let settings = Settings::read(&package.name, &package.metadata)?;
        let companion = companion_of(&package.name);
        let has_companion = metadata.packages.iter().any(|of| of.name == companion);
        let outside = outside(folder, &root);
        let project = Self { root, build, outside };
        Ok(Found { project, package: package.name.to_string(), settings, has_companion })
    }

    /// Packages elsewhere on this machine that it depends on by their paths.
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

    /// Cargo's target folder for everything that is compiled for kernels: one, so that macros and `core` are compiled once.
    pub fn cargo_target(&self) -> PathBuf {
        self.build.join("cargo-kmod")
    }

    /// The folder for target files.
    pub fn targets(&self) -> PathBuf {
        self.build.join("targets")
    }
}

/// The name of the package that is the companion of another on illumos.
pub fn companion_of(package: &str) -> String {
    format!("{package}-dtrace")
}

/// Packages with a path that are not below `root`. Where cargo cannot say, it will say why when it builds.
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
    // As cargo has it: the innermost package that the folder is in.
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
