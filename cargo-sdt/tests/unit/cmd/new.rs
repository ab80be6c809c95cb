//! Tests of `src/cmd/new.rs`.

use clap::Parser;

use super::*;

#[derive(Debug, Parser)]
struct Cli {
    #[command(flatten)]
    args: Args,
}

#[test]
fn a_missing_system_is_an_error_with_the_values() {
    let error = Cli::try_parse_from(["new", "x"]).unwrap_err().to_string();
    assert!(error.contains("--os <freebsd|illumos>"), "{error}");
    let error = Cli::try_parse_from(["new", "--os", "linux", "x"]).unwrap_err().to_string();
    assert!(error.contains("supported are modules for freebsd and illumos"), "{error}");
    assert!(error.contains("sdt-process"), "{error}");
}

#[test]
fn sdt_core_is_that_of_the_installation_unless_given() {
    let given = |arguments: &[&str]| {
        let line = ["new", "--os", "freebsd", "x"].iter().chain(arguments);
        Cli::parse_from(line).args.sdt_core().unwrap()
    };
    assert_eq!(given(&["--sdt-core", "0.1"]), SdtCore::Version("0.1".into()));
    let SdtCore::Folder(folder) = given(&[]) else { panic!("a folder") };
    assert!(folder.ends_with("sdt-core") && folder.join("Cargo.toml").is_file());
}
