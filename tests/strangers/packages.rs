//! Creates the published packages, unpacks them to a folder outside of the workspace, and builds cargo-sdt from them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use cargo_metadata::{Metadata, MetadataCommand, Package};
use cargo_sdt::internal::process::{self, clean_cargo_env};
use harness::workspace;
use tempfile::TempDir;

/// Cargo builds cargo-sdt from nothing, and it may be alone on a slow machine.
pub const LIMIT: Duration = Duration::from_secs(1200);

/// The unpacked packages, and the program that was built from them.
#[derive(Debug)]
pub struct Packages {
    /// A folder outside of the workspace, in which cargo uses these packages instead of the registry's.
    folder: TempDir,
    /// The folder of each package, by its name.
    unpacked: BTreeMap<String, PathBuf>,
    /// The folder with the program cargo-sdt.
    bin: PathBuf,
}

impl Packages {
    /// The packages of this workspace, made once for all tests of this program.
    pub fn made() -> &'static Self {
        static PACKAGES: OnceLock<Packages> = OnceLock::new();
        PACKAGES.get_or_init(Self::make)
    }

    fn make() -> Self {
        let published = published();
        let build = workspace::build_dir().join("strangers");
        let mut package = cargo(workspace::root());
        // Uncommitted changes are included. The tests compile the packages after unpacking.
        package.args(["package", "--no-verify", "--allow-dirty", "--quiet", "--target-dir"]);
        package.arg(&build);
        for package_of in &published {
            package.args(["--package", &package_of.name]);
        }
        run(&mut package);

        let folder = tempfile::tempdir().expect("a folder");
        let mut unpacked = BTreeMap::new();
        for Package { name, version, .. } in &published {
            let file = build.join("package").join(format!("{name}-{version}.crate"));
            run(Command::new("tar").arg("xzf").arg(file).arg("-C").arg(folder.path()));
            let place = folder.path().join(format!("{name}-{version}"));
            unpacked.insert(name.to_string(), place);
        }
        // These replace the registry for packages that are not published yet.
        let patches =
            unpacked.iter().map(|(name, place)| format!("{name} = {{ path = {place:?} }}\n"));
        // Modules find the macros and the standard library that the modules of the workspace are built with.
        let build_dir = workspace::project().cargo_target();
        let config = format!(
            "build.build-dir = {build_dir:?}\n[patch.crates-io]\n{}",
            patches.collect::<String>()
        );
        let cargo_folder = folder.path().join(".cargo");
        std::fs::create_dir(&cargo_folder).expect("a folder for cargo's configuration");
        std::fs::write(cargo_folder.join("config.toml"), config).expect("it is written");

        for place in unpacked.values() {
            let mut command = cargo(place);
            command.args(["build", "--quiet"]).envs(quickly());
            run(&mut command);
        }
        let bin = folder.path().join("bin");
        std::fs::create_dir(&bin).expect("a folder for the program");
        let program = target().join("debug/cargo-sdt");
        std::fs::copy(program, bin.join("cargo-sdt")).expect("it was built");
        Self { folder, unpacked, bin }
    }

    /// Returns a folder outside of the workspace, in which cargo uses these packages instead of the registry's.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The folder in which the modules and their dependencies are built.
    pub fn target(&self) -> PathBuf {
        self.folder().join("target")
    }

    /// `cargo sdt ARGUMENTS`, as a stranger runs it in a folder. Returns what it prints, standard output first.
    pub fn cargo_sdt(&self, folder: &Path, arguments: &[&str]) -> (String, String) {
        let mut command = cargo(folder);
        command.arg("sdt").args(arguments);
        command.env("PATH", self.path()).env("CARGO_TARGET_DIR", self.target());
        let written = process::run(&mut command, LIMIT).unwrap_or_else(|error| panic!("{error}"));
        (String::from_utf8(written.stdout).expect("paths of UTF-8"), written.stderr)
    }

    /// `PATH`, with the program in front.
    pub fn path(&self) -> std::ffi::OsString {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let all = std::iter::once(self.bin.clone()).chain(std::env::split_paths(&path));
        std::env::join_paths(all).expect("folders without colons")
    }
}

