//! The features and options with which cargo compiles crates for the tests: the same everywhere, so that cargo compiles no crate
//! twice.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use cargo_sdt::internal::arch::Arch;
use cargo_sdt::internal::process;
use harness::{setup, workspace};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(60);

/// Returns what a command of cargo would compile.
fn units(cargo: &mut Command) -> Vec<Value> {
    cargo.args(["--unit-graph", "-Zunstable-options"]).env("RUSTC_BOOTSTRAP", "1");
    let written = process::run(cargo, LIMIT).unwrap_or_else(|error| panic!("{error}"));
    let graph: Value = serde_json::from_slice(&written.stdout).expect("a graph of units");
    graph["units"].as_array().expect("a list of units").clone()
}

/// Returns each crate of the registry that cargo compiles for these arguments, with its features.
fn crates(args: &[&str]) -> BTreeSet<String> {
    let mut cargo = Command::new(env!("CARGO"));
    process::clean_cargo_env(&mut cargo).current_dir(workspace::root()).args(args);
    let units = units(&mut cargo);
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

/// Modules of other projects have other folders in their options.
#[test]
fn macros_and_core_have_no_options_of_the_project() {
    let module = workspace::example(Arch::X86_64);
    let toolchain = setup::toolchain(module.arch).unwrap();
    let flags = toolchain.project_flags();
    let mut cargo = toolchain.cargo("build", "core");
    cargo.args(["--release", "--package", &module.package]);
    cargo.arg("--target").arg(module.target(&toolchain).unwrap());
    module.configure(&mut cargo, &flags);
    let has_flags = |unit: &Value| {
        let options = unit["profile"]["rustflags"].as_array().cloned().unwrap_or_default();
        flags.iter().all(|flag| options.contains(&Value::from(flag.as_str())))
    };
    let mut shared = BTreeSet::new();
    for unit in units(&mut cargo).iter().filter(|unit| unit["mode"] == "build") {
        let name = unit["target"]["name"].as_str().expect("the name of a crate");
        // This is the build script of sdt-core, whose folder is another one in other projects.
        if name == "build-script-build" {
            continue;
        }
        let is_shared = unit["platform"].is_null() || ["core", "compiler_builtins"].contains(&name);
        assert_eq!(has_flags(unit), !is_shared, "{name}");
        shared.extend(is_shared.then(|| name.to_owned()));
    }
    for name in ["core", "sdt_macros", "syn"] {
        assert!(shared.contains(name), "{name}");
    }
}
