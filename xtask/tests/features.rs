//! The features and options with which cargo compiles crates for the tests: the same everywhere, so that cargo compiles no crate
//! twice.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::process::Command;
use std::time::Duration;

use cargo_sdt::internal::arch::Arch;
use cargo_sdt::internal::process;
use harness::{setup, workspace};
use serde_json::Value;
use xtask::cmd::test::documented;

const LIMIT: Duration = Duration::from_secs(60);

/// Returns what a command of cargo would compile.
fn units(cargo: &mut Command) -> Vec<Value> {
    cargo.args(["--unit-graph", "-Zunstable-options"]).env("RUSTC_BOOTSTRAP", "1");
    let written = process::run(cargo, LIMIT).unwrap_or_else(|error| panic!("{error}"));
    let graph: Value = serde_json::from_slice(&written.stdout).expect("a graph of units");
    graph["units"].as_array().expect("a list of units").clone()
}

/// What cargo compiles for a command: each crate with its features and its dependencies, by a number. Two crates have the same
/// number if cargo compiles them once for both.
type Crates = BTreeMap<u64, Crate>;

struct Crate {
    package: String,
    described: String,
    dependencies: Vec<u64>,
}

/// Returns the crates that cargo compiles or checks for these arguments.
fn crates(args: &[&str]) -> Crates {
    let mut cargo = Command::new(env!("CARGO"));
    process::clean_cargo_env(&mut cargo).current_dir(workspace::root()).args(args);
    let units = units(&mut cargo);
    let mut numbers = vec![None; units.len()];
    let mut crates = Crates::new();
    for index in 0..units.len() {
        number(index, &units, &mut numbers, &mut crates);
    }
    crates
}

/// Adds a unit and its dependencies to the crates; returns its number.
fn number(
    index: usize,
    units: &[Value],
    numbers: &mut [Option<u64>],
    crates: &mut Crates,
) -> Option<u64> {
    let unit = &units[index];
    if unit["mode"] != "build" && unit["mode"] != "check" {
        return None;
    }
    if numbers[index].is_none() {
        let edges = unit["dependencies"].as_array().expect("a list of dependencies");
        let indices = edges.iter().map(|edge| edge["index"].as_u64().expect("an index") as usize);
        let mut of: Vec<_> =
            indices.filter_map(|index| number(index, units, numbers, crates)).collect();
        of.sort_unstable();
        let package = unit["pkg_id"].as_str().expect("the package of a unit").to_owned();
        let itself =
            format!("{package} {} {} {}", unit["mode"], unit["target"]["name"], unit["features"]);
        let mut profile = unit["profile"].clone();
        // Cargo compiles a crate once for both profiles.
        profile["name"] = Value::Null;
        let mut hasher = DefaultHasher::new();
        (&itself, unit["target"]["kind"].to_string(), profile.to_string(), &of).hash(&mut hasher);
        let names = of.iter().map(|number| &*crates[number].described);
        let names: Vec<_> = names.filter_map(|text| text.lines().next()).collect();
        let described = format!("{itself}\n    with {}", names.join("\n    with "));
        let it = hasher.finish();
        crates.insert(it, Crate { package, described, dependencies: of });
        numbers[index] = Some(it);
    }
    numbers[index]
}

/// Panics if cargo compiles one of the selected crates for `args` in another way than for `others`. Lists only crates whose
/// dependencies are the same, because a crate that depends on them follows.
fn are_those_of(others: &[&str], args: &[&str], selected: impl Fn(&Crate) -> bool) {
    let all = crates(others);
    let crates = crates(args);
    let (same, other): (Vec<_>, Vec<_>) = crates
        .iter()
        .filter(|(_, of)| selected(of))
        .partition(|(number, _)| all.contains_key(number));
    assert!(!same.is_empty(), "cargo {} compiles nothing", args.join(" "));
    let first =
        other.iter().filter(|(_, of)| of.dependencies.iter().all(|of| all.contains_key(of)));
    let first: Vec<_> = first.map(|(_, of)| &*of.described).collect();
    assert!(
        other.is_empty(),
        "compiled a second time for cargo {}:\n{}",
        args.join(" "),
        first.join("\n")
    );
}

#[test]
fn xtask_has_the_features_of_the_workspace() {
    are_those_of(&tests(), &["build", "--package", "xtask"], |_| true);
}

/// The step compiles the crates of this workspace again, with optimisation.
#[test]
fn optimised_tests_have_the_features_of_the_workspace() {
    let args = ["test", "--package", "sdt-core", "--package", "sdt-framework"];
    are_those_of(&tests(), &args, |of| of.package.starts_with("registry+"));
}

/// docs/d.md builds one program with options of rustc. Cargo takes them for one package only.
#[test]
fn the_program_of_a_guide_has_the_features_of_the_workspace() {
    are_those_of(&tests(), &["rustc", "--package", "sdt-process", "--example", "shop"], |_| true);
}

#[test]
fn documentation_has_the_features_of_clippy() {
    let args = [&["doc", "--no-deps"], &documented()[..]].concat();
    are_those_of(&["check", "--workspace", "--all-targets"], &args, |_| true);
}

/// The arguments of cargo that compile all tests.
fn tests() -> Vec<&'static str> {
    [&["test"], &workspace::TESTED[..]].concat()
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
