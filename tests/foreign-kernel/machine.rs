//! The kernel on a machine: building it, booting it, its shell, its memory, and `dtrace` on its line.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use cargo_sdt::internal::arch::Arch;
use cargo_sdt::internal::module::{compile_apart, linker_variable, run_cargo};
use harness::{qemu, setup, workspace};
use object::{Object as _, ObjectSection as _};
use tempfile::TempDir;

/// Long enough for a machine under load.
const PATIENCE: Duration = Duration::from_secs(300);
/// No test takes this long. A kernel that still runs then hangs, and is killed, which ends every wait for it.
const LIFE: Duration = Duration::from_secs(900);
const TARGET: &str = "x86_64-unknown-none";

/// Builds the kernel, as a reader of the guide does, and returns its path.
pub fn kernel(mode: &str) -> PathBuf {
    // Cargo writes the kernels of all modes to the same place.
    static BUILDING: Mutex<()> = Mutex::new(());
    let _building = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
    let target = Path::new(TARGET);
    let lld = cargo_sdt::internal::setup::lld().expect("a linker");
    let mut command = setup::cargo_for("build", TARGET, "core,alloc").expect("a toolchain");
    // The flags of the kernel's own configuration must apply.
    command.env_remove("CARGO_ENCODED_RUSTFLAGS");
    command.current_dir(workspace::root().join("tests/foreign-kernel/kernel"));
    command.env(linker_variable(target), lld.program()).env("SDT_PATCH", mode);
    compile_apart(&mut command, &[], &[mode]);
    command.arg("--release").arg("--target-dir").arg(workspace::project().cargo_target());
    let artifacts = run_cargo(&mut command, "building the foreign kernel", "kernel", target);
    let mut artifacts = artifacts.expect("it builds").into_iter().rev();
    let built = artifacts.find_map(|artifact| artifact.executable).expect("it is a program");
    let folder = workspace::build_dir().join("foreign-kernel");
    std::fs::create_dir_all(&folder).expect("a folder");
    let own = folder.join(format!("kernel-{mode}"));
    std::fs::copy(built, &own).expect("it was built");
    own
}

/// The counts of a CPU.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    pub to_send: u64,
    pub sent: u64,
    pub received: u64,
}

/// The running kernel. Dropping this ends QEMU.
pub struct Machine {
    qemu: Arc<Mutex<Child>>,
    /// Dropping it ends the thread that limits the run time of QEMU.
    _lives: Sender<()>,
    folder: TempDir,
    shell: BufReader<UnixStream>,
    monitor: BufReader<UnixStream>,
}

impl Machine {
    /// Boots the kernel with two CPUs. The serial lines and QEMU's monitor are sockets.
    pub fn boot(kernel: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = |name: &str| folder.path().join(name);
        let option = |name: &str| format!("unix:{},server=on,wait=off", socket(name).display());
        let mut command = Command::new(qemu::find(Arch::X86_64).expect("QEMU"));
        command.args(["-cpu", "max", "-smp", "2", "-m", "256", "-display", "none", "-no-reboot"]);
        command.arg("-serial").arg(option("line")).arg("-serial").arg(option("shell"));
        command.arg("-monitor").arg(option("monitor")).arg("-kernel").arg(kernel);
        let mut qemu = command.stdin(Stdio::null()).spawn().expect("QEMU runs");
        let mut connect = |name: &str| loop {
            if let Ok(stream) = UnixStream::connect(socket(name)) {
                stream.set_read_timeout(Some(PATIENCE)).expect("not zero");
                break BufReader::new(stream);
            }
            assert_eq!(qemu.try_wait().expect("it is ours"), None, "QEMU has ended");
            thread::sleep(Duration::from_millis(20));
        };
        let (shell, monitor) = (connect("shell"), connect("monitor"));
        let qemu = Arc::new(Mutex::new(qemu));
        let mut machine = Self { _lives: mortal(Arc::clone(&qemu)), qemu, folder, shell, monitor };
        machine.prompt();
        machine
    }

