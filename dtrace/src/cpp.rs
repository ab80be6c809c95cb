//! `-C`: the C preprocessor, which is the machine's own (`dt_preproc`, dt_cc.c).

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;

/// The script, as it is handed over.
const INPUT: &str = "/dev/stdin";
/// What is run if nothing else is named.
const PROGRAM: &str = "cpp";

/// How it is run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preprocessor {
    /// The program, if it is not `cpp` (`-x cpppath`).
    pub program: Option<PathBuf>,
    /// Its arguments, in order: `-D`, `-U`, `-I`, `-H` with what they say.
    pub arguments: Vec<String>,
}

/// Why there is nothing to compile.
#[derive(Debug, thiserror::Error)]
pub enum PreprocessorError {
    /// It is not there.
    #[error(
        "failed to invoke C preprocessor {program}: {reason}; install one, or name it by -x cpppath=FILE"
    )]
    Missing {
        /// Its name.
        program: String,
        /// Why it could not be run.
        reason: String,
    },
    /// It has complained, on standard error.
    #[error("Preprocessor failed to process input program")]
    Failed,
}

impl Preprocessor {
    /// Has a script preprocessed. Its first line is left out if it begins with `#!`.
    ///
    /// # Errors
    /// [`PreprocessorError`].
    pub fn run(&self, text: &[u8]) -> Result<Vec<u8>, PreprocessorError> {
        let program = self.program.clone().unwrap_or_else(|| PROGRAM.into());
        let name = program.display().to_string();
        let missing = |error: io::Error| PreprocessorError::Missing {
            program: name.clone(),
            reason: reason(&error),
        };
        let mut child = Command::new(&program)
            // Headers are plain C to others than GNU's compiler.
            .args(["-D__sun", "-D__unix", "-D__SVR4", "-U__GNUC__"])
            .args(["-D__SUNW_D=1", "-D__SUNW_D_64", "-D__SUNW_D_VERSION=0x0100d000"])
            .args(&self.arguments)
            .arg(INPUT)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(missing)?;
        let input = child.stdin.take();
        let line = |at| &text[at..];
        let first = text.iter().position(|&byte| byte == b'\n').map_or(&[][..], line);
        let text = if text.starts_with(b"#!") { first } else { text };
        let output = thread::scope(|scope| {
            // It may write before it has read all; that it reads no more it says by how it ends.
            scope.spawn(move || input.map(|mut input| input.write_all(text)));
            child.wait_with_output()
        });
        let output = output.map_err(missing)?;
        if !output.status.success() {
            return Err(PreprocessorError::Failed);
        }
        Ok(without_functions(&unnamed(&output.stdout)))
    }
}

/// What a preprocessor has made, in which what it read has the name that libdtrace has for it, and D none.
fn unnamed(text: &[u8]) -> Vec<u8> {
    const STDIN: &[u8] = b"\"/dev/stdin\"";
    let lines = text.split_inclusive(|&byte| byte == b'\n').map(|line| {
        let at = line.windows(STDIN.len()).position(|name| name == STDIN);
        match at.filter(|_| line.starts_with(b"#")) {
            Some(at) => [&line[..at], b"\"/dev/fd/0\"", &line[at + STDIN.len()..]].concat(),
            None => line.to_vec(),
        }
    });
    lines.collect::<Vec<_>>().concat()
}

/// A text without what headers define as functions, of which D knows nothing; its lines are the same.
fn without_functions(text: &[u8]) -> Vec<u8> {
    let mut out: Vec<u8> = Vec::with_capacity(text.len());
    let mut header = false;
    // Where in `out` the declaration began that is being read, and how deep in braces it is.
    let (mut begin, mut depth, mut function) = (0, 0u32, false);
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        if line.starts_with(b"# ") {
            header = !line.windows(11).any(|name| name == b"\"/dev/fd/0\"");
            out.extend_from_slice(line);
            if depth == 0 {
                begin = out.len();
            }
            continue;
        }
        out.extend_from_slice(line);
        if !header {
            (begin, depth, function) = (out.len(), 0, false);
            continue;
        }
        let start = out.len() - line.len();
        for at in start..out.len() {
            match out[at] {
                b'{' => {
                    let before = out[begin.min(at)..at].trim_ascii_end();
                    function |= depth == 0 && before.ends_with(b")");
                    depth += 1;
                }
                b'}' => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 && function {
                        let gone = out[begin.min(at)..=at].iter_mut();
                        gone.filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
                        (begin, function) = (at + 1, false);
                    }
                }
                b';' if depth == 0 => begin = at + 1,
                _ => {}
            }
        }
    }
    out
}

/// C's words alone.
pub(crate) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error ").next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_preprocessed() {
        let arguments = vec!["-DANSWER=42".into()];
        let preprocessor = Preprocessor { program: None, arguments };
        let text = preprocessor.run(b"#!/usr/sbin/dtrace -s\nBEGIN { trace(ANSWER); }\n").unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("\n\nBEGIN { trace(42); }\n"), "{text}");
        assert!(text.contains("\"/dev/fd/0\"") && !text.contains("/dev/stdin"), "{text}");
    }

    #[test]
    fn functions_of_headers_go() {
        let text = b"# 1 \"/usr/include/h.h\" 1 3\ntypedef struct { int a; } s;\nstatic int f (int x)\n{ if (x) { g (); }\nreturn 1; } typedef int t;\n# 1 \"/dev/fd/0\"\nBEGIN /f(1)/ { }\n";
        let out = String::from_utf8(without_functions(text)).unwrap();
        let lines: Vec<&str> = out.lines().map(str::trim).collect();
        assert_eq!(lines[1..5], ["typedef struct { int a; } s;", "", "", "typedef int t;"]);
        assert_eq!(lines[6], "BEGIN /f(1)/ { }");
    }

    #[test]
    fn one_that_is_not_there_is_named() {
        let program = Some("/nowhere/cpp".into());
        let error = Preprocessor { program, arguments: Vec::new() }.run(b"").unwrap_err();
        let text = "failed to invoke C preprocessor /nowhere/cpp: No such file or directory; ";
        assert!(error.to_string().starts_with(text), "{error}");
    }
}
