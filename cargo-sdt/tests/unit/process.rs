//! Tests of `src/process.rs`.

use super::*;

#[test]
fn output_is_taken() {
    let written = run(Command::new("echo").arg("hello"), Duration::from_secs(10)).unwrap();
    assert_eq!(written.first_line(), "hello");
}

#[test]
fn a_failure_says_status_and_words() {
    let error = run(Command::new("sh").args(["-c", "echo why >&2; exit 3"]), LONG).unwrap_err();
    let text = error.to_string();
    assert_eq!(text, "sh: exit status 3\nwhy");
    let text = described("sh -c x", "exit status 3", "why", true);
    assert_eq!(text, "sh: exit status 3\nwhy\nThat was: sh -c x");
    let error = run(&mut Command::new("false"), LONG).unwrap_err();
    assert_eq!(error.to_string(), "false: exit status 1");
}

#[test]
fn a_missing_program_is_named() {
    let error = run(&mut Command::new("no-such-program"), LONG).unwrap_err();
    assert!(error.to_string().starts_with("cannot run no-such-program: "), "{error}");
}

#[test]
fn time_runs_out() {
    let start = Instant::now();
    let error = run(Command::new("sleep").arg("60"), Duration::from_millis(200));
    assert!(matches!(error, Err(ProcessError::TimedOut { .. })), "{error:?}");
    assert!(start.elapsed() < LONG);
}

#[test]
fn what_leaks_from_an_outer_cargo_is_known() {
    for name in ["CARGO", "CARGO_MANIFEST_DIR", "RUSTFLAGS", "RUSTUP_TOOLCHAIN"] {
        assert!(leaks(OsStr::new(name)), "{name}");
    }
    for name in ["CARGO_HOME", "CARGO_HTTP_CAINFO", "CARGO_REGISTRIES_X_INDEX", "HOME"] {
        assert!(!leaks(OsStr::new(name)), "{name}");
    }
}

const LONG: Duration = Duration::from_secs(30);
