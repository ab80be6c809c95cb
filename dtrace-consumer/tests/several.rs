//! The command with several kernels at once, and with one that does not answer.
#![cfg(target_os = "linux")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use d_process::{Line, Machine};
use dtrace_protocol::{
    Decoder, Detail, Probe, Reply, Request, Run, Side, Status, Symbol, VERSION, Writer,
};

/// Starts a kernel at a socket that serves one connection after the other. `pid` is D's variable `pid` in it. The test receives
/// each connection as well.
fn kernel(socket: &Path, pid: u64) -> mpsc::Receiver<UnixStream> {
    let listener = UnixListener::bind(socket).unwrap();
    let (send, connections) = mpsc::channel();
    thread::spawn(move || {
        for line in listener.incoming() {
            let line = line.unwrap();
            // The test may not receive it.
            let _ = send.send(line.try_clone().unwrap());
            let ends: [OwnedFd; 2] = [line.try_clone().unwrap().into(), line.into()];
            let [input, output] = ends;
            let machine = Machine { pid, ..Machine::default() };
            thread::spawn(move || d_process::serve(machine, Line::new(input, output)));
        }
    });
    connections
}

/// Returns a command of dtrace with the kernels `a` and `b`.
fn dtrace(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dtrace"));
    for name in ["a", "b"] {
        command.arg("--connect").arg(format!("{name}=unix:{}", folder.join(name).display()));
    }
    command
}

fn text(output: &Output) -> (&str, &str, Option<i32>) {
    let [out, err] = [&output.stdout, &output.stderr].map(|of| std::str::from_utf8(of).unwrap());
    (out, err, output.status.code())
}

fn interrupt(child: &Child) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
}

/// Returns the words of each line that is not empty.
fn words(text: &str) -> Vec<Vec<&str>> {
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    lines.filter(|words| !words.is_empty()).collect()
}

#[test]
fn kernels_are_one_trace() {
    let folder = tempfile::tempdir().unwrap();
    let _kernels = [("a", 7), ("b", 35)].map(|(name, pid)| kernel(&folder.path().join(name), pid));
    let run = |args: &[&str]| dtrace(folder.path()).args(args).output().unwrap();

    let output = run(&["-n", "BEGIN { trace(pid); exit(0); }"]);
    let (out, err, status) = text(&output);
    assert_eq!((err, status), ("dtrace: description 'BEGIN ' matched 2 probes\n", Some(0)));
    let rows = words(out);
    assert_eq!(rows[0], ["HOST", "CPU", "ID", "FUNCTION:NAME"]);
    assert_eq!(rows[1], ["a", "0", "1", ":BEGIN", "7"]);
    assert_eq!(rows[2], ["b", "0", "1", ":BEGIN", "35"]);

    // The kernel's name is the first key; the rest of the output does not change.
    let output = run(&["-q", "-n", "BEGIN { @s[\"x\"] = sum(pid); exit(0); }"]);
    assert_eq!(words(text(&output).0), [["a", "x", "7"], ["b", "x", "35"]]);
    let output = run(&["-q", "-n", "BEGIN { @q = quantize(pid); exit(0); }"]);
    assert_eq!(text(&output).0.matches("- Distribution -").count(), 2);

    // A program that uses the kernel's name as a key.
    let output = run(&["-q", "-n", "BEGIN { @[hostname] = count(); @t = sum(pid); exit(0); }"]);
    assert_eq!(words(text(&output).0), [vec!["a", "1"], vec!["b", "1"], vec!["42"]]);

    // A program prints the aggregations of its own kernel, with the kernel's name unless there is a format.
    let output = run(&["-q", "-n", "BEGIN { @ = sum(pid); printa(\"%@d\\n\", @); exit(0); }"]);
    assert_eq!(words(text(&output).0), [["7"], ["35"]]);
    let output = run(&["-q", "-n", "BEGIN { @[1] = sum(pid); printa(@); exit(0); }"]);
    assert_eq!(words(text(&output).0), [["a", "1", "7"], ["b", "1", "35"]]);
    let output =
        run(&["-q", "-n", "BEGIN { @[1] = sum(pid); @b[2] = count(); printa(@, @b); exit(0); }"]);
    let rows = words(text(&output).0);
    assert_eq!(rows[..2], [["a", "2", "0", "1"], ["a", "1", "7", "0"]]);
    assert_eq!(rows[2..], [["b", "2", "0", "1"], ["b", "1", "35", "0"]]);
    let output = run(&["-q", "-n", "BEGIN { @[hostname] = sum(pid); printa(@); exit(0); }"]);
    assert_eq!(words(text(&output).0), [["a", "7"], ["b", "35"]]);

    let output = run(&["-x", "oformat=json", "-n", "BEGIN { trace(1); exit(0); }"]);
    assert_eq!(text(&output).0.matches("\"hostname\": \"b\"").count(), 1, "{}", text(&output).0);
    let output = run(&["-l", "-n", "dtrace:::BEGIN"]);
    let listed = words(text(&output).0);
    assert_eq!((listed.len(), &*listed[0], &*listed[3]), (6, &["a:"][..], &["b:"][..]));
}

