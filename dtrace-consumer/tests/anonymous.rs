//! Programs that a kernel enables by itself (`-A`), shown by another run of dtrace (`-a`), which may know other types.
#![cfg(target_os = "linux")]

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::thread;

use d_process::{Line, Machine};

/// Starts a kernel at a socket for one connection. It has enabled a program by itself.
fn kernel(socket: &Path, anonymous: Vec<u8>) {
    let listener = UnixListener::bind(socket).unwrap();
    thread::spawn(move || {
        let (line, _) = listener.accept().unwrap();
        let [input, output]: [OwnedFd; 2] = [line.try_clone().unwrap().into(), line.into()];
        let machine = Machine { anonymous, pid: 7, ..Machine::default() };
        d_process::serve(machine, Line::new(input, output));
    });
}

/// Runs dtrace on the kernel at this socket; returns its output and its messages.
fn dtrace(socket: &Path, args: &[&str]) -> (String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dtrace"));
    let output = command.args(["--connect", &format!("unix:{}", socket.display())]).args(args);
    let output = output.output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|of| String::from_utf8(of).unwrap());
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    (out, err)
}

#[test]
fn types_are_those_with_which_a_program_was_compiled_or_none() {
    let folder = tempfile::tempdir().unwrap();
    let library = |name: &str, text: &str| {
        let library = folder.path().join(name);
        std::fs::create_dir(&library).unwrap();
        std::fs::write(library.join("types.d"), text).unwrap();
        library.display().to_string()
    };
    let pair = "struct pair { int x; short y[2]; };";
    let same = library("same", pair);
    let behind = library("behind", &format!("struct other {{ int *x; char y[3]; }}; {pair}"));
    let changed = library("changed", "struct pair { short x[2]; int y; };");
    let socket = |name: &str| folder.path().join(name);
    let dof = folder.path().join("dof").display().to_string();
    let program = "BEGIN { this->p = (struct pair *)alloca(8); this->p->x = 1; this->p->y[1] = 2; \
        print(*this->p); print(pid); exit(0); }";
    kernel(&socket("compile"), Vec::new());
    dtrace(&socket("compile"), &["-A", "-o", &dof, "-L", &same, "-n", program]);
    let dof = std::fs::read(&dof).unwrap();
    let claim = |name: &str, args: &[&str]| {
        kernel(&socket(name), dof.clone());
        dtrace(&socket(name), &[&["-a", "-q"], args].concat())
    };
    let typed = "struct pair {\n    int x = 0x1\n    short [2] y = [ 0, 0x2 ]\n}pid_t 0x7\n\n";
    assert_eq!(claim("a", &["-L", &same]), (typed.into(), String::new()));
    assert_eq!(claim("b", &["-L", &behind]), (typed.into(), String::new()));
    for (name, args) in [("c", &["-L", &changed][..]), ("d", &[])] {
        let (out, err) = claim(name, args);
        // The eight bytes are printed as a number.
        assert!(out.contains(&0x0002_0000_0000_0001_u64.to_string()), "{out}");
        assert!(out.ends_with("pid_t 0x7\n\n"), "{out}");
        assert!(err.contains("print( ) of struct pair: unknown type"), "{err}");
        assert_eq!(err.lines().count(), 1, "{err}");
    }
}

/// dtrace reports faults as in other runs: the clause for faults is enabled together with the program.
#[test]
fn faults_and_what_is_aggregated_come() {
    let folder = tempfile::tempdir().unwrap();
    let socket = |name: &str| folder.path().join(name);
    let dof = folder.path().join("dof").display().to_string();
    kernel(&socket("compile"), Vec::new());
    let program = "BEGIN { @[execname] = count(); } BEGIN { trace(*(int *)0); } BEGIN { exit(0); }";
    dtrace(&socket("compile"), &["-A", "-o", &dof, "-n", program]);
    kernel(&socket("claim"), std::fs::read(&dof).unwrap());
    let (out, err) = dtrace(&socket("claim"), &["-a", "-q"]);
    assert_eq!(out.split_whitespace().collect::<Vec<_>>(), ["dtrace", "1"]);
    let fault = "dtrace: error on enabled probe ID 2 (ID 1: dtrace:::BEGIN): invalid address (0x0) in action #1";
    assert!(err.starts_with(fault) && err.lines().count() == 1, "{err}");
}

/// A consumer that claims a program gets the options with which it was enabled.
#[test]
fn a_ring_is_read_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let socket = |name: &str| folder.path().join(name);
    let dof = folder.path().join("dof").display().to_string();
    kernel(&socket("compile"), Vec::new());
    let program = "BEGIN { trace(\"first\"); } tick-10ms { printf(\"%d\\n\", ++n); } tick-10ms /n == 100/ { exit(0); }";
    let args = ["-q", "-x", "bufpolicy=ring", "-b", "512", "-A", "-o", &dof, "-n", program];
    dtrace(&socket("compile"), &args);
    kernel(&socket("claim"), std::fs::read(&dof).unwrap());
    let (out, err) = dtrace(&socket("claim"), &["-a"]);
    let numbers: Vec<u32> = out.trim().lines().map(|line| line.parse().unwrap()).collect();
    assert!(numbers.len() > 5 && numbers.is_sorted_by(|one, next| one + 1 == *next), "{out}");
    assert_eq!((numbers.last(), &*err), (Some(&100), ""), "{out}");
}
