//! Reads exec logs: the output of `strace -f -e trace=execve`, as a list of executions.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use sdt_protocol::Exec;

/// Why a file is not an exec log.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// The file cannot be read.
    #[error("{}: {source}", .file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// A line is not what strace writes.
    #[error("{}: line {line}: {problem}", .file.display())]
    Line {
        /// The file.
        file: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// The fault of the line.
        problem: Problem,
    },
    /// The log contains no execution.
    #[error(
        "{}: no successful execve; record one with strace -f -e trace=execve -o FILE COMMAND",
        .0.display()
    )]
    Empty(PathBuf),
}

/// The fault of a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The process id is not a number, or too large a one.
    #[error("\"{0}\" is not a process id")]
    Pid(String),
    /// The first argument is not a whole string.
    #[error("the path of execve is not a complete string")]
    Path,
    /// An escape in a string that strace does not write.
    #[error("\"\\{0}\" is not an escape that strace writes")]
    Escape(char),
    /// The call has no result.
    #[error("execve without a result")]
    NoResult,
    /// A call resumes that never began.
    #[error("execve of process {0} is resumed, but was never begun")]
    Resumed(u32),
}

/// Returns the executions in a log, in the order in which they succeeded.
///
/// # Errors
/// The file cannot be read, is damaged, or holds no execution.
pub fn read(file: &Path) -> Result<Vec<Exec>, WorkloadError> {
    let bytes =
        std::fs::read(file).map_err(|source| WorkloadError::Read { file: file.into(), source })?;
    // strace escapes all characters except ASCII.
    let execs = parse(&String::from_utf8_lossy(&bytes))
        .map_err(|(line, problem)| WorkloadError::Line { file: file.into(), line, problem })?;
    if execs.is_empty() { Err(WorkloadError::Empty(file.into())) } else { Ok(execs) }
}

/// Returns the executions in the text of a log.
///
/// # Errors
/// A line about execve is not in strace's format; the error has its number. Other lines are ignored.
pub fn parse(text: &str) -> Result<Vec<Exec>, (usize, Problem)> {
    let mut execs = Vec::new();
    let mut begun = HashMap::new();
    for (index, line) in text.lines().enumerate() {
        let event = event(line).map_err(|problem| (index + 1, problem))?;
        match event {
            Some(Event::Done { pid, path, success: true }) => execs.push(Exec { pid, path }),
            Some(Event::Begun { pid, path }) => drop(begun.insert(pid, path)),
            Some(Event::Resumed { pid, success }) => {
                let path = begun.remove(&pid).ok_or((index + 1, Problem::Resumed(pid)))?;
                if success {
                    execs.push(Exec { pid, path });
                }
            }
            Some(Event::Superseded { leader, by }) => {
                if let Some(path) = begun.remove(&by) {
                    begun.insert(leader, path);
                }
            }
            Some(Event::Done { success: false, .. }) | None => {}
        }
    }
    Ok(execs)
}

enum Event {
    Done {
        pid: u32,
        path: String,
        success: bool,
    },
    Begun {
        pid: u32,
        path: String,
    },
    Resumed {
        pid: u32,
        success: bool,
    },
    /// A thread has called execve, which continues under the id of its process.
    Superseded {
        leader: u32,
        by: u32,
    },
}

fn event(line: &str) -> Result<Option<Event>, Problem> {
    if let Some((prefix, rest)) = line.split_once("execve(") {
        // The word `execve` may also be part of another call's arguments, which are quoted.
        if prefix.contains('"') || prefix.ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            return Ok(None);
        }
        let pid = pid(prefix)?;
        if !rest.starts_with('"') {
            // A bad address, shown as a number; such a call fails.
            return Ok(None);
        }
        let (path, rest) = string(rest)?;
        if rest.trim_end().ends_with("<unfinished ...>") {
            return Ok(Some(Event::Begun { pid, path }));
        }
        return Ok(Some(Event::Done { pid, path, success: success(rest)? }));
    }
    if let Some((prefix, rest)) = line.split_once("<... execve resumed>") {
        return Ok(Some(Event::Resumed { pid: pid(prefix)?, success: success(rest)? }));
    }
    if let Some((prefix, rest)) = line.split_once("+++ superseded by execve in pid ") {
        let by = rest.trim_end_matches([' ', '+']);
        return Ok(Some(Event::Superseded { leader: pid(prefix)?, by: number(by)? }));
    }
    Ok(None)
}

