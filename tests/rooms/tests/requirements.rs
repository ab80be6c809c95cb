//! A published crate requires the versions that the tests run with, so that its users do not get older versions that were not
//! tested.

use cargo_metadata::{MetadataCommand, Package, PackageId};

#[test]
fn published_crates_require_the_versions_they_are_tested_with() {
    let mut command = MetadataCommand::new();
    command.manifest_path(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
    command.other_options(["--locked".to_string()]);
    let metadata = command.exec().expect("cargo resolves the workspace");
    let nodes = &metadata.resolve.as_ref().expect("the dependencies are resolved").nodes;
    let published = |package: &&&Package| package.publish.is_none();
    let mut checked = 0;
    let mut wrong = Vec::new();
    for package in metadata.workspace_packages().iter().filter(published) {
        let node = nodes.iter().find(|node| node.id == package.id).expect("a node of the package");
        let resolved: Vec<&PackageId> =
            node.deps.iter().map(|dependency| &dependency.pkg).collect();
        for required in package.dependencies.iter().filter(|of| of.source.is_some()) {
            let tested = resolved
                .iter()
                .map(|id| &metadata[id])
                .find(|of| of.name == required.name && required.req.matches(&of.version));
            let Some(tested) = tested else { continue };
            let cargo_metadata::semver::Version { major, minor, patch, .. } = tested.version;
            let version = format!("^{major}.{minor}.{patch}");
            checked += 1;
            if required.req.to_string() != version {
                wrong.push(format!(
                    "{}: {} {}, tested with {version}",
                    package.name, required.name, required.req
                ));
            }
        }
    }
    assert!(checked > 30, "{checked}");
    wrong.sort();
    wrong.dedup();
    assert!(
        wrong.is_empty(),
        "write these versions into the workspace's Cargo.toml:\n{}",
        wrong.join("\n")
    );
}