    /// Types a line into the kernel's shell.
    pub fn type_in(&mut self, line: &str) {
        writeln!(self.shell.get_mut(), "{line}").expect("it is there");
    }

    /// The next line that the kernel prints there.
    pub fn printed(&mut self) -> String {
        let mut line = String::new();
        assert_ne!(self.shell.read_line(&mut line).expect("the kernel answers"), 0, "QEMU is gone");
        line.trim_end().to_owned()
    }

    /// Types a line that the shell answers with the counts of each CPU.
    fn ask(&mut self, line: &str) -> [Counts; 2] {
        self.type_in(line);
        [0, 1].map(|cpu| {
            let line = self.printed();
            let counts =
                line.strip_prefix(&format!("CPU {cpu}: ")).unwrap_or_else(|| panic!("{line}"));
            let mut counts = counts.split(", ").map(|count| {
                let number = count.split(' ').next().unwrap_or_default();
                number.parse().unwrap_or_else(|_| panic!("{line}"))
            });
            let mut next = || counts.next().unwrap_or_else(|| panic!("{line}"));
            Counts { to_send: next(), sent: next(), received: next() }
        })
    }

    pub fn counts(&mut self) -> [Counts; 2] {
        self.ask("count")
    }

    /// Makes each CPU send this number of letters.
    pub fn send(&mut self, letters: u64) {
        self.ask(&format!("send {letters}"));
    }

    /// Returns the counts of the CPUs when all letters have been sent and received.
    pub fn idle(&mut self) -> [Counts; 2] {
        let patience = Instant::now() + PATIENCE;
        loop {
            let counts = self.counts();
            let sum = |of: fn(&Counts) -> u64| counts.iter().map(of).sum::<u64>();
            if sum(|cpu| cpu.to_send) == 0 && sum(|cpu| cpu.sent) == sum(|cpu| cpu.received) {
                return counts;
            }
            assert!(Instant::now() < patience, "{counts:?}");
        }
    }

    /// Reads up to QEMU's prompt.
    fn prompt(&mut self) {
        let mut text = Vec::new();
        while !text.ends_with(b"(qemu) ") {
            let mut byte = [0];
            self.monitor.read_exact(&mut byte).expect("QEMU answers");
            text.push(byte[0]);
        }
    }

    /// Returns the number of bytes of the kernel's text in memory that differ from its file.
    pub fn changed_text(&mut self, kernel: &Path) -> usize {
        let file = std::fs::read(kernel).expect("the kernel");
        let file = object::File::parse(&*file).expect("an ELF file");
        let text = file.section_by_name(".text").expect("text");
        let saved = self.folder.path().join("text");
        let (address, size) = (text.address(), text.size());
        writeln!(self.monitor.get_mut(), "pmemsave {address:#x} {size} \"{}\"", saved.display())
            .expect("QEMU is there");
        self.prompt();
        let saved = std::fs::read(saved).expect("it has been saved");
        let text = text.data().expect("it is in the file");
        assert_eq!(saved.len(), text.len());
        saved.iter().zip(text).filter(|(now, then)| now != then).count()
    }

