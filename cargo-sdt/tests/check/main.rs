//! The check, on modules that are right except for one change.

mod freebsd;
mod illumos;

use cargo_sdt::internal::check::{Finding, Level};
use proptest::sample::Index;

/// Returns the lines of a check's findings; those of warnings and notes begin with the level.
fn said_of(checked: Result<Vec<Finding>, Vec<Finding>>) -> Vec<String> {
    let (errors, findings) = match checked {
        Ok(warnings) => (false, warnings),
        Err(findings) => (true, findings),
    };
    assert!(!findings.is_empty(), "the change breaks a rule");
    assert_eq!(findings.iter().any(Finding::is_error), errors);
    let line = |finding: &Finding| match finding.level() {
        Level::Error => finding.to_string(),
        level => format!("{level}: {finding}"),
    };
    findings.iter().map(line).collect()
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
