//! `cargo xtask machine`: several consumers trace one machine while modules are loaded and unloaded, and each end of the machine
//! is reported.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use cargo_sdt::internal::arch::Arch;
use dtrace_protocol::{Decoder, Header, Reply, Request, VERSION, Why, Writer};
use harness::workspace;

use crate::bench::{EXAMPLE, module_file, on_one_architecture};
use crate::cli::short_log;

on_one_architecture!(
    several_trace_it_while_modules_come_and_go,
    a_machine_that_dies_is_told_to_everybody,
);

/// Long enough for a machine under load.
const PATIENCE: Duration = Duration::from_secs(120);

/// Returns the path of `dtrace`: cargo gives tests only the programs of their own package.
pub(crate) fn dtrace_program() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let mut cargo = Command::new(env!("CARGO"));
        // Uses the program that the tests of its package run, so that nothing is compiled again.
        cargo.arg("test").args(workspace::TESTED);
        cargo.args(["--no-run", "--quiet", "--test", "command"]);
        assert!(cargo.current_dir(workspace::root()).status().unwrap().success());
        Path::new(env!("CARGO_BIN_EXE_xtask")).with_file_name("dtrace")
    })
}

fn signal(pid: u32, signal: i32) {
    let pid = i32::try_from(pid).expect("process ids are positive i32s");
    // SAFETY: no memory is involved; the process is a child of this one or of a child, and has not been waited for.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

/// A running `cargo xtask machine`. Dropping this ends it.
pub(crate) struct Machine {
    child: Child,
    folder: tempfile::TempDir,
}

impl Machine {
    fn start(arch: Arch) -> Self {
        Self::with(&["--arch", arch.name()], &[module_file(arch)])
    }

    /// Starts a machine with these options and modules.
    pub(crate) fn with(options: &[&str], modules: &[impl AsRef<Path>]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command.arg("machine").args(options);
        modules.iter().for_each(|module| _ = command.arg("--module").arg(module.as_ref()));
        command.arg("--socket").arg(folder.path().join("socket"));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap() == "Ctrl-C stops the machine."), "it comes up");
        Self { child, folder }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// Sends a request to the machine with `cargo xtask machine`.
    fn ask(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command.arg("machine").args(args).arg("--socket").arg(self.socket());
        command.output().unwrap()
    }

    fn asked(&self, args: &[&str]) -> String {
        let output = self.ask(args);
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Returns `dtrace` with these arguments, for this machine.
    pub(crate) fn dtrace(&self, args: &[&str]) -> Command {
        let mut command = Command::new(dtrace_program());
        command.arg("--connect").arg(format!("unix:{}", self.socket().display())).args(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// QEMU's process.
    fn qemu(&self) -> u32 {
        let ours = self.child.id().to_string();
        let processes = std::fs::read_dir("/proc").unwrap();
        let qemu = processes.filter_map(|entry| {
            let pid: u32 = entry.unwrap().file_name().to_str()?.parse().ok()?;
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            // Behind the name, which is in parentheses: state, parent.
            let parent = stat.rsplit_once(") ")?.1.split(' ').nth(1)?.to_owned();
            (parent == ours && stat.contains("(qemu-system")).then_some(pid)
        });
        qemu.last().expect("there is a QEMU")
    }

    /// Waits for its end.
    fn ended(mut self) -> (Option<i32>, String) {
        let mut errors = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        (self.child.wait().unwrap().code(), errors)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // At the end of a test it has ended already; in both cases this reads its status.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A running `dtrace -n`.
struct Tracing {
    child: Child,
    out: BufReader<ChildStdout>,
    err: BufReader<ChildStderr>,
}

impl Tracing {
    /// Starts `dtrace`, and waits until it has enabled its probe.
    fn start(machine: &Machine) -> Self {
        let mut child = machine.dtrace(&["-n", "proc:::exec-success"]).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let mut err = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        err.read_line(&mut line).unwrap();
        assert_eq!(line, "dtrace: description 'proc:::exec-success' matched 1 probe\n");
        Self { child, out, err }
    }

    /// Reads this number of hits.
    fn hits(&mut self, count: usize) {
        let mut seen = 0;
        while seen < count {
            let mut line = String::new();
            assert_ne!(self.out.read_line(&mut line).unwrap(), 0, "{seen} hits of {count}");
            seen += usize::from(line.ends_with("none:exec-success \n"));
        }
    }

    /// Returns its status and the rest of its messages.
    fn end(mut self) -> (Option<i32>, String, String) {
        let (mut out, mut err) = (String::new(), String::new());
        self.out.read_to_string(&mut out).unwrap();
        self.err.read_to_string(&mut err).unwrap();
        (self.child.wait().unwrap().code(), out, err)
    }

    /// Ends it as Ctrl-C does.
    fn interrupt(self) {
        signal(self.child.id(), libc::SIGINT);
        // dtrace prints the aggregations, and an empty line.
        assert_eq!(self.end(), (Some(0), "\n\n".into(), String::new()));
    }
}

fn several_trace_it_while_modules_come_and_go(arch: Arch) {
    let machine = Machine::start(arch);
    let mode = std::fs::metadata(machine.socket()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let (_folder, log) = short_log(40);
    let exec = ["exec", "--workload", log.to_str().unwrap()];

    let (mut first, mut second) = (Tracing::start(&machine), Tracing::start(&machine));
    assert!(machine.asked(&exec).starts_with("40 executions"));
    first.hits(40);
    second.hits(40);
    // A module with enabled probes cannot be unloaded. Other modules can.
    let busy = machine.ask(&["unload", EXAMPLE]);
    let error = String::from_utf8(busy.stderr).unwrap();
    assert_eq!(busy.status.code(), Some(1), "{error}");
    assert!(error.starts_with(&format!("xtask: failed to unload {EXAMPLE}: ")), "{error}");
    first.interrupt();
    machine.asked(&exec);
    second.hits(40);
    // A killed consumer prints nothing, and its enablings are removed.
    signal(second.child.id(), libc::SIGKILL);
    second.end();
    let deadline = Instant::now() + PATIENCE;
    while !machine.ask(&["unload", EXAMPLE]).status.success() {
        assert!(Instant::now() < deadline, "its enablings are still there");
    }
    assert_eq!(machine.asked(&["stat"]).lines().count(), 1);
    let output = machine.dtrace(&["-l", "-P", "proc"]).output().unwrap();
    let error = "dtrace: failed to match proc:::: No probe matches description\n";
    assert!(output.status.success() && output.stderr.starts_with(error.as_bytes()), "{output:?}");

    let file = module_file(arch).to_str().unwrap();
    assert_eq!(machine.asked(&["load", file]), format!("loaded {EXAMPLE}\n"));
    let listed = machine.dtrace(&["-lv", "-P", "proc"]).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(
        listed.contains("none exec-success\n") && listed.contains("args[0]: char * (args.path)\n")
    );
    let mut third = Tracing::start(&machine);
    machine.asked(&exec);
    third.hits(40);

    machine.asked(&["stop"]);
    assert_eq!(
        third.end(),
        (Some(1), "\n".into(), "dtrace: the machine has been stopped\n".into())
    );
    let socket = machine.socket();
    let (status, errors) = machine.ended();
    assert_eq!(status, Some(0), "{errors}");
    assert!(!socket.exists());
}

fn a_machine_that_dies_is_told_to_everybody(arch: Arch) {
    let machine = Machine::start(arch);
    let (first, second) = (Tracing::start(&machine), Tracing::start(&machine));
    signal(machine.qemu(), libc::SIGKILL);
    let told = "the machine has ended: QEMU ended: signal: 9 (SIGKILL)\n  kernel: ";
    for tracing in [first, second] {
        let (status, _, error) = tracing.end();
        assert_eq!(status, Some(1), "{error}");
        assert!(error.starts_with(&format!("dtrace: {told}")), "{error}");
        assert!(error.contains("  kernel: stand-in kernel is up\n"), "{error}");
    }
    let socket = machine.socket();
    let (status, errors) = machine.ended();
    assert_eq!(status, Some(1), "{errors}");
    assert!(errors.contains(&format!("xtask: {told}")), "{errors}");
    assert!(!socket.exists());
}

#[test]
fn one_socket_is_one_machines_and_goes_with_it() {
    let machine = Machine::start(Arch::X86_64);
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    let taken = command.args(["machine", "--socket"]).arg(machine.socket()).output().unwrap();
    let error = String::from_utf8(taken.stderr).unwrap();
    assert_eq!(taken.status.code(), Some(1));
    assert!(error.starts_with("xtask: a machine is running at "), "{error}");

    let (socket, qemu) = (machine.socket(), machine.qemu());
    signal(machine.child.id(), libc::SIGTERM);
    let (status, errors) = machine.ended();
    assert_eq!(status, Some(0), "{errors}");
    assert!(!socket.exists());
    assert!(!Path::new(&format!("/proc/{qemu}")).exists());
    // A command for the missing machine says how to start one.
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    let missing = command.args(["machine", "stat", "--socket"]).arg(&socket).output().unwrap();
    let error = String::from_utf8(missing.stderr).unwrap();
    assert!(error.ends_with("; start one with cargo xtask machine\n"), "{error}");
}

#[test]
fn another_version_is_told_ours_and_nothing_more() {
    let machine = Machine::start(Arch::X86_64);
    let mut line = UnixStream::connect(machine.socket()).unwrap();
    line.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut ask = |request: Request<'_>| {
        let (mut buffer, mut bytes) = ([0; 64], [0; 80]);
        let frame = Writer::new(&mut buffer, Header { channel: 9, seq: 5 }, &request).unwrap();
        let length = frame.seal(&mut bytes).unwrap();
        // Noise before it changes nothing.
        line.write_all(b"\0noise\0").unwrap();
        line.write_all(&bytes[..length]).unwrap();
        let (mut decoder, mut byte) = (Decoder::new([0; 4096]), [0]);
        loop {
            line.read_exact(&mut byte).unwrap();
            if let Some(frame) = decoder.push(byte[0]) {
                let frame = frame.unwrap();
                assert_eq!(frame.header, Header { channel: 9, seq: 5 });
                break match frame.message().unwrap().0 {
                    Reply::Hello { version, .. } => Ok(version),
                    Reply::Refused { why, .. } => Err(why),
                    other => panic!("{other:?}"),
                };
            }
        }
    };
    assert_eq!(ask(Request::Hello { version: VERSION + 1 }), Ok(VERSION));
    assert_eq!(ask(Request::Status), Err(Why::NotGreeted));
    // The machine still works.
    let output = machine.dtrace(&["-l", "-P", "proc"]).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 2);
}