    fn dtrace(&self) -> Command {
        let mut command = Command::new(dtrace_program());
        command.arg("--connect").arg(format!("unix:{}/line", self.folder.path().display()));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Returns the output of `dtrace -l`.
    pub fn list(&self) -> String {
        let output = self.dtrace().arg("-l").output().expect("dtrace runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// Runs a program that ends by itself. Returns its output, and the messages of `dtrace`.
    pub fn run(&self, program: &str) -> (String, String) {
        let output = self.dtrace().args(["-q", "-n", program]).output().expect("dtrace runs");
        let [shown, said] =
            [output.stdout, output.stderr].map(|text| String::from_utf8(text).expect("text"));
        assert!(output.status.success(), "{program}: {said}");
        (shown, said)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        end(&self.qemu);
    }
}

fn end(qemu: &Mutex<Child>) {
    let mut qemu = qemu.lock().expect("no thread panics while it holds the lock");
    // Nothing can be done about a QEMU that cannot be killed.
    qemu.kill().ok();
    qemu.wait().ok();
}

/// Ends QEMU after `LIFE`, unless the result is dropped before.
fn mortal(qemu: Arc<Mutex<Child>>) -> Sender<()> {
    let (lives, dropped) = channel();
    thread::spawn(move || {
        if dropped.recv_timeout(LIFE) == Err(RecvTimeoutError::Timeout) {
            eprintln!("QEMU has run for {} s: killed", LIFE.as_secs());
            end(&qemu);
        }
    });
    lives
}

/// Returns the path of `dtrace`. Cargo tells the tests of a package only the programs of that package.
fn dtrace_program() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let mut cargo = Command::new(env!("CARGO"));
        // Uses the program that the tests of its package run, so that nothing is compiled again.
        cargo.arg("test").args(workspace::TESTED);
        cargo.args(["--no-run", "--quiet", "--test", "command"]);
        assert!(cargo.current_dir(workspace::root()).status().expect("cargo runs").success());
        Path::new(env!("CARGO_BIN_EXE_xtask")).with_file_name("dtrace")
    })
}

/// A running `dtrace -n`.
pub struct Dtrace {
    child: Child,
    out: BufReader<ChildStdout>,
    err: BufReader<ChildStderr>,
    seen: Vec<String>,
}

impl Dtrace {
    /// Starts it with a buffer of this size, and waits until it records: BEGIN has fired then.
    pub fn start(machine: &Machine, buffer: &str, probes: &str, matched: usize) -> Self {
        let mut dtrace = machine.dtrace();
        dtrace.args(["-x", &format!("bufsize={buffer}")]);
        let mut child = dtrace.args(["-n", "BEGIN", "-n", probes]).spawn().expect("dtrace runs");
        let mut out = BufReader::new(child.stdout.take().expect("piped"));
        let mut err = BufReader::new(child.stderr.take().expect("piped"));
        for (probes, matched) in [("BEGIN", 1), (probes, matched)] {
            let mut line = String::new();
            err.read_line(&mut line).expect("it says what it has matched");
            let plural = if matched == 1 { "" } else { "s" };
            assert_eq!(
                line,
                format!("dtrace: description '{probes}' matched {matched} probe{plural}\n")
            );
        }
        let mut line = String::new();
        while !line.contains(":BEGIN") {
            line.clear();
            assert_ne!(out.read_line(&mut line).expect("text"), 0, "BEGIN does not fire");
        }
        Self { child, out, err, seen: Vec::new() }
    }

    /// Reads this number of lines of hits.
    pub fn lines(&mut self, count: usize) {
        while self.seen.len() < count {
            let mut line = String::new();
            assert_ne!(
                self.out.read_line(&mut line).expect("text"),
                0,
                "after {:?}",
                self.seen.last()
            );
            if line.contains("none:") {
                self.seen.push(line);
            }
        }
    }

    /// Kills it, so that it does not close its session.
    pub fn kill(mut self) {
        self.child.kill().expect("it is ours");
        self.child.wait().expect("it is ours");
    }

    /// Interrupts `dtrace` like Ctrl-C. Returns all hits that it has printed.
    pub fn end(mut self) -> Vec<String> {
        let pid = i32::try_from(self.child.id()).expect("process ids are positive i32s");
        // SAFETY: no memory is involved; the process is a child of ours that has not been waited for.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGINT) }, 0);
        let (mut rest, mut errors) = (String::new(), String::new());
        self.out.read_to_string(&mut rest).expect("text");
        self.err.read_to_string(&mut errors).expect("text");
        let status = self.child.wait().expect("it is ours");
        assert!(status.success(), "{status}: {errors}");
        self.seen.extend(rest.lines().filter(|line| line.contains("none:")).map(str::to_owned));
        self.seen
    }
}