/// The folder in which all tests build tools.
fn target() -> PathBuf {
    workspace::build_dir().join("strangers/target")
}

/// Returns cargo's options for a fast build of tools that need not be fast. It reuses crates of others that the
/// workspace has built already with the same features.
pub fn quickly() -> [(&'static str, String); 3] {
    [
        ("CARGO_TARGET_DIR", target().display().to_string()),
        ("CARGO_BUILD_BUILD_DIR", workspace::root().join("target").display().to_string()),
        ("CARGO_PROFILE_DEV_DEBUG", "false".to_owned()),
    ]
}

/// Returns the packages of the workspace that are published.
fn published() -> Vec<Package> {
    let packages = metadata().packages.into_iter();
    // `publish = false` is an empty list of registries.
    packages.filter(|package| package.publish.as_ref().is_none_or(|to| !to.is_empty())).collect()
}

fn metadata() -> Metadata {
    let mut command = MetadataCommand::new();
    command.current_dir(workspace::root()).no_deps().exec().expect("cargo knows the workspace")
}

/// Returns the cargo that runs this test, with the environment of a shell in a folder.
pub fn cargo(folder: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    clean_cargo_env(&mut command).current_dir(folder);
    // As if run by rustup's own cargo. Otherwise rustup follows the toolchain files in some packages of others.
    command.envs(workspace::settings());
    command
}

fn run(command: &mut Command) {
    if let Err(error) = process::run(command, LIMIT) {
        panic!("{error}");
    }
}

#[test]
fn each_says_what_the_registry_shows() {
    let published = published();
    let names: Vec<_> = published.iter().map(|package| package.name.to_string()).collect();
    for name in [
        "cargo-sdt",
        "dtrace-consumer",
        "dtrace-abi",
        "dtrace-compiler",
        "dtrace-protocol",
        "sdt-build",
        "sdt-core",
        "sdt-framework",
        "sdt-macros",
        "sdt-process",
        "sdt-tracing",
    ] {
        assert!(names.iter().any(|of| of == name), "{name} is not published");
    }
    for package in &published {
        let name = &package.name;
        let said = [
            ("description", package.description.is_some()),
            ("license", package.license.as_deref() == Some("MIT OR Apache-2.0")),
            ("readme", package.readme.is_some()),
            ("documentation", package.documentation.is_some()),
            ("rust-version", package.rust_version.is_some()),
            ("keywords", !package.keywords.is_empty() && package.keywords.len() <= 5),
            ("categories", !package.categories.is_empty() && package.categories.len() <= 5),
        ];
        for (what, good) in said {
            assert!(good, "{what} of {name}");
        }
        // Its dependencies are published, too, with the same version: the packages are parts of one release.
        for dependency in package.dependencies.iter().filter(|of| of.path.is_some()) {
            if dependency.kind == cargo_metadata::DependencyKind::Development {
                continue;
            }
            assert!(names.contains(&dependency.name), "{name} depends on {}", dependency.name);
            let expected = format!("={}", package.version);
            assert_eq!(dependency.req.to_string(), expected, "{} of {name}", dependency.name);
        }
    }
}

#[test]
fn all_can_be_published_together() {
    let mut publish = cargo(workspace::root());
    // The other tests compile the packages.
    publish.args([
        "publish",
        "--dry-run",
        "--no-verify",
        "--allow-dirty",
        "--quiet",
        "--target-dir",
    ]);
    publish.arg(workspace::build_dir().join("strangers/publish"));
    for package in published() {
        publish.args(["--package", &package.name]);
    }
    run(&mut publish);
}

#[test]
fn each_has_its_licences_and_its_readme() {
    for (name, place) in &Packages::made().unpacked {
        for file in ["LICENSE-MIT", "LICENSE-APACHE", "README.md", "Cargo.toml"] {
            let file = place.join(file);
            let found = file.symlink_metadata().unwrap_or_else(|error| panic!("{file:?}: {error}"));
            assert!(found.is_file() && found.len() > 0, "{file:?} of {name}");
        }
    }
}
