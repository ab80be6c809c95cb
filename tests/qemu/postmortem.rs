//! `dtrace --core` on dumps of a machine, made by QEMU while its kernel was recording: the last records are readable
//! without the kernel's help.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use cargo_sdt::internal::arch::Arch;
use dtrace_consumer::compiler::Source;
use dtrace_consumer::compiler::options::Options;
use dtrace_consumer::{Running, Trace};
use harness::qemu;
use harness::session::Session;
use sdt_protocol::{Event, Request};

use crate::bench::{EXAMPLE, boot_by, log, module, on_every_architecture};
use crate::machine::dtrace_program;

on_every_architecture!(a_dump_has_the_last_moments);

/// Long enough for a machine under load.
const PATIENCE: Duration = Duration::from_secs(120);

/// The connection to QEMU's monitor (QMP).
struct Monitor(BufReader<UnixStream>);

impl Monitor {
    fn new(socket: &Path) -> Self {
        let line = UnixStream::connect(socket).unwrap();
        line.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut monitor = Self(BufReader::new(line));
        monitor.tell("qmp_capabilities", "{}");
        monitor
    }

    /// Sends a command, and waits until it is done.
    fn tell(&mut self, command: &str, arguments: &str) {
        let text = format!("{{\"execute\": \"{command}\", \"arguments\": {arguments}}}\n");
        self.0.get_mut().write_all(text.as_bytes()).unwrap();
        let answer = self.0.by_ref().lines().map(Result::unwrap).find(|line| {
            // QEMU also sends a greeting and events.
            line.starts_with("{\"return\"") || line.starts_with("{\"error\"")
        });
        let answer = answer.unwrap();
        assert!(answer.starts_with("{\"return\""), "{command} {arguments}: {answer}");
    }
}

/// Returns a script that starts QEMU with a monitor, and the monitor's socket.
fn monitored(arch: Arch, folder: &Path) -> (PathBuf, PathBuf) {
    let (script, socket) = (folder.join("qemu"), folder.join("monitor"));
    let qemu = qemu::find(arch).unwrap();
    let text = format!(
        "#!/bin/sh\nexec {} \"$@\" -qmp unix:{},server=on,wait=off\n",
        qemu.display(),
        socket.display()
    );
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    (script, socket)
}

const TEXT: &str = "proc:::exec-success { printf(\"exec %s\\n\", stringof(arg0)); @ = count(); }";

/// Starts a program that records into a ring.
fn tracing(session: &mut Session) -> Running {
    let mut options = Options::default();
    for (name, value) in [("bufpolicy", "ring"), ("bufsize", "8k"), ("aggsize", "64k")] {
        options.set(name, Some(value)).unwrap();
    }
    let mut trace = Trace::new(session.connect().unwrap(), options, 0);
    let program = trace.compile(Source::line(TEXT.as_bytes())).unwrap();
    assert_eq!(trace.enable(&program).unwrap(), 1);
    trace.go().unwrap()
}

/// Returns the output of dtrace for a dump.
fn printed(file: &Path) -> String {
    let output = Command::new(dtrace_program()).arg("-q").arg("--core").arg(file).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.is_empty(), "{}: {said}", file.display());
    String::from_utf8(output.stdout).unwrap()
}

fn a_dump_has_the_last_moments(arch: Arch) {
    let folder = tempfile::tempdir().unwrap();
    let (qemu, socket) = monitored(arch, folder.path());
    let mut session = boot_by(arch, 2, qemu);
    session.kldload(EXAMPLE, module(arch)).unwrap();
    let running = tracing(&mut session);
    let mut monitor = Monitor::new(&socket);
    let log = log();
    let execs: Vec<_> = log.iter().cycle().take(200).cloned().collect();
    session.exec_at_once(&execs).unwrap();
    // The following commands stop the machine at an arbitrary instruction.
    let asked = session.wire.send(Request::Exec { execs: execs.clone() }, PATIENCE).unwrap();
    monitor.tell("stop", "{}");
    let elf = folder.path().join("elf");
    let path = elf.display();
    let arguments = format!("{{\"paging\": false, \"protocol\": \"file:{path}\"}}");
    monitor.tell("dump-guest-memory", &arguments);
    // The raw memory, from the address at which the machine's RAM begins.
    let raw = folder.path().join("raw");
    let (path, begin) = (raw.display(), memory_at(arch));
    let arguments =
        format!("{{\"val\": {begin}, \"size\": {}, \"filename\": \"{path}\"}}", 256 << 20);
    monitor.tell("pmemsave", &arguments);
    monitor.tell("cont", "{}");
    let is_answer = |event: &Event| matches!(event, Event::Reply { seq, .. } if *seq == asked);
    while !session.wire.next(Instant::now() + PATIENCE).unwrap().is_some_and(|of| is_answer(&of)) {}

    let shown = printed(&elf);
    assert_eq!(printed(&raw), shown, "a moment is a moment");
    let known: BTreeSet<_> = execs.iter().map(|exec| &*exec.path).collect();
    let seen: Vec<_> = shown.lines().filter_map(|line| line.strip_prefix("exec ")).collect();
    assert!(seen.len() > 20 && seen.iter().all(|path| known.contains(path)), "{shown}");
    let counted: u64 = shown.lines().find_map(|line| line.trim().parse().ok()).unwrap();
    assert!((200..=400).contains(&counted) && counted >= seen.len() as u64, "{counted}: {shown}");
    drop(running);
}

/// The address of the machine's memory.
const fn memory_at(arch: Arch) -> u64 {
    match arch {
        Arch::X86_64 => 0,
        Arch::Aarch64 => 0x4000_0000,
        Arch::Riscv64 => 0x8000_0000,
    }
}
