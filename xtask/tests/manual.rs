//! The manual page of `dtrace` is correct mdoc: mandoc and groff have no warning for it.

use std::process::Command;

use cargo_sdt::internal::setup;
use harness::workspace;

/// Runs a formatter on the manual page; returns its messages.
fn messages(program: &str, package: &str, arguments: &[&str]) -> String {
    setup::program(program, package).unwrap_or_else(|error| panic!("{program}: {error}"));
    let page = workspace::root().join("docs/dtrace.1");
    let output = Command::new(program).args(arguments).arg(page).output().expect("it runs");
    assert!(output.status.success(), "{program}: {output:?}");
    let text = if arguments.contains(&"lint") { output.stdout } else { output.stderr };
    String::from_utf8(text).expect("messages are text")
}

#[test]
fn mandoc_has_no_warning() {
    assert_eq!(messages("mandoc", "mandoc", &["-T", "lint", "-W", "warning"]), "");
}

#[test]
fn groff_has_no_warning() {
    assert_eq!(messages("groff", "groff", &["-ww", "-mdoc", "-Tutf8"]), "");
}
