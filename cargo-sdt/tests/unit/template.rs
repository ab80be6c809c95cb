//! Tests of `src/template.rs`.

use super::*;
use crate::settings::Settings;

fn template(os: Os) -> Template {
    Template {
        name: Name::new("my-driver", os).unwrap(),
        os,
        freebsd: "14".parse().unwrap(),
        route: Route::Provider,
        sdt_core: SdtCore::Version("0.1.0".into()),
    }
}

#[test]
fn names_are_what_all_of_them_take() {
    for name in ["x", "my-driver", "my_driver", "em2", &"n".repeat(24)] {
        for os in [Os::FreeBsd, Os::Illumos] {
            assert!(Name::new(name, os).is_ok(), "{name}");
        }
    }
    let refused = |name: &str, os| Name::new(name, os).unwrap_err().to_string();
    for (name, reason) in [
        ("", "it must begin with a letter from a to z"),
        ("9p", "it must begin with a letter from a to z"),
        ("_x", "it must begin with a letter from a to z"),
        ("../x", "it must begin with a letter from a to z"),
        ("a/b", "it can contain letters from a to z, digits, `-` and `_`, but not '/'"),
        ("Driver", "it must begin with a letter from a to z"),
        ("grün", "it can contain letters from a to z, digits, `-` and `_`, but not 'ü'"),
        ("match", "it is a keyword of Rust"),
        ("sdt-core", "every module contains a crate of that name"),
        ("tests", "the new crate has a module of that name"),
        ("by-hand", "the new crate has a module of that name"),
        ("debug", "FreeBSD has a sysctl node of that name"),
        ("fbt", "the kernel or DTrace uses that name"),
        ("dtrace-x", "fbt skips functions that begin with `dtrace_`"),
    ] {
        let expected = format!("`{name}` cannot be a module's name: {reason}");
        assert_eq!(refused(name, Os::FreeBsd), expected);
    }
    assert!(refused("tcp", Os::Illumos).ends_with("and would list the probes under it"));
    let long = "n".repeat(25);
    assert!(Name::new(&long, Os::FreeBsd).is_ok());
    assert!(refused(&long, Os::Illumos).ends_with("it has 25 bytes, and illumos shows only 24"));
    assert!(refused(&"n".repeat(32), Os::FreeBsd).ends_with("freebsd shows only 31"));
}

#[test]
fn nothing_of_the_template_is_left() {
    for os in [Os::FreeBsd, Os::Illumos] {
        for (place, text) in template(os).files() {
            for left in [IDENTIFIER, PACKAGE, SDT_CORE] {
                assert!(!text.contains(left), "{left} in {place}");
            }
        }
    }
}

#[test]
fn the_manifest_says_what_was_chosen() {
    let folder = tempfile::tempdir().unwrap();
    let settings = |os| {
        let crate_folder = folder.path().join(os);
        let template = template(if os == "illumos" { Os::Illumos } else { Os::FreeBsd });
        template.write_to(&crate_folder).unwrap();
        let metadata = MetadataCommand::new()
            .manifest_path(crate_folder.join("Cargo.toml"))
            .no_deps()
            .exec()
            .unwrap();
        let package = metadata.packages.iter().find(|of| of.name == "my-driver").unwrap();
        assert_eq!(package.dependencies[0].req.to_string(), "^0.1.0");
        (metadata.packages.len(), Settings::read("", &package.metadata).unwrap())
    };
    let expected = Settings {
        os: Some(Os::FreeBsd),
        freebsd: "14".parse().ok(),
        route: Some(Route::Provider),
        ..Settings::default()
    };
    assert_eq!(settings("freebsd"), (1, expected.clone()));
    let expected = Settings { os: Some(Os::Illumos), freebsd: None, ..expected };
    assert_eq!(settings("illumos"), (2, expected), "with its companion");
}

#[test]
fn what_is_there_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("my-driver");
    std::fs::write(&file, "mine").unwrap();
    let error = template(Os::FreeBsd).write_to(&file).unwrap_err();
    assert!(matches!(error, NewError::Exists(_)), "{error}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    let below = file.join("x");
    let error = template(Os::FreeBsd).write_to(&below).unwrap_err();
    assert!(matches!(error, NewError::Write { .. }), "{error}");
}

#[test]
fn sdt_core_is_looked_for_where_it_is_said_to_be() {
    let said = |text: &str| text.parse::<SdtCore>();
    for version in ["0.1", "=0.1.0", "^1"] {
        assert_eq!(said(version), Ok(SdtCore::Version(version.into())));
    }
    let url = "https://example.org/sdt.git";
    assert_eq!(said(url), Ok(SdtCore::Git(url.into())));
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_str().unwrap();
    let expected = format!("there is no sdt-core in {place}: it has no Cargo.toml");
    assert_eq!(said(place).unwrap_err().to_string(), expected);
    let package = |name: &str| {
        std::fs::create_dir_all(folder.path().join("src")).unwrap();
        std::fs::write(folder.path().join("src/lib.rs"), "").unwrap();
        let manifest = format!("[package]\nname = \"{name}\"\nedition = \"2024\"\n[workspace]\n");
        std::fs::write(folder.path().join("Cargo.toml"), manifest).unwrap();
    };
    package("another");
    let expected = format!("there is no sdt-core in {place}: it is another package");
    assert_eq!(said(place).unwrap_err().to_string(), expected);
    package("sdt-core");
    let found = said(place).unwrap();
    assert_eq!(found.to_string(), format!("{{ path = {place:?} }}"));
    let repository = tempfile::tempdir().unwrap();
    let [core, program] = ["sdt-core", "cargo-sdt"].map(|name| repository.path().join(name));
    assert_eq!(SdtCore::beside(&program), None, "it no longer exists");
    std::fs::rename(folder.path(), &core).unwrap();
    assert_eq!(SdtCore::beside(&program), Some(SdtCore::Folder(core)));
}