/// The process id of a line's prefix: `1234 `, `[pid 1234] `, either with a time behind it (which
/// has a point or colons), or nothing, when only one process was traced.
fn pid(prefix: &str) -> Result<u32, Problem> {
    let prefix = prefix.strip_prefix("[pid").unwrap_or(prefix);
    let first = prefix.split([' ', ']']).find(|word| !word.is_empty());
    match first {
        None => Ok(0),
        Some(time) if time.contains([':', '.']) => Ok(0),
        Some(word) => number(word),
    }
}

fn number(word: &str) -> Result<u32, Problem> {
    word.parse().map_err(|_| Problem::Pid(word.into()))
}

/// Whether the call returned 0.
fn success(rest: &str) -> Result<bool, Problem> {
    let (_, result) = rest.rsplit_once(" = ").ok_or(Problem::NoResult)?;
    Ok(result.split_whitespace().next().ok_or(Problem::NoResult)? == "0")
}

/// Parses a C string as strace writes it. Returns the string and the rest of the line.
fn string(text: &str) -> Result<(String, &str), Problem> {
    let mut bytes = Vec::new();
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => {
                let rest = &text[at + 1..];
                if rest.starts_with("...") {
                    return Err(Problem::Path);
                }
                return Ok((String::from_utf8_lossy(&bytes).into_owned(), rest));
            }
            '\\' => {
                let (_, escape) = chars.next().ok_or(Problem::Path)?;
                let (radix, most, mut value) = match escape {
                    'n' => (0, 0, u32::from(b'\n')),
                    't' => (0, 0, u32::from(b'\t')),
                    'r' => (0, 0, u32::from(b'\r')),
                    'v' => (0, 0, 0x0b),
                    'f' => (0, 0, 0x0c),
                    '\\' | '"' => (0, 0, u32::from(escape)),
                    'x' => (16, 2, 0),
                    '0'..='7' => (8, 2, escape.to_digit(8).unwrap_or_default()),
                    other => return Err(Problem::Escape(other)),
                };
                for _ in 0..most {
                    let Some(digit) = chars.peek().and_then(|&(_, c)| c.to_digit(radix)) else {
                        break;
                    };
                    value = value * radix + digit;
                    chars.next();
                }
                bytes.push(u8::try_from(value).map_err(|_| Problem::Escape(escape))?);
            }
            other => bytes.extend(other.encode_utf8(&mut [0; 4]).bytes()),
        }
    }
    Err(Problem::Path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn exec(pid: u32, path: &str) -> Exec {
        Exec { pid, path: path.into() }
    }

    #[test]
    fn successes_count_and_failures_do_not() {
        let log = "\
            7 execve(\"/usr/local/bin/ls\", [\"ls\"], 0x7ffc /* 3 vars */) = -1 ENOENT (No such)\n\
            7 execve(\"/bin/ls\", [\"ls\", \") = 9\"], 0x7ffc /* 3 vars */) = 0\n\
            7 execve(\"/bin/dead\", [], NULL) = ?\n\
            7 execve(0x1234, [], NULL) = -1 EFAULT (Bad address)\n\
            7 +++ exited with 0 +++\n\
            6 --- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_EXITED, si_pid=7} ---\n";
        assert_eq!(parse(log), Ok(vec![exec(7, "/bin/ls")]));
    }

    #[test]
    fn interrupted_lines_are_put_together() {
        let log = "\
            7 execve(\"/bin/a\", [\"a\"], 0x1 /* 3 vars */ <unfinished ...>\n\
            8 execve(\"/bin/b\", [\"b\"], 0x1 /* 3 vars */ <unfinished ...>\n\
            9 execve(\"/bin/c\", [\"c\"], 0x1 /* 3 vars */ <unfinished ...>\n\
            8 <... execve resumed>)             = 0\n\
            9 <... execve resumed>)             = -1 EACCES (Permission denied)\n\
            7 <... execve resumed>)             = 0\n";
        assert_eq!(parse(log), Ok(vec![exec(8, "/bin/b"), exec(7, "/bin/a")]));
    }

    #[test]
    fn a_threads_execve_ends_under_its_process() {
        let log = "\
            8 execve(\"/bin/a\", [\"a\"], 0x1 /* 3 vars */ <unfinished ...>\n\
            7 +++ superseded by execve in pid 8 +++\n\
            7 <... execve resumed>)             = 0\n";
        assert_eq!(parse(log), Ok(vec![exec(7, "/bin/a")]));
    }

    #[test]
    fn other_prefixes_are_understood() {
        let call = "execve(\"/a\", [\"a\"], NULL) = 0";
        for (prefix, pid) in [
            ("", 0),
            ("7 ", 7),
            ("7     ", 7),
            ("[pid 7] ", 7),
            ("[pid    7] 12:00:01.5 ", 7),
            ("7 1700000000.123 ", 7),
            ("12:00:01 ", 0),
        ] {
            assert_eq!(parse(&format!("{prefix}{call}")), Ok(vec![exec(pid, "/a")]), "{prefix}");
        }
    }

    #[test]
    fn other_calls_are_passed_over() {
        let log =
            "7 execveat(3, \"/a\", [], NULL, 0) = 0\n7 write(1, \"execve(\\\"/a\\\") = 0\", 5) = 5";
        assert_eq!(parse(log), Ok(vec![]));
    }

    #[test]
    fn escapes_are_undone() {
        let log = r#"7 execve("/gr\303\274\303\237 \"\\\t\1\x41/\0012", [], NULL) = 0"#;
        assert_eq!(parse(log), Ok(vec![exec(7, "/grüß \"\\\t\u{1}A/\u{1}2")]));
    }

    #[test]
    fn damage_is_reported_with_its_line() {
        for (line, problem) in [
            ("x7 execve(\"/a\", [], NULL) = 0", Problem::Pid("x7".into())),
            ("7 execve(\"/a", Problem::Path),
            ("7 execve(\"/a\"..., [], NULL) = 0", Problem::Path),
            ("7 execve(\"/\\q\", [], NULL) = 0", Problem::Escape('q')),
            ("7 execve(\"/\\777\", [], NULL) = 0", Problem::Escape('7')),
            ("7 execve(\"/a\", [], NULL)", Problem::NoResult),
            ("7 <... execve resumed>) = 0", Problem::Resumed(7)),
        ] {
            assert_eq!(parse(&format!("\n{line}\n")), Err((2, problem)), "{line}");
        }
    }

    #[test]
    fn files_are_named_in_errors() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("log");
        let error = read(&file).unwrap_err().to_string();
        assert!(error.contains("log: No such file"), "{error}");
        std::fs::write(&file, "7 execve(\"/a\n").unwrap();
        let error = read(&file).unwrap_err().to_string();
        assert!(
            error.ends_with("log: line 1: the path of execve is not a complete string"),
            "{error}"
        );
        std::fs::write(&file, "7 +++ exited with 0 +++\n").unwrap();
        assert!(matches!(read(&file).unwrap_err(), WorkloadError::Empty(_)));
    }

    #[test]
    fn the_recorded_log_is_whole() {
        let file = crate::workspace::default_workload();
        let execs = read(&file).unwrap();
        // Every call that returned 0, counted another way.
        let text = std::fs::read_to_string(&file).unwrap();
        let successes = text.lines().filter(|line| line.ends_with(" = 0")).count();
        assert_eq!(execs.len(), successes);
        assert!(execs.len() > 400);
        assert!(execs.iter().any(|exec| exec.path == "./grüß dich"));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "([0-9\\[\\]a ]{0,4}(execve\\(|<... execve resumed>)?[\"\\\\0-9x=)ä ]{0,9}\n?){0,9}") {
            let _ = parse(&text);
        }

        #[test]
        fn any_path_comes_back(path in "[^\0]{1,40}") {
            let escaped: String = path.bytes().map(|byte| format!("\\x{byte:02x}")).collect();
            let log = format!("7 execve(\"{escaped}\", [], NULL) = 0");
            prop_assert_eq!(parse(&log), Ok(vec![exec(7, &path)]));
        }
    }
}
