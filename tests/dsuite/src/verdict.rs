//! Compares the result of a program with the suite's expectation: its tag, its exit status, and its output without the parts that
//! vary.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::case::Case;
use crate::run::{Ended, TIMED_OUT};
use crate::words;

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The expectation is met.
    Passed,
    /// The expectation is met, except for columns that Oracle's port does not print, and their widths; or the program was
    /// refused for the same reason or in the same line, with another message.
    Alike,
    /// The program failed, and the suite marks it as an expected failure.
    ExpectedFailure,
    /// The expectation is not met: the reason, and the difference of the outputs.
    Failed(String, String),
}

/// Compares the result of a program with its expectation.
///
/// # Errors
/// The files of the suite cannot be read, or its post-processors cannot be run.
pub fn judge(suite: &Path, case: &Case, ended: &Ended) -> anyhow::Result<Verdict> {
    let fail = |why: &str, difference: String| {
        if case.fails {
            Ok(Verdict::ExpectedFailure)
        } else {
            Ok(Verdict::Failed(why.into(), difference))
        }
    };
    let mut printed = ended.out.clone();
    if !ended.err.is_empty() {
        printed.push_str("-- @@stderr --\n");
        let is_hint = |line: &&str| line.starts_with("dtrace: hint: ");
        printed.extend(ended.err.split_inclusive('\n').filter(|line| !is_hint(line)));
    }
    let program = suite.join(&case.program);
    let filter = program.with_extension("r.p");
    let translated = postprocess(&filter, &words::translate(&printed))?;
    let Some(printed) = postprocess(&filter, &printed)? else {
        return fail("its post-processor failed", printed);
    };
    let shown = |text: &str| {
        if text.len() > 4000 { text.chars().take(4000).collect() } else { text.to_owned() }
    };
    let mut alike = false;
    if let Some(tag) = &case.tag
        && !ended.err.contains(&format!("[{tag}]"))
    {
        alike = words::has_tag_for(&ended.err, tag);
        if !alike {
            return fail(&format!("expected tag {tag}"), shown(&printed));
        }
    }
    if ended.status == TIMED_OUT && !case.may_time_out {
        return fail("timed out", shown(&printed));
    }
    if ended.status != TIMED_OUT && ended.status != case.status {
        return fail(
            &format!("exit status {}, not {}", ended.status, case.status),
            shown(&printed),
        );
    }
    if alike {
        return Ok(Verdict::Alike);
    }
    let file = program.with_extension("r");
    if !file.exists() {
        return Ok(Verdict::Passed);
    }
    let expected = String::from_utf8_lossy(&fs::read(&file)?).into_owned();
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        if !case.ordered {
            lines.sort();
        }
        lines
    };
    if sorted(&expected) == sorted(&printed) {
        return Ok(Verdict::Passed);
    }
    let mut texts = [Some(&printed), translated.as_ref()].into_iter().flatten();
    if texts.any(|text| {
        sorted(&plain(&expected)) == sorted(&plain(text)) || words::same_refusal(&expected, text)
    }) {
        return Ok(Verdict::Alike);
    }
    fail("what it printed differs", difference(&expected, &printed)?)
}

/// Passes a text through the suite's filter for this program, if it has one, and replaces pointers. Returns `None` if the
/// filter failed.
fn postprocess(filter: &Path, text: &str) -> anyhow::Result<Option<String>> {
    let mut text = text.to_owned();
    if filter.metadata().is_ok_and(|data| data.permissions().mode() & 0o111 != 0) {
        let mut child =
            Command::new(filter).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take();
        let output = std::thread::scope(|scope| {
            // A filter may end before it has read everything.
            scope.spawn(|| input.map(|mut input| input.write_all(text.as_bytes())));
            child.wait_with_output()
        })?;
        if !output.status.success() {
            return Ok(None);
        }
        text = String::from_utf8_lossy(&output.stdout).into_owned();
    }
    Ok(Some(without_pointers(&text)))
}

/// Replaces each hexadecimal number by `{ptr}`.
fn without_pointers(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("0x") {
        let digits = rest[at + 2..].bytes().take_while(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let count = digits.count();
        out.push_str(&rest[..at]);
        out.push_str(if count == 0 { "0x" } else { "{ptr}" });
        rest = &rest[at + 2 + count..];
    }
    out.push_str(rest);
    out
}

/// Removes the columns CPU and ID, which Oracle's port does not print, and the padding of the others.
fn plain(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let mut words: Vec<&str> = line.split_whitespace().collect();
        let number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
        match words[..] {
            ["CPU", "ID", "FUNCTION:NAME", ..] => drop(words.drain(..2)),
            ["CPU", "FUNCTION", ..] => drop(words.drain(..1)),
            [cpu, id, probe, ..] if number(cpu) && number(id) && probe.contains(':') => {
                drop(words.drain(..2));
            }
            _ => {}
        }
        fault(&words.join(" "))
    });
    let lines = lines.filter(|line| !line.is_empty());
    lines.fold(String::new(), |text, line| text + &line + "\n")
}

/// Removes from the message of a fault the position in the program, which the two ports print differently.
fn fault(line: &str) -> String {
    let ours = line.strip_prefix("dtrace: error on enabled probe ID ");
    let theirs = line.strip_prefix("dtrace: error in dt_clause_");
    let Some((_, what)) = ours.or(theirs).and_then(|rest| rest.split_once("(")) else {
        return line.to_owned();
    };
    let what = what
        .split_once(": ")
        .map_or(what, |(id, rest)| if id.starts_with("ID ") { rest } else { what });
    // Oracle's port has a separate fault for an access that begins inside and ends outside of the permitted range.
    let what = what.replace("invalid size (", "invalid address (");
    let ends = [" in action #", " in predicate", " at BPF pc", " at DIF offset"];
    let end = ends.iter().filter_map(|end| what.find(end)).min().unwrap_or(what.len());
    format!("dtrace: error ({}", &what[..end])
}

fn difference(expected: &str, printed: &str) -> anyhow::Result<String> {
    let folder = tempfile::tempdir()?;
    for (name, text) in [("expected", expected), ("printed", printed)] {
        fs::write(folder.path().join(name), text)?;
    }
    let output = Command::new("diff")
        .args(["-u", "expected", "printed"])
        .current_dir(folder.path())
        .output()?;
    Ok(String::from_utf8_lossy(&output.stdout)
        .lines()
        .skip(2)
        .take(60)
        .collect::<Vec<_>>()
        .join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_are_replaced() {
        assert_eq!(without_pointers("at 0x1f, 0xg 10x2"), "at {ptr}, 0xg 1{ptr}");
    }

    #[test]
    fn faults_are_alike() {
        let ours = "dtrace: error on enabled probe ID 1 (ID 1: dtrace:::BEGIN): invalid address ({ptr}) in action #1 at DIF offset 36";
        let theirs = "dtrace: error in dt_clause_0 for probe ID 1 (dtrace:::BEGIN): invalid address ({ptr}) at BPF pc NNN";
        assert_eq!(plain(ours), plain(theirs));
        assert_eq!(plain(ours), "dtrace: error (dtrace:::BEGIN): invalid address ({ptr})\n");
    }

    #[test]
    fn columns_are_left_out() {
        let ours = "CPU     ID                    FUNCTION:NAME\n  0      1    :BEGIN   42\n\n";
        let theirs =
            "                   FUNCTION:NAME\n                          :BEGIN        42\n";
        assert_eq!(plain(ours), plain(theirs));
        assert_ne!(plain(ours), plain(&theirs.replace("42", "43")));
    }
}
