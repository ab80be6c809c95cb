//! `-C`: runs the machine's C preprocessor on scripts (`dt_preproc`, dt_cc.c).

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;

use crate::system::reason;

/// The file that the preprocessor reads.
const INPUT: &str = "/dev/stdin";
/// The name of the preprocessor's output in messages. libdtrace uses the same name.
const OUTPUT_NAME: &[u8] = b"\"/dev/fd/0\"";
/// The default preprocessor.
const PROGRAM: &str = "cpp";

/// A preprocessor with its arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preprocessor {
    /// The program, if it is not `cpp` (`-x cpppath`).
    pub program: Option<PathBuf>,
    /// Its arguments, in order: `-D`, `-U`, `-I` and `-H` with their values.
    pub arguments: Vec<String>,
}

/// Why a script cannot be preprocessed.
#[derive(Debug, thiserror::Error)]
pub enum PreprocessorError {
    /// The preprocessor cannot be run.
    #[error(
        "failed to invoke C preprocessor {program}: {reason}; install one, or name one with -x cpppath=FILE"
    )]
    Missing {
        /// The preprocessor.
        program: String,
        /// Why it cannot be run.
        reason: String,
    },
    /// The preprocessor failed; it has printed why to standard error.
    #[error("Preprocessor failed to process input program")]
    Failed,
}

impl Preprocessor {
    /// Preprocesses a script, except for a first line that begins with `#!`. `script` is the name of the script in the
    /// preprocessor's messages.
    ///
    /// # Errors
    /// See [`PreprocessorError`].
    pub fn run(&self, script: &str, text: &[u8]) -> Result<Vec<u8>, PreprocessorError> {
        let program = self.program.clone().unwrap_or_else(|| PROGRAM.into());
        let name = program.display().to_string();
        let missing = |error: io::Error| PreprocessorError::Missing {
            program: name.clone(),
            reason: reason(&error),
        };
        let mut child = Command::new(&program)
            // Without `__GNUC__`, headers contain plain C, and no extensions of GNU C.
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
        let name = format!("\"{}\"", script.replace('\\', "\\\\").replace('"', "\\\""));
        let text = [format!("# 1 {name}\n").as_bytes(), text].concat();
        let output = thread::scope(|scope| {
            // The preprocessor may write before it has read all of its input, so a thread writes the input. If the
            // preprocessor stops reading, its exit status reports the failure.
            scope.spawn(move || input.map(|mut input| input.write_all(&text)));
            child.wait_with_output()
        });
        let output = output.map_err(missing)?;
        if !output.status.success() {
            return Err(PreprocessorError::Failed);
        }
        Ok(without_functions(&unnamed(&output.stdout, name.as_bytes())))
    }
}

/// Replaces the name of the script in line markers by the name that libdtrace uses ([`OUTPUT_NAME`]).
fn unnamed(text: &[u8], name: &[u8]) -> Vec<u8> {
    const STDIN: &[u8] = b"\"/dev/stdin\"";
    let lines = text.split_inclusive(|&byte| byte == b'\n').map(|line| {
        let find = |name: &[u8]| line.windows(name.len()).position(|at| at == name);
        for name in [name, STDIN].into_iter().filter(|_| line.starts_with(b"#")) {
            if let Some(at) = find(name) {
                return [&line[..at], OUTPUT_NAME, &line[at + name.len()..]].concat();
            }
        }
        line.to_vec()
    });
    lines.collect::<Vec<_>>().concat()
}

/// Returns whether a line marker begins a system header of C: flag 3 after the file's name.
fn is_system(marker: &[u8]) -> bool {
    let flags =
        marker.iter().rposition(|&byte| byte == b'"').map_or(&[][..], |end| &marker[end + 1..]);
    flags.split(u8::is_ascii_whitespace).any(|flag| flag == b"3")
}

/// Returns a text without the functions that system headers of C define, which D does not have. The lines keep their numbers.
/// Headers in D stay as they are.
fn without_functions(text: &[u8]) -> Vec<u8> {
    let mut out: Vec<u8> = Vec::with_capacity(text.len());
    let mut header = false;
    // The offset in `out` at which the current declaration begins, and its depth of braces.
    let (mut begin, mut depth, mut function) = (0, 0u32, false);
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        if line.starts_with(b"# ") {
            header = is_system(line);
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
        let mut at = out.len() - line.len();
        while at < out.len() {
            match out[at] {
                quote @ (b'"' | b'\'') => at = literal_end(&out, at, quote),
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
            at += 1;
        }
    }
    out
}

/// Returns the end of the string or character that begins at `begin`: its quote, or the end of the line.
fn literal_end(text: &[u8], begin: usize, quote: u8) -> usize {
    let mut at = begin + 1;
    while at < text.len() && text[at] != quote && text[at] != b'\n' {
        at += if text[at] == b'\\' { 2 } else { 1 };
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_preprocessed() {
        let arguments = vec!["-DANSWER=42".into()];
        let preprocessor = Preprocessor { program: None, arguments };
        let text =
            preprocessor.run("x.d", b"#!/usr/sbin/dtrace -s\nBEGIN { trace(ANSWER); }\n").unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("\n\nBEGIN { trace(42); }\n"), "{text}");
        assert!(!text.contains("x.d"), "{text}");
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
    fn headers_of_d_stay() {
        let own = b"# 1 \"/home/me/mine.h\" 1\ninline int f[int x] = 1;\nsyscall::read(2):entry\n/f(1)/ { }\nBEGIN /(1)/\n{ }\nEND /pid == (3)\n/{ trace(1); } translator t < u *U > (x) { a = 1; };\n";
        assert_eq!(without_functions(own), own);
    }

    #[test]
    fn braces_in_literals_are_none() {
        let text = b"# 1 \"/usr/include/h 3 .h\" 1 3 4\nint f(void) { g(\"}\\\"}\", '}', '\\''); return 1; } int x;\nint y;\n";
        let out = String::from_utf8(without_functions(text)).unwrap();
        let lines: Vec<&str> = out.lines().map(str::trim).collect();
        assert_eq!(lines[1..], ["int x;", "int y;"]);
        let text = b"# 1 \"/usr/include/h 3 .h\" 1\nint f(void) { }\n";
        assert_eq!(without_functions(text), text);
    }

    #[test]
    fn a_missing_preprocessor_is_named() {
        let program = Some("/nowhere/cpp".into());
        let error = Preprocessor { program, arguments: Vec::new() }.run("x.d", b"").unwrap_err();
        let text = "failed to invoke C preprocessor /nowhere/cpp: No such file or directory; ";
        assert!(error.to_string().starts_with(text), "{error}");
    }
}
