//! Tests of `src/cmd/kmod.rs`.

use super::*;
use crate::project::Project;
use crate::settings::Settings;
use clap::Parser;

#[derive(Debug, Parser)]
struct Cli {
    #[command(flatten)]
    args: Args,
}

fn module(line: &str, settings: Settings) -> anyhow::Result<Module> {
    Ok(module_in(&Environment::default(), line, settings)?.0)
}

fn module_in(
    environment: &Environment,
    line: &str,
    settings: Settings,
) -> anyhow::Result<(Module, Vec<String>)> {
    let project = Project::new("/project".into(), "/project/build".into());
    let line = ["kmod"].into_iter().chain(line.split_whitespace());
    let found = Found { project, package: "driver".into(), settings, has_companion: false };
    Cli::parse_from(line).args.module(found, environment)
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    let module = |line: &str| module(line, Settings::default());
    assert_eq!(module("--freebsd 14").unwrap().freebsd.major(), 14);
    assert_eq!(module("--os illumos").unwrap().freebsd, FreeBsd::default());
    for release in ["14", "15"] {
        let error = module(&format!("--os illumos --freebsd {release}")).unwrap_err();
        let expected = format!("--freebsd {release} and --os illumos exclude each other");
        assert!(error.to_string().starts_with(&expected), "{error}");
    }
}

#[test]
fn the_manifest_is_heeded_where_no_option_says_other() {
    let settings = || Settings {
        os: Some(Os::FreeBsd),
        freebsd: "13".parse().ok(),
        route: Some(Route::Provider),
        patch: Some(Patch::Jump),
        features: vec!["a".into()],
        default_features: Some(false),
        module: Some("name".into()),
        arch: Some(Arch::Aarch64),
    };
    let plain = module("", settings()).unwrap();
    assert_eq!((plain.os, plain.freebsd.major(), plain.arch), (Os::FreeBsd, 13, Arch::Aarch64));
    assert_eq!((plain.route, plain.patch), (Route::Provider, Some(Patch::Jump)));
    assert_eq!((plain.features, plain.default_features), (vec!["a".to_owned()], false));
    assert_eq!(plain.name.as_deref(), Some("name"));

    let other = module("--freebsd 14 --route native --features b --arch amd64", settings());
    let other = other.unwrap();
    assert_eq!((other.freebsd.major(), other.route, other.patch), (14, Route::Native, None));
    assert_eq!((other.features.len(), other.arch), (2, Arch::X86_64));

    let illumos = module("--os illumos --arch amd64", settings()).unwrap();
    assert_eq!((illumos.os, illumos.freebsd), (Os::Illumos, FreeBsd::default()));
}

#[test]
fn the_environment_is_before_the_manifest_and_says_so() {
    let environment = Environment::said(&[
        ("SDT_FREEBSD", "14"),
        ("SDT_ROUTE", "provider"),
        ("SDT_PATCH", "jump"),
    ]);
    let settings = || Settings { freebsd: "13".parse().ok(), ..Settings::default() };
    let build = |line| module_in(&environment, line, settings()).unwrap();
    let (module, notes) = build("");
    assert_eq!(
        (module.freebsd.major(), module.route, module.patch),
        (14, Route::Provider, Some(Patch::Jump))
    );
    assert_eq!(
        notes,
        [
            "using SDT_FREEBSD=14 of the environment, and overrides 13 of the manifest",
            "using SDT_ROUTE=provider of the environment",
            "using SDT_PATCH=jump of the environment",
        ]
    );
    // Options override both, and an environment variable without effect causes no note.
    let (module, notes) = build("--os illumos --route provider --patch gate");
    assert_eq!((module.freebsd, module.patch), (FreeBsd::default(), Some(Patch::Gate)));
    assert_eq!(notes, [""; 0]);
    let environment = Environment::said(&[("SDT_FREEBSD", "13"), ("SDT_ROUTE", "native")]);
    assert_eq!(module_in(&environment, "", settings()).unwrap().1, [""; 0], "what all agree in");
    let environment = Environment::said(&[("SDT_FREEBSD", "9")]);
    assert!(module_in(&environment, "", settings()).is_err());
}

#[test]
fn patch_on_the_native_route_is_an_error_that_names_the_remedy() {
    let refused = |environment: &Environment, line: &str, settings: Settings| {
        module_in(environment, line, settings).unwrap_err().to_string()
    };
    let gate = ("SDT_PATCH", "gate");
    for said in [&[gate][..], &[gate, ("SDT_ROUTE", "native")]] {
        let environment = Environment::said(said);
        for line in ["", "--route native", "--os illumos"] {
            let error = refused(&environment, line, Settings::default());
            assert!(error.starts_with("SDT_PATCH=gate of the environment requires "), "{error}");
            assert!(error.ends_with("; unset SDT_PATCH, or use --route provider"), "{error}");
        }
        assert!(module_in(&environment, "--route provider", Settings::default()).is_ok());
    }
    let settings = || Settings { patch: Some(Patch::Jump), ..Settings::default() };
    let nothing = Environment::default();
    let error = refused(&nothing, "", settings());
    assert!(error.starts_with("patch = \"jump\" of [package.metadata.sdt] requires "), "{error}");
    assert!(module_in(&nothing, "--route native", settings()).is_ok(), "the option decides");
}