/// The first element differs between the kernels. The first element of the sum is the second one in each kernel.
#[test]
fn what_is_added_up_is_truncated_then() {
    let folder = tempfile::tempdir().unwrap();
    let _kernels = [("a", 7), ("b", 35)].map(|(name, pid)| kernel(&folder.path().join(name), pid));
    let count = "BEGIN { @[pid] = sum(10); @[0] = sum(9); exit(0); }";
    let run = |end: &str| {
        let output = dtrace(folder.path()).args(["-q", "-n", count, "-n", end]).output().unwrap();
        let (out, err, status) = text(&output);
        assert_eq!((err, status), ("", Some(0)));
        out.to_owned()
    };
    // Without `hostname`, `trunc` applies to the elements of each kernel.
    assert_eq!(words(&run("END { trunc(@, 1); }")), [["a", "7", "10"], ["b", "35", "10"]]);
    // With `hostname`, `trunc` applies to the sum, as for several CPUs of one kernel.
    let added = run("END /hostname != \"\"/ { trunc(@, 1); }");
    assert_eq!(words(&added), [["0", "18"]]);
    let added = run("END /hostname != \"\"/ { trunc(@, -1); }");
    assert_eq!(words(&added), [["7", "10"]]);
    assert_eq!(words(&run("END /hostname == \"a\"/ { trunc(@); }")), [["0", "9"], ["35", "10"]]);
    // `printa` prints the truncated aggregations of one kernel.
    let printed = run("END /hostname != \"\"/ { trunc(@, 1); printa(@); }");
    assert_eq!(words(&printed), [["7", "10"], ["35", "10"]]);
}

/// A message about a fault or drops names its kernel. A script from a pipe is compiled for all kernels.
#[test]
fn messages_name_the_kernel() {
    let folder = tempfile::tempdir().unwrap();
    let _kernels = ["a", "b"].map(|name| kernel(&folder.path().join(name), 1));
    let run = |args: &[&str], script: &str| {
        let mut command = dtrace(folder.path());
        command.args(["-s", "/dev/stdin"]).args(args).stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    };
    let output = run(&["-q"], "BEGIN { trace(*(int *)0); } BEGIN { exit(0); }");
    let (_, err, status) = text(&output);
    for name in ["a", "b"] {
        let begin = format!("dtrace: {name}: error on enabled probe ID 1 (ID 1: dtrace:::BEGIN): ");
        assert!(err.lines().any(|line| line.starts_with(&begin)), "{err}");
    }
    assert_eq!((err.lines().count(), status), (2, Some(0)), "{err}");

    let dropped = "#pragma D option bufsize=64\n\
        BEGIN { trace(1); } BEGIN { trace(1); } BEGIN { trace(1); } BEGIN { trace(1); } BEGIN { trace(1); }\n\
        BEGIN { trace(1); } BEGIN { trace(1); } BEGIN { trace(1); } tick-50ms { exit(0); }\n";
    let output = run(&["-q"], dropped);
    let (_, err, _) = text(&output);
    for name in ["a", "b"] {
        assert!(err.contains(&format!("dtrace: {name}: ")) && err.contains(" drop"), "{err}");
    }
    let output = run(&["-x", "oformat=json"], dropped);
    let out = text(&output).0;
    for name in ["a", "b"] {
        let begin = format!("{{\"hostname\": \"{name}\", \"cpu\": 0, \"id\": -1");
        assert!(out.contains(&begin), "{out}");
    }
}

#[test]
fn what_is_wrong_names_the_kernel() {
    let folder = tempfile::tempdir().unwrap();
    let _kernels = ["a", "b"].map(|name| kernel(&folder.path().join(name), 1));
    let run = |args: &[&str]| dtrace(folder.path()).args(args).output().unwrap();
    let output = run(&["-n", "nosuch:::probe"]);
    let (out, err, status) = text(&output);
    assert_eq!((out, status), ("", Some(1)));
    let error = "dtrace: a: invalid probe specifier nosuch:::probe: probe description nosuch:::probe does not match any probes\n\
        dtrace: hint: there is no provider nosuch, and no program or module has registered probes: only the framework's own probes \
        exist\n";
    assert_eq!(err, error);
    let output = run(&["-a"]);
    assert!(text(&output).1.contains("support one kernel at a time"), "{output:?}");
    let output = run(&["--connect", "a=unix:/nowhere", "-n", "BEGIN"]);
    assert!(text(&output).1.contains("two kernels have the name a"), "{output:?}");
}

