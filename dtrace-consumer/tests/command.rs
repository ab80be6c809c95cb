//! The command with its options, against a host of the framework at a socket.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;

use d_process::{Line, Machine};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

/// Starts a host that serves one consumer after the other. Returns its address.
fn host(folder: &Path) -> String {
    let socket = folder.join("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    thread::spawn(move || {
        for line in listener.incoming() {
            let line = line.unwrap();
            let output: OwnedFd = line.try_clone().unwrap().into();
            d_process::serve(Machine::default(), Line::new(line.into(), output));
        }
    });
    format!("unix:{}", socket.display())
}

fn dtrace(folder: &Path, args: &[&str]) -> Output {
    let socket = format!("unix:{}", folder.join("socket").display());
    let mut command = Command::new(env!("CARGO_BIN_EXE_dtrace"));
    command.current_dir(folder).args(["--connect", &socket]).args(args).output().unwrap()
}

/// Runs dtrace; returns its standard output, its messages, and its exit status.
fn ran(folder: &Path, args: &[&str]) -> (String, String, i32) {
    let Output { stdout, stderr, status } = dtrace(folder, args);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(stdout), text(stderr), status.code().unwrap())
}

#[test]
fn scripts_and_their_arguments() {
    let folder = tempfile::tempdir().unwrap();
    host(folder.path());
    let script = "#!/usr/sbin/dtrace -qs\nBEGIN { printf(\"%s %d\\n\", $$1, $2); exit(4); }\n";
    fs::write(folder.path().join("x.d"), script).unwrap();
    let printed = ran(folder.path(), &["-qs", "x.d", "one", "2"]);
    assert_eq!(printed, ("one 2\n\n".into(), String::new(), 4));
    // A declaration in one program is visible in the next one.
    let (out, _, _) =
        ran(folder.path(), &["-q", "-n", "BEGIN{x=1}", "-n", "BEGIN{trace(x); exit(0)}"]);
    assert_eq!(out, "1\n");
}

#[test]
fn scripts_are_preprocessed() {
    let folder = tempfile::tempdir().unwrap();
    host(folder.path());
    fs::write(folder.path().join("x.h"), "#define SIX 6\n").unwrap();
    let script = "#include <x.h>\nBEGIN { trace(SIX * N); exit(0); }\n";
    fs::write(folder.path().join("x.d"), script).unwrap();
    let printed = ran(folder.path(), &["-q", "-C", "-I", ".", "-D", "N=7", "-s", "x.d"]);
    assert_eq!(printed, ("42\n".into(), String::new(), 0));
    let (_, error, status) = ran(folder.path(), &["-C", "-s", "x.d"]);
    let end =
        "dtrace: failed to compile script x.d: Preprocessor failed to process input program\n";
    assert!(error.ends_with(end) && status == 1, "{error}");
    assert!(error.contains("x.d:1:") && !error.contains("/dev/stdin"), "{error}");
}

#[test]
fn a_command_ends_the_run() {
    let folder = tempfile::tempdir().unwrap();
    host(folder.path());
    let (out, error, status) =
        ran(folder.path(), &["-c", "touch made", "-n", "END { trace($target > 1); }"]);
    assert!(folder.path().join("made").exists() && status == 0);
    assert!(out.contains(":END         1\n"), "{out}");
    assert!(error.contains(" has exited\n"), "{error}");
    let printed = ran(folder.path(), &["-c", "/nowhere/x", "-n", "BEGIN"]);
    let error = "dtrace: failed to execute /nowhere/x: No such file or directory\n";
    assert_eq!(printed, (String::new(), error.into(), 1));
}

/// Runs a wrong command line without a host; returns the message and the exit status.
fn refused(args: &[&str]) -> (String, i32) {
    let Output { stdout, stderr, status } =
        Command::new(env!("CARGO_BIN_EXE_dtrace")).args(args).output().unwrap();
    assert!(stdout.is_empty());
    (String::from_utf8(stderr).unwrap(), status.code().unwrap())
}

