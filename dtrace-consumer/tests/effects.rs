//! Effects of programs that this run compiled, with a real framework as kernel and the command `dtrace`.
#![cfg(target_os = "linux")]

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::process::Command;
use std::thread;

use d_process::{Line, Machine};

/// Runs dtrace on a kernel; returns its output, its messages and its status.
fn dtrace(args: &[&str]) -> (String, String, Option<i32>) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("kernel");
    let listener = UnixListener::bind(&socket).unwrap();
    thread::spawn(move || {
        let (line, _) = listener.accept().unwrap();
        let [input, output]: [OwnedFd; 2] = [line.try_clone().unwrap().into(), line.into()];
        d_process::serve(Machine::default(), Line::new(input, output));
    });
    let mut command = Command::new(env!("CARGO_BIN_EXE_dtrace"));
    command.args(["--connect", &format!("unix:{}", socket.display())]).args(args);
    let output = command.output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (out, err, output.status.code())
}

#[test]
fn effects_of_an_own_program_are_performed() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (made, other) = (path("made"), path("other"));
    let text = format!(
        "BEGIN {{ printf(\"one\\n\"); freopen(\"{other}\"); printf(\"two %d\\n\", 2); freopen(\"\");
            system(\"echo %s > {made}\", probename); printf(\"three\\n\"); exit(3); }}"
    );
    let (out, err, status) = dtrace(&["-w", "-q", "-n", &text]);
    assert_eq!((&*out, &*err, status), ("one\nthree\n\n", "", Some(3)));
    assert_eq!(fs::read_to_string(&other).unwrap(), "two 2\n");
    assert_eq!(fs::read_to_string(&made).unwrap(), "BEGIN\n");
}

/// Opens a terminal. Returns its other end, its own end, and its path.
fn terminal() -> (OwnedFd, fs::File, String) {
    let flags = rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY;
    let device: OwnedFd = rustix::pty::openpt(flags).unwrap();
    rustix::pty::grantpt(&device).unwrap();
    rustix::pty::unlockpt(&device).unwrap();
    let name = rustix::pty::ptsname(&device, Vec::new()).unwrap().into_string().unwrap();
    // Written data stays readable while the other end is open.
    let held = fs::File::open(&name).unwrap();
    (device, held, name)
}

/// On a terminal, the first fault of an expression shows its place, and further ones are counted. Elsewhere each has a line, as in
/// dtrace(1).
#[test]
fn a_fault_names_its_place_and_is_counted() {
    let text = "BEGIN\n{\n\tthis->far = (int *)8;\n\tn = 1 + *this->far;\n}\n";
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("x.d");
    fs::write(&script, [text, text, text, "BEGIN { exit(0); }\n"].concat()).unwrap();
    let script = script.to_str().unwrap();
    let fault = "(ID 1: dtrace:::BEGIN): invalid address (0x8) in action #2 at DIF offset ";
    let (_, err, status) = dtrace(&["-q", "-s", script]);
    assert_eq!((err.matches(fault).count(), err.lines().count(), status), (3, 3, Some(0)), "{err}");

    let (_device, _held, name) = terminal();
    let (_, err, status) = dtrace(&["-q", "-s", script, "-o", &name]);
    let place = |line: u32| {
        format!("dtrace: the error is in line {line}:\n\tn = 1 + *this->far;\n\t        ^\n")
    };
    assert!([4, 9, 14].iter().all(|line| err.contains(&place(*line))), "{err}");
    assert_eq!((err.matches(fault).count(), status), (3, Some(0)), "{err}");

    // One expression that fails in each hit of a clause.
    let text = "tick-1ms { trace(*(int *)16); } tick-1ms /n++ > 20/ { exit(0); }";
    let (_, err, status) = dtrace(&["-q", "-x", "switchrate=1s", "-n", text, "-o", &name]);
    assert!(err.contains("the error is in line 1:\ntick-1ms { trace(*(int *)16);"), "{err}");
    let count = |line: &str| -> Option<u64> {
        let (count, rest) =
            line.strip_prefix("dtrace: ")?.split_once(" more at the same place, the last: ")?;
        rest.contains("invalid address (0x10)").then(|| count.parse().unwrap())
    };
    assert!(err.lines().filter_map(count).sum::<u64>() > 10, "{err}");
    assert_eq!((err.matches("^").count(), status), (1, Some(0)), "{err}");
}

/// Data are escaped only if they are written to a terminal; here standard output is a pipe.
#[test]
fn data_are_escaped_once_a_terminal_is_reopened() {
    let (device, _held, name) = terminal();
    let data = "strjoin(\"a\", \"\\033[2Jb\")";
    let show = format!("printf(\"%s|%c|\", {data}, 7); trace(\"\\007\"); printa(\"|%s\\n\", @a);");
    let begin = format!("@a[{data}] = count();");
    let text =
        format!("BEGIN {{ {begin} freopen(\"{name}\"); {show} freopen(\"\"); {show} exit(0); }}");
    let (out, err, status) = dtrace(&["-w", "-q", "-n", &text]);
    assert_eq!((&*err, status), ("", Some(0)));
    assert_eq!(out, "a\x1b[2Jb|\x07|\x07|a\x1b[2Jb\n\n");
    let mut shown = [0; 256];
    let count = rustix::io::read(&device, &mut shown).unwrap();
    let escaped = "a\\u{1b}[2Jb|\\u{7}|\\u{7}|a\\u{1b}[2Jb\r\n";
    assert_eq!(String::from_utf8_lossy(&shown[..count]), escaped);
}

#[test]
fn setopt_and_ftruncate_of_an_own_program_apply() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("out");
    let args = ["-o", file.to_str().unwrap(), "-n"];
    let text = "BEGIN { printf(\"gone\"); ftruncate(); setopt(\"quiet\", \"1\"); printf(\"left\"); exit(0); }";
    let (_, err, status) = dtrace(&[&args[..], &[text]].concat());
    assert_eq!(status, Some(0), "{err}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "left\n");
}

#[test]
fn destructive_actions_need_w() {
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("made");
    for action in ["system(\"touch %s\", \"FILE\")", "freopen(\"%s\", \"FILE\")"] {
        let text =
            format!("BEGIN {{ {action}; exit(0); }}").replace("FILE", made.to_str().unwrap());
        let (_, err, status) = dtrace(&["-n", &text]);
        assert!(err.contains("Destructive actions not allowed") && status == Some(1), "{err}");
        assert!(!made.exists());
    }
}

/// The statements of all programs have different numbers, although each program has a first statement.
#[test]
fn programs_of_one_run_have_distinct_statements() {
    let first =
        "BEGIN { @a[\"first\"] = count(); printf(\"%d and \", 1); printa(\"%s %@d, \", @a); }";
    let second = "BEGIN { @b[\"second\"] = sum(5); printf(\"%s\\n\", \"two\"); printa(\"%s %@u\\n\", @b); exit(0); }";
    let (out, err, status) = dtrace(&["-q", "-n", first, "-n", second]);
    assert_eq!((&*err, status), ("", Some(0)), "{out}");
    assert!(out.starts_with("1 and first 1, two\nsecond 5\n"), "{out}");
}