#[test]
fn where_a_line_breaks_the_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let _a = kernel(&folder.path().join("a"), 1);
    let b = kernel(&folder.path().join("b"), 1);
    let mut command = dtrace(folder.path());
    command.args(["-x", "switchrate=50ms", "-x", "aggrate=50ms"]);
    command.args(["-n", "tick-20ms { @n = count(); trace(1); }"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let line = b.recv().unwrap();
    // Waits until dtrace has printed records and has probably read the aggregations several times.
    assert_eq!(lines.by_ref().filter(|line| line.starts_with("b ")).take(10).count(), 10);
    line.shutdown(Shutdown::Both).unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut first = String::new();
    while !first.contains("continues without it") {
        first.clear();
        assert_ne!(said.read_line(&mut first).unwrap(), 0);
    }
    assert!(
        first.starts_with("dtrace: b: ") && first.ends_with("; the trace continues without it\n"),
        "{first}"
    );
    assert_eq!(lines.by_ref().filter(|line| line.starts_with("a ")).take(5).count(), 5);
    interrupt(&child);
    // The values that the other kernel had aggregated until then are printed.
    let rest: Vec<String> = lines.collect();
    let rest = rest.join("\n");
    let rows: Vec<_> = words(&rest).into_iter().filter(|words| words.len() == 2).collect();
    let names: Vec<_> = rows.iter().map(|words| words[0]).collect();
    assert!(names.contains(&"a") && names.contains(&"b"), "{rest}");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let mut left = String::new();
    said.read_to_string(&mut left).unwrap();
    assert_eq!(left, "");
}

/// Forwards data between dtrace, at a socket, and a kernel at another socket. Replaces an answer of the kernel if `instead`
/// returns another one.
fn between(
    socket: &Path,
    kernel: &Path,
    instead: impl Fn(&Reply<'_>) -> Option<Reply<'static>> + Send + 'static,
) {
    let listener = UnixListener::bind(socket).unwrap();
    let mut inner = UnixStream::connect(kernel).unwrap();
    thread::spawn(move || {
        let (mut outer, _) = listener.accept().unwrap();
        let [mut from, mut to] = [outer.try_clone().unwrap(), inner.try_clone().unwrap()];
        // The thread ends when either of the connections is closed.
        thread::spawn(move || _ = std::io::copy(&mut from, &mut to));
        let mut decoder = Decoder::new(vec![0; 64 << 10]);
        let (mut whole, mut byte) = (Vec::new(), [0]);
        while matches!(inner.read(&mut byte), Ok(1)) {
            whole.push(byte[0]);
            let Some(frame) = decoder.push(byte[0]) else { continue };
            let (mut draft, mut bytes) = ([0; 512], [0; 600]);
            if let Ok(frame) = frame
                && let Ok((reply, _)) = frame.message::<Reply<'_>>()
                && let Some(other) = instead(&reply)
            {
                let other = Writer::new(&mut draft, frame.header, &other).unwrap();
                let length = other.seal(&mut bytes).unwrap();
                whole = bytes[..length].to_vec();
            }
            if outer.write_all(&std::mem::take(&mut whole)).is_err() {
                break;
            }
        }
    });
}

/// If a kernel closes the consumer's session, the trace continues without it. Addresses in its earlier data are not printed with
/// the symbols of other kernels.
#[test]
fn where_a_kernel_gives_its_consumer_up_the_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let [a, b, real_a, real_b] = ["a", "b", "ra", "rb"].map(|name| folder.path().join(name));
    let _kernels = [&real_a, &real_b].map(|socket| kernel(socket, 1));
    static KILLED: AtomicBool = AtomicBool::new(false);
    between(&a, &real_a, |reply| {
        let (module, name) = (&b"kernel"[..], &b"of_a_alone"[..]);
        let symbol = Symbol { module, name, address: 0x1000, size: 16 };
        matches!(reply, Reply::Symbol(_)).then_some(Reply::Symbol(Some(symbol)))
    });
    between(&b, &real_b, |reply| match reply {
        Reply::Run(run) if KILLED.load(Ordering::Relaxed) => {
            Some(Reply::Run(Run { killed: true, ..*run }))
        }
        _ => None,
    });
    let mut command = dtrace(folder.path());
    command.args(["-x", "switchrate=50ms", "-x", "aggrate=50ms"]);
    command.args(["-n", "tick-20ms { @n[sym(0x1000)] = count(); trace(1); }"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.by_ref().filter(|line| line.starts_with("b ")).take(10).count(), 10);
    KILLED.store(true, Ordering::Relaxed);
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let gone = said.find(|line| line.ends_with("continues without it")).unwrap();
    assert_eq!(
        gone,
        "dtrace: b: Abort due to systemic unresponsiveness; the trace continues without it"
    );
    assert_eq!(lines.by_ref().filter(|line| line.starts_with("a ")).take(5).count(), 5);
    interrupt(&child);
    let rest = lines.collect::<Vec<_>>().join("\n");
    let rows: Vec<_> = words(&rest).into_iter().filter(|words| words.len() == 3).collect();
    let keys: Vec<_> = rows.iter().map(|words| (words[0], words[1])).collect();
    assert!(keys.contains(&("a", "0x1000")) && keys.contains(&("b", "0x1000")), "{rest}");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// Starts a kernel that has the probe BEGIN, and stops answering when it receives a program. It notifies the test of the request.
fn mute(socket: &Path) -> (thread::JoinHandle<()>, mpsc::Receiver<()>) {
    let listener = UnixListener::bind(socket).unwrap();
    let (asked, wait) = mpsc::channel();
    let thread = thread::spawn(move || {
        let (mut line, _) = listener.accept().unwrap();
        let (mut decoder, mut byte) = (Decoder::new([0; 512]), [0]);
        while matches!(line.read(&mut byte), Ok(1)) {
            let Some(Ok(frame)) = decoder.push(byte[0]) else { continue };
            let (request, _) = frame.message::<Request<'_>>().unwrap();
            let [provider, name, none] = [&b"dtrace"[..], b"BEGIN", b""];
            let probe = Probe { id: 1, provider, module: none, function: none, name };
            let reply = match request {
                Request::Hello { .. } => Reply::Hello { version: VERSION, side: Side::Framework },
                Request::Declared { .. } => Reply::Declared(None),
                Request::Status => Reply::Status(Status { cpus: 1, ..Status::default() }),
                Request::List { .. } => Reply::Probes,
                Request::Describe { .. } => Reply::Detail(Detail {
                    probe,
                    stability: [0; 3],
                    args: [0; 3],
                    provider: [[0; 3]; 5],
                    privileges: 0,
                }),
                Request::Argument { .. } => Reply::Argument(None),
                Request::Open | Request::Option { .. } => Reply::Done,
                Request::Program { .. } | Request::Close => {
                    // The test waits for the first request only; an error means that it no longer listens.
                    let _ = asked.send(());
                    continue;
                }
                other => panic!("{other:?}"),
            };
            let (mut draft, mut bytes) = ([0; 256], [0; 512]);
            let mut frame = Writer::new(&mut draft, frame.header, &reply).unwrap();
            if let Request::List { after: 0, .. } = request {
                frame.push(&probe).unwrap();
            }
            let length = frame.seal(&mut bytes).unwrap();
            line.write_all(&bytes[..length]).unwrap();
        }
    });
    (thread, wait)
}

#[test]
fn an_interrupt_ends_it_where_the_kernel_owes_an_answer() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let (kernel, asked) = mute(&socket);
    let mut command = Command::new(env!("CARGO_BIN_EXE_dtrace"));
    command.args(["--connect", &format!("unix:{}", socket.display()), "-n", "BEGIN"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    asked.recv().unwrap();
    interrupt(&child);
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    let hint = "the kernel did not answer program within 5 s. Since then probes are enabled: if the kernel hangs, check";
    assert!(said.contains(hint), "{said}");
    assert_eq!(child.wait().unwrap().code(), Some(1));
    kernel.join().unwrap();
}

/// A kernel describes the records of an enabled probe in parts, if the description is longer than a frame.
#[test]
fn a_record_may_have_any_number_of_data() {
    const COUNT: usize = 1500;
    let folder = tempfile::tempdir().unwrap();
    let _kernel = kernel(&folder.path().join("a"), 1);
    let program = format!("BEGIN {{ {} exit(0); }}", "trace(7); ".repeat(COUNT));
    let address = format!("unix:{}", folder.path().join("a").display());
    let mut command = Command::new(env!("CARGO_BIN_EXE_dtrace"));
    let output = command.args(["--connect", &address, "-q", "-n", &program]).output().unwrap();
    let (out, err, status) = text(&output);
    assert_eq!((err, status), ("", Some(0)));
    assert_eq!(out, "7".repeat(COUNT) + "\n");
}