#[test]
fn who_names_no_target_is_told_which_there_are() {
    for args in [&["-l"][..], &["-n", "BEGIN"], &["-q", "-n", "tick-1s"]] {
        let (said, status) = refused(args);
        assert_eq!((said.lines().count(), status), (1, 1), "{said}");
        for option in ["no target: ", "-p PID", "-c CMD", "--connect ADDRESS", "--core FILE"] {
            assert!(said.contains(option), "{said}");
        }
    }
    // One line names the conflict; the usage would not.
    let (said, status) = refused(&["-p", "1", "-c", "true", "-n", "BEGIN"]);
    assert_eq!((said.lines().count(), status), (1, 2), "{said}");
    assert!(said.contains("cannot be used with"), "{said}");
    let (said, status) = refused(&["-y"]);
    assert!(said.starts_with("dtrace: illegal option -- y\nUsage: ") && status == 2, "{said}");
}

/// Hints are printed in files and pipes, too; the source line is not.
#[test]
fn hints_follow_the_error() {
    let (said, status) = refused(&["-x", "bufpolicy=foo", "-n", "BEGIN"]);
    let expected = "dtrace: failed to set -x bufpolicy: Invalid value for specified option\n\
        dtrace: hint: bufpolicy takes switch, fill or ring\n";
    assert_eq!((&*said, status), (expected, 1));
    let (said, _) = refused(&["-x", "strszie=8", "-n", "BEGIN"]);
    let expected = "dtrace: failed to set -x strszie: Invalid option name\n\
        dtrace: hint: did you mean strsize?\n";
    assert_eq!(said, expected);
    let (said, _) = refused(&["--functions", "/nowhere"]);
    assert_eq!(said, "dtrace: /nowhere: No such file or directory\n");
    let (said, _) = refused(&["-p", "1"]);
    let expected = "dtrace: no probes specified\n\
        dtrace: hint: -n PROBE enables probes, -s FILE runs a script, -l lists probes\n";
    assert_eq!(said, expected);
    let folder = tempfile::tempdir().unwrap();
    host(folder.path());
    let (_, said, _) = ran(folder.path(), &["-n", "BEGIN { panic(); }"]);
    assert!(
        said.ends_with("not allowed\ndtrace: hint: -w permits destructive actions\n"),
        "{said}"
    );
    let (_, said, _) = ran(folder.path(), &["-n", "BEGIN { trace(execnam); }"]);
    assert!(
        said.ends_with("Unknown variable name\ndtrace: hint: did you mean execname?\n"),
        "{said}"
    );
    let (_, said, _) = ran(folder.path(), &["-n", "dtrace:::BEGNI"]);
    assert!(said.ends_with("any probes\ndtrace: hint: did you mean BEGIN?\n"), "{said}");
    let (_, said, _) = ran(folder.path(), &["-l", "-n", "dtrace:::BEGNI"]);
    let expected = "dtrace: failed to match dtrace:::BEGNI: No probe matches description\n\
        dtrace: hint: did you mean BEGIN?\n";
    assert_eq!(said, expected);
}

#[test]
fn an_option_that_the_kernel_refuses_is_named() {
    let folder = tempfile::tempdir().unwrap();
    host(folder.path());
    let (_, said, status) = ran(folder.path(), &["-x", "cpu=99", "-n", "BEGIN { exit(0); }"]);
    let expected = "dtrace: failed to enable 'BEGIN ': option cpu cannot be set to 99; its values are 0 to 0\n";
    assert_eq!((&*said, status), (expected, 1));
}

#[test]
fn no_argument_prints_the_usage() {
    let (said, status) = refused(&[]);
    assert!(said.starts_with("Usage: dtrace -p pid") && status == 2, "{said}");
}

/// Runs a command line that needs no kernel, and returns its standard output.
fn printed(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_dtrace")).args(args).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn all_options_have_help() {
    let help = printed(&["-x", "help"]);
    for option in dtrace_consumer::compiler::options::ALL {
        assert!(help.lines().any(|line| line.starts_with(option.name)), "{}", option.name);
    }
}

