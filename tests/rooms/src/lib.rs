//! Reads the source of the workspace's crates: which file imports which, which items are public, and which messages they print.
//!
//! The source is read without a compiler: every module is seen, those of other systems and architectures too. Items that
//! a macro makes are not seen.

pub mod circle;
pub mod imports;
pub mod messages;
pub mod public;
pub mod tree;

use std::path::PathBuf;

use cargo_metadata::{MetadataCommand, TargetKind};

/// A crate of the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// The file of its root module: `lib.rs`, or `main.rs` of a package without a library.
    pub root: PathBuf,
    /// The files of the root modules of its other programs: binaries and the build script.
    pub programs: Vec<PathBuf>,
    /// Whether it has a library that is published.
    pub is_published: bool,
}

/// Returns all crates of the workspace, in order of their names.
///
/// # Panics
/// If cargo cannot list them.
pub fn packages() -> Vec<Package> {
    let mut command = MetadataCommand::new();
    command.manifest_path(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).no_deps();
    let metadata = command.exec().expect("cargo lists the workspace");
    let package = |package: cargo_metadata::Package| {
        let is = |kinds: &'static [TargetKind]| {
            package.targets.iter().find(|of| of.kind.iter().any(|kind| kinds.contains(kind)))
        };
        let library = is(&[
            TargetKind::Lib,
            TargetKind::ProcMacro,
            TargetKind::RLib,
            TargetKind::StaticLib,
            TargetKind::CDyLib,
        ]);
        let root: PathBuf = library.or(is(&[TargetKind::Bin]))?.src_path.clone().into();
        let is_program = |of: &&cargo_metadata::Target| {
            of.kind.iter().any(|kind| matches!(kind, TargetKind::Bin | TargetKind::CustomBuild))
        };
        let programs = package.targets.iter().filter(is_program);
        let programs = programs.map(|of| of.src_path.clone().into()).filter(|of| *of != root);
        Some(Package {
            name: package.name.to_string(),
            programs: programs.collect(),
            root,
            // `publish = true` leaves out the list of registries.
            is_published: library.is_some() && package.publish.is_none(),
        })
    };
    let mut packages: Vec<_> = metadata.packages.into_iter().filter_map(package).collect();
    packages.sort_by(|a, b| a.name.cmp(&b.name));
    packages
}
