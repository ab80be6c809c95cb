//! The check, on modules that are right except for one change.

mod freebsd;
mod illumos;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write as _;
use std::process::Command;

use crate::check::{Finding, Level, Rule};
use proptest::sample::Index;

/// The variable with the file to which [`note_broken`] writes the rules that tests break.
const BROKEN: &str = "SDT_TEST_BROKEN_RULES";

/// Returns the lines of a check's findings; those of warnings and notes begin with the level.
fn said_of(checked: Result<Vec<Finding>, Vec<Finding>>) -> Vec<String> {
    let (errors, findings) = match checked {
        Ok(warnings) => (false, warnings),
        Err(findings) => (true, findings),
    };
    assert!(!findings.is_empty(), "the change breaks a rule");
    assert_eq!(findings.iter().any(Finding::is_error), errors);
    note_broken(&findings);
    let line = |finding: &Finding| match finding.level() {
        Level::Error => finding.to_string(),
        level => format!("{level}: {finding}"),
    };
    findings.iter().map(line).collect()
}

/// Writes the rules that a test has broken where [`every_rule_is_broken_by_a_test`] reads them.
fn note_broken(findings: &[Finding]) {
    if let Some(file) = std::env::var_os(BROKEN) {
        let names: String = findings.iter().map(|of| format!("{:?}\n", of.rule)).collect();
        let mut file = File::options().append(true).open(file).expect("the file of broken rules");
        file.write_all(names.as_bytes()).expect("it is written");
    }
}

/// Changes some bytes of a file, and cuts it off.
fn damaged(mut file: Vec<u8>, changes: Vec<(Index, u8)>, cut: Option<Index>) -> Vec<u8> {
    for (at, byte) in changes {
        let at = at.index(file.len());
        file[at] = byte;
    }
    if let Some(cut) = cut {
        file.truncate(cut.index(file.len()));
    }
    file
}

/// Runs the other tests, and compares the rules that they break with the table.
#[test]
fn every_rule_is_broken_by_a_test() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let this = std::env::current_exe().expect("this program");
    let mut command = Command::new(this);
    command.args([
        "check::tests::",
        "--skip",
        "every_rule",
        "--skip",
        "makes_it_panic",
        "--skip",
        "truncated",
    ]);
    let output = command.env(BROKEN, file.path()).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let broken = fs::read_to_string(file.path()).expect("names");
    let broken: BTreeSet<_> = broken.lines().collect();
    let intact = Rule::ALL.iter().map(|rule| format!("{rule:?}"));
    let intact: Vec<_> = intact.filter(|rule| !broken.contains(&**rule)).collect();
    assert!(intact.is_empty(), "no test breaks {intact:?}");
}