#[test]
fn shells_get_completions() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = printed(&["--completions", shell]);
        assert!(script.contains("flamegraph") && script.contains("connect"), "{shell}: {script}");
    }
}

/// An option in a program has the same effect as one of the command line.
#[test]
fn a_program_sets_the_format_of_its_output() {
    let folder = tempfile::tempdir().unwrap();
    host(folder.path());
    let clause = "#pragma D option oformat=json\nBEGIN { printf(\"hit\"); exit(0); }";
    let json = ran(folder.path(), &["-q", "-n", clause]).0;
    let document: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(document["dtrace"]["probes"][0]["output"][0]["message"], "hit");
}

/// As in dtrace.c, dtrace ends at once if programs match no probes, because nothing would end the run later.
#[test]
fn a_program_that_matches_no_probes_ends() {
    let folder = tempfile::tempdir().unwrap();
    host(folder.path());
    let (out, said, status) = ran(folder.path(), &["-x", "empty", "-n", ""]);
    assert_eq!((&*out, status), ("", 1));
    assert_eq!(said, "dtrace: description '' matched 0 probes\ndtrace: no probes matched\n");
}

#[test]
fn options_are_repeated_as_getopt_allows() {
    let folder = tempfile::tempdir().unwrap();
    host(folder.path());
    let args = ["-q", "-q", "-b", "1k", "-b", "64k", "-n", "BEGIN { trace(1); exit(0); }"];
    assert_eq!(ran(folder.path(), &args), ("1\n".into(), String::new(), 0));
}

