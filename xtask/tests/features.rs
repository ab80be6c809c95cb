//! The features with which cargo compiles `cargo xtask`, and the step `optimised`: those of all other tests, so that cargo compiles
//! no crate twice.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use cargo_sdt::internal::process;
use harness::workspace;
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(60);

/// Returns each crate of others that cargo compiles for these arguments, with its features.
fn crates(args: &[&str]) -> BTreeSet<String> {
    let mut cargo = Command::new(env!("CARGO"));
    process::clean_cargo_env(&mut cargo).current_dir(workspace::root());
    cargo.args(args).args(["--unit-graph", "-Zunstable-options"]).env("RUSTC_BOOTSTRAP", "1");
    let written = process::run(&mut cargo, LIMIT).unwrap_or_else(|error| panic!("{error}"));
    let graph: Value = serde_json::from_slice(&written.stdout).expect("a graph of units");
    let units = graph["units"].as_array().expect("a list of units");
    let of_others = units.iter().filter(|unit| {
        let package = unit["pkg_id"].as_str().expect("the package of a unit");
        unit["mode"] == "build" && package.starts_with("registry+")
    });
    of_others.map(|unit| format!("{} {}", unit["pkg_id"], unit["features"])).collect()
}

/// Panics if `args` compile a crate with other features than all other tests.
fn are_those_of_the_workspace(args: &[&str]) {
    let all = crates(&[&["test"], &workspace::TESTED[..]].concat());
    let other: Vec<_> = crates(args).difference(&all).cloned().collect();
    assert!(other.is_empty(), "compiled a second time for cargo {}: {other:#?}", args.join(" "));
}

#[test]
fn xtask_has_the_features_of_the_workspace() {
    are_those_of_the_workspace(&["build", "--package", "xtask"]);
}

#[test]
fn optimised_tests_have_the_features_of_the_workspace() {
    are_those_of_the_workspace(&["test", "--package", "sdt-core", "--package", "sdt-framework"]);
}