#[test]
fn versions() {
    let version = |option| {
        let output = Command::new(env!("CARGO_BIN_EXE_dtrace")).arg(option).output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(version("-V"), "dtrace: Sun D 1.13\n");
    assert_eq!(
        version("--version"),
        format!("dtrace: Sun D 1.13, sdt {}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn output_goes_where_it_is_to() {
    let folder = tempfile::tempdir().unwrap();
    host(folder.path());
    for _ in 0..2 {
        let args = ["-q", "-o", "out", "-n", "BEGIN { printf(\"x\\n\"); exit(0); }"];
        assert_eq!(ran(folder.path(), &args), (String::new(), String::new(), 0));
    }
    // `-o` appends to the file, as in dtrace(1).
    assert_eq!(fs::read_to_string(folder.path().join("out")).unwrap(), "x\n\nx\n\n");
    let (out, listing, _) = ran(folder.path(), &["-S", "-e", "-n", "BEGIN { trace(1); }"]);
    assert!(
        out.is_empty() && listing.starts_with("\nDIFO 0x1 returns D type (integer)"),
        "{listing}"
    );
    let (_, said, _) = ran(folder.path(), &["-A", "-n", "BEGIN { trace(1); }"]);
    assert_eq!(said, "dtrace: saved anonymous enabling in dtrace.dof\n");
    assert!(fs::read(folder.path().join("dtrace.dof")).unwrap().starts_with(b"\x7fDOF"));
}

/// Features of the libraries of illumos and Oracle in addition to D's own, and complete translators.
#[test]
fn what_comes_from_libraries_elsewhere_is_here() {
    let folder = tempfile::tempdir().unwrap();
    host(folder.path());
    let printed = |text: &str| {
        let program = format!("BEGIN {{ {text} exit(0); }} ERROR {{ exit(9); }}");
        let (out, error, status) = ran(folder.path(), &["-q", "-n", &program]);
        assert_eq!((&*error, status), ("", 0), "{text}: {out}");
        out
    };
    let address = "this->a = (uint8_t *)alloca(20); this->a[0] = 0xde; this->a[5] = 7;";
    let shown = printed(&format!("{address} trace(link_ntop(ARPHRD_ETHER, this->a));"));
    assert_eq!(shown, "de:00:00:00:00:07\n");
    let shown = printed(&format!("{address} trace(link_ntop(ARPHRD_INFINIBAND, this->a));"));
    assert_eq!(shown, format!("de:00:00:00:00:07{}\n", ":00".repeat(14)));
    let shown = printed("printf(\"%d %d %d %s %s\", chip == cpu, pset, lgrp, cwd, root);");
    assert_eq!(shown, "1 0 0 <unknown> <unknown>\n");
    let shown = printed("print(*curcpu);");
    assert!(shown.starts_with("cpuinfo_t {\n    processorid_t cpu_id = 0\n"), "{shown}");
    // The names in a `psinfo_t` are printed as strings, and the members after them are printed as well.
    let shown = printed("print(*curpsinfo);");
    assert!(
        shown.contains("string pr_fname = [ \"") && shown.contains("pr_arglen = 0x"),
        "{shown}"
    );
    assert_eq!(printed("print(\"cüneyt\");"), "string \"cüneyt\"\n\n");
    let shown = printed(
        "this->p = (string *)alloca(512); *this->p = strjoin(\"a\", \"b\"); trace(*this->p);",
    );
    assert_eq!(shown, "ab\n");
}

#[test]
fn colours_and_pictures() {
    let folder = tempfile::tempdir().unwrap();
    host(folder.path());
    let clause = "BEGIN { @ = quantize(7); printf(\"hit\"); exit(0); }";
    let pictures = ["--heatmap", "h.svg", "--perfetto", "p.json"];
    let args = [&["--color", "always", "-q", "-n", clause], &pictures[..]].concat();
    let (out, error, status) = ran(folder.path(), &args);
    assert!(out.contains("|\u{1b}[36m@@@") && status == 0, "{out}{error}");
    let read = |name| fs::read_to_string(folder.path().join(name)).unwrap();
    assert!(read("h.svg").starts_with("<svg"));
    let timeline: serde_json::Value = serde_json::from_str(&read("p.json")).unwrap();
    let events = timeline["traceEvents"].as_array().unwrap();
    assert!(events.iter().any(|event| event["args"]["output"] == "hit"), "{timeline}");
    let json = ran(folder.path(), &["-q", "-x", "oformat=json", "-n", clause]).0;
    let document: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(document["dtrace"]["probes"][0]["output"][0]["message"], "hit");
}

#[test]
fn one_picture_that_cannot_be_drawn_leaves_the_other() {
    let folder = tempfile::tempdir().unwrap();
    host(folder.path());
    let pictures = ["--flamegraph", "f.svg", "--heatmap", "h.svg"];
    let clause = "BEGIN { @ = quantize(7); exit(0); }";
    let (_, error, status) = ran(folder.path(), &[&["-q", "-n", clause], &pictures[..]].concat());
    assert!(error.contains("f.svg") && status == 1, "{error}");
    assert!(!folder.path().join("f.svg").exists());
    assert!(fs::read_to_string(folder.path().join("h.svg")).unwrap().starts_with("<svg"));
}

/// The result is that of libdtrace's `dt_aggwalk_rval`.
#[test]
fn nothing_is_divided_by_zero() {
    let folder = tempfile::tempdir().unwrap();
    host(folder.path());
    let clause = "BEGIN { @a = sum(10); @b = sum(10); normalize(@a, 5); normalize(@b, 5); \
        normalize(@b, 0); printa(\"%@d \", @a); printa(\"%@d\", @b); exit(0); }";
    assert_eq!(ran(folder.path(), &["-q", "-n", clause]).0, "2 10\n");
}

#[test]
fn what_has_no_end_is_no_script() {
    let folder = tempfile::tempdir().unwrap();
    host(folder.path());
    let refused = ran(folder.path(), &["-s", "/dev/zero"]);
    let why = "dtrace: failed to open /dev/zero: the file has more than 16777216 bytes\n";
    assert_eq!(refused, (String::new(), why.to_owned(), 1));
}

/// An interrupt ends dtrace at once while it reads and compiles programs, because no trace has to be stopped.
#[test]
fn an_interrupt_ends_compiling_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("script.d");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut dtrace = Command::new(env!("CARGO_BIN_EXE_dtrace"))
        .args(["--connect", &host(folder.path()), "-s"])
        .arg(&pipe)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // `open` succeeds without waiting once dtrace reads.
    let _written = loop {
        match rustix::fs::open(&pipe, OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty()) {
            Ok(file) => break file,
            Err(error) => assert_eq!(error, Errno::NXIO),
        }
        assert_eq!(dtrace.try_wait().unwrap(), None);
    };
    kill_process(Pid::from_child(&dtrace), Signal::INT).unwrap();
    assert_eq!(dtrace.wait().unwrap().code(), Some(130));
}

/// The length in a `printm` datum is a number of 8 bytes, and its offset need not be a multiple of 8.
#[test]
fn memory_of_any_size_leaves_its_neighbours_alone() {
    let folder = tempfile::tempdir().unwrap();
    host(folder.path());
    for (size, shown) in [(4, "41 42 43 44 "), (3, "41 42 43 "), (1, "41 "), (6, "45 46 ")] {
        let clause = format!(
            "int a; BEGIN {{ a = 7; this->p = (char *)alloca(64); bcopy(\"ABCDEFGH\", this->p, 8); \
             printf(\"a=%d\\n\", a); printf(\"b=%d\\n\", a); printm({size}, memref(this->p, {size})); \
             printf(\"c=%d\\n\", a); exit(0); }}"
        );
        let (out, error, status) = ran(folder.path(), &["-q", "-n", &clause]);
        assert_eq!((&*error, status), ("", 0), "{size}");
        assert!(out.starts_with("a=7\nb=7\n") && out.contains("c=7\n"), "{size}: {out}");
        assert!(out.contains(shown), "{size}: {out}");
    }
}

/// A dynamic size of 0 stands for the maximum, as in dtrace(1).
#[test]
fn no_bytes_of_memory_are_made_up() {
    let folder = tempfile::tempdir().unwrap();
    host(folder.path());
    let shown = |size: &str| {
        let clause = format!(
            "BEGIN {{ this->p = (char *)alloca(64); bcopy(\"ABCDEFGH\", this->p, 8); \
             tracemem(this->p, 16, {size}); exit(0); }}"
        );
        ran(folder.path(), &["-q", "-n", &clause]).0
    };
    assert_eq!(shown("0"), shown("16"));
    assert!(shown("2").contains(" 41 42 ") && !shown("2").contains("43"));
    assert!(shown("0").contains(" 41 42 43 44 45 46 47 48 00 "), "{}", shown("0"));
}

#[test]
fn a_buffer_that_is_smaller_than_requested_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    host(folder.path());
    let (_, err, status) = ran(folder.path(), &["-q", "-b", "64g", "-n", "BEGIN { exit(0); }"]);
    assert!(
        err.starts_with("dtrace: buffer size lowered to ") && err.lines().count() == 1,
        "{err}"
    );
    assert_eq!(status, 0);
    let options = ["-q", "-x", "dynvarsize=64g", "-x", "aggsize=64g"];
    let text = "BEGIN { self->x = 1; @ = count(); exit(0); }";
    let (_, err, _) = ran(folder.path(), &[&options[..], &["-n", text]].concat());
    for name in ["aggregation", "dynamic variable"] {
        assert!(err.contains(&format!("dtrace: {name} size lowered to ")), "{err}");
    }
    // A program without aggregations needs no buffer for them.
    let (_, err, _) =
        ran(folder.path(), &["-q", "-x", "aggsize=64g", "-b", "64k", "-n", "BEGIN { exit(0); }"]);
    assert_eq!(err, "");
}

#[test]
fn a_list_of_a_host_without_an_image_says_so() {
    let folder = tempfile::tempdir().unwrap();
    host(folder.path());
    let (out, err, status) = ran(folder.path(), &["-l"]);
    assert!(out.contains("BEGIN") && status == 0, "{out}");
    assert!(err.starts_with("dtrace: no program or module has registered probes"), "{err}");
    let (_, err, _) = ran(folder.path(), &["-l", "-P", "dtrace"]);
    assert_eq!(err, "");
}
