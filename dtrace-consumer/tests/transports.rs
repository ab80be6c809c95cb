//! The command over every kind of transport, to a peer that has one probe.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

use dtrace_protocol::{
    Decoder, Detail, Probe, Reply, Request, Run, Side, SnapshotOf, Status, VERSION, Writer, packed,
};

const LISTED: &str = "   ID   PROVIDER            MODULE                          FUNCTION NAME
    7       proc                m\u{fffd}                                 f exec\n";

/// Answers like a framework with one probe, until the connection is closed. Returns the last request.
fn answer(mut line: impl Read + Write, version: u32) -> String {
    let mut last = String::new();
    let mut decoder = Decoder::new([0; 512]);
    let mut byte = [0];
    while matches!(line.read(&mut byte), Ok(1)) {
        let Some(Ok(frame)) = decoder.push(byte[0]) else { continue };
        let (request, _) = frame.message::<Request<'_>>().unwrap();
        last = format!("{request:?}");
        let (mut buffer, mut bytes) = ([0; 512], [0; 600]);
        let reply = match request {
            Request::Hello { .. } => Reply::Hello { version, side: Side::Framework },
            Request::List { .. } => Reply::Probes,
            Request::Describe { .. } => Reply::Gone { reason: "out of order\n  kernel: last line" },
            Request::Declared { .. } => Reply::Declared(None),
            Request::Status => Reply::Status(Status { cpus: 1, ..Status::default() }),
            _ => Reply::Done,
        };
        let mut writer = Writer::new(&mut buffer, frame.header, &reply).unwrap();
        if let Request::List { after: 0, .. } = request {
            let (module, function) = (b"m\xff", b"f");
            let probe = Probe { id: 7, provider: b"proc", module, function, name: b"exec" };
            writer.push(&probe).unwrap();
        }
        let length = writer.seal(&mut bytes).unwrap();
        // Sends other data between the frames, which dtrace must skip.
        let sent = line.write_all(b"login: \0").and_then(|()| line.write_all(&bytes[..length]));
        // A client that closes the connection does not wait for the answer.
        if sent.is_err() {
            break;
        }
    }
    last
}

fn dtrace(address: &str, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dtrace"));
    command.args(["--connect", address]).args(args).output().unwrap()
}

fn lists(address: &str) {
    let output = dtrace(address, &["-l"]);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    assert_eq!((&*text(output.stdout), &*text(output.stderr)), (LISTED, ""), "{address}");
    assert_eq!(output.status.code(), Some(0));
}

fn fails(address: &str, args: &[&str], error: &str) {
    let output = dtrace(address, args);
    assert_eq!(String::from_utf8(output.stderr).unwrap(), format!("dtrace: {error}\n"));
    assert_eq!((output.status.code(), &*output.stdout), (Some(1), &b""[..]));
}

/// Starts a peer at a socket that serves one connection after the other. Returns its address.
fn listening(folder: &Path, serve: impl Fn(UnixStream) + Send + 'static) -> String {
    let socket = folder.join("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    thread::spawn(move || listener.incoming().for_each(|line| serve(line.unwrap())));
    format!("unix:{}", socket.display())
}

#[test]
fn a_socket() {
    let folder = tempfile::tempdir().unwrap();
    let address = listening(folder.path(), |line| _ = answer(line, VERSION));
    lists(&address);
    lists(&address);
}

#[test]
fn tcp() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp:{}", listener.local_addr().unwrap());
    thread::spawn(move || answer(listener.accept().unwrap().0, VERSION));
    lists(&address);
}

#[test]
fn a_serial_device() {
    let flags = rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY;
    let device: OwnedFd = rustix::pty::openpt(flags).unwrap();
    rustix::pty::grantpt(&device).unwrap();
    rustix::pty::unlockpt(&device).unwrap();
    let name = rustix::pty::ptsname(&device, Vec::new()).unwrap().into_string().unwrap();
    // The test keeps the terminal open, because otherwise the peer would read its end between two runs of dtrace.
    let _held = File::open(&name).unwrap();
    thread::spawn(move || answer(File::from(device), VERSION));
    lists(&format!("serial:{name},38400"));
    lists(&format!("serial:{name}"));
}

#[test]
fn a_command() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, theirs) = (folder.path().join("in"), folder.path().join("out"));
    for pipe in [&ours, &theirs] {
        let made = Command::new("mkfifo").arg(pipe).status().unwrap();
        assert!(made.success());
    }
    let address = format!("exec:cat {} & exec cat > {}", theirs.display(), ours.display());
    thread::spawn(move || {
        struct Both(File, File);
        impl Read for Both {
            fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                self.0.read(buffer)
            }
        }
        impl Write for Both {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                self.1.write(bytes)
            }
            fn flush(&mut self) -> std::io::Result<()> {
                self.1.flush()
            }
        }
        let write = File::options().write(true).open(theirs).unwrap();
        answer(Both(File::open(ours).unwrap(), write), VERSION)
    });
    lists(&address);
    let ended = "the connection is closed: the command ended: exit status: 3";
    fails("exec:head -c 1 > /dev/null; exit 3", &["-l"], ended);
}

#[test]
fn another_version_is_no_kernel_for_us() {
    let folder = tempfile::tempdir().unwrap();
    let address = listening(folder.path(), |line| _ = answer(line, VERSION + 1));
    let error = format!(
        "the kernel uses version {} of the protocol, and this dtrace version {VERSION}; build both from the same release",
        VERSION + 1
    );
    fails(&address, &["-l"], &error);
}

#[test]
fn a_dead_line_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let address = listening(folder.path(), drop);
    fails(&address, &["-l"], "the connection is closed");
    let nowhere = folder.path().join("nowhere");
    let error =
        format!("failed to connect to unix:{}: No such file or directory", nowhere.display());
    fails(&format!("unix:{}", nowhere.display()), &["-l"], &error);
    fails(
        "nowhere",
        &["-l"],
        "nowhere: not an address; use unix:PATH, tcp:HOST:PORT, \
        serial:DEVICE[,BAUD], exec:COMMAND or process:PID",
    );
}

#[test]
fn the_kernel_is_told_who_goes() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let kernel = thread::spawn(move || answer(theirs, VERSION));
    let line = dtrace_consumer::transport::Line::new(ours.into(), None).unwrap();
    let mut client = dtrace_consumer::Client::connect(line).unwrap();
    assert_eq!(client.list("").unwrap().len(), 1);
    drop(client);
    assert_eq!(kernel.join().unwrap(), "Close");
}

#[test]
fn last_words_are_said() {
    let folder = tempfile::tempdir().unwrap();
    let address = listening(folder.path(), |line| _ = answer(line, VERSION));
    fails(&address, &["-n", "exec"], "out of order\n  kernel: last line");
}

#[test]
fn command_lines_that_are_wrong() {
    let run = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_dtrace")).args(args).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (status, text) = run(&[]);
    assert_eq!(status, Some(2));
    assert!(text.starts_with("Usage: dtrace -p pid ... | -c cmd\n"), "{text}");
    let (status, text) = run(&["-y"]);
    assert_eq!(status, Some(2));
    assert!(text.starts_with("dtrace: illegal option -- y\nUsage: dtrace "), "{text}");
    let (status, text) = run(&["--connect", "exec:true"]);
    assert!(text.starts_with("dtrace: no probes specified\n"), "{text}");
    assert_eq!(status, Some(1));
}

/// Serves a kernel that returns a record each time its buffer is read. The first answer is damaged; instead of the third one, the
/// kernel ends the connection with a message.
fn records(mut line: UnixStream) {
    let mut decoder = Decoder::new([0; 512]);
    let (mut byte, mut taken) = ([0], 0);
    // A record of the enabled probe 1, at 1 ns.
    let mut record = [0; 16];
    let (_, length) = packed::pack(&[1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0], &mut record);
    let record = &record[..length];
    while matches!(line.read(&mut byte), Ok(1)) {
        let Some(Ok(frame)) = decoder.push(byte[0]) else { continue };
        let (request, _) = frame.message::<Request<'_>>().unwrap();
        let (module, function) = (&b"m"[..], &b"f"[..]);
        let probe = Probe { id: 7, provider: b"proc", module, function, name: b"exec" };
        let empty = Snapshot { size: 0, oldest: 0, drops: 0, errors: 0, timestamp: 2, bytes: b"" };
        let mut damaged = false;
        let reply = match request {
            Request::Hello { .. } => Reply::Hello { version: VERSION, side: Side::Framework },
            Request::List { .. } => Reply::Probes,
            Request::Describe { .. } => {
                let (stability, provider) = ([5, 5, 5], [[5, 5, 5]; 5]);
                Reply::Detail(Detail { probe, stability, args: stability, provider, privileges: 0 })
            }
            Request::Argument { .. } => Reply::Argument(None),
            Request::Program { size, at, bytes } if at as usize + bytes.len() == size as usize => {
                Reply::Matched { probes: 1 }
            }
            Request::Status => Reply::Status(Status { cpus: 1, ..Status::default() }),
            Request::Go => Reply::On { cpu: 0 },
            Request::Run => Reply::Run(Run::default()),
            Request::Eprobe { .. } => Reply::Eprobe { probe: 7, size: 12 },
            Request::Snapshot { buffer: SnapshotOf::Records, .. } => {
                taken += 1;
                damaged = taken == 1;
                match taken {
                    3 => Reply::Gone { reason: "over\u{1b}[31m\n  kernel: last line" },
                    _ => snapshot(Snapshot { size: 12, bytes: record, ..empty }),
                }
            }
            Request::Snapshot { .. } => snapshot(empty),
            Request::Declared { .. } => Reply::Declared(None),
            _ => Reply::Done,
        };
        let (mut buffer, mut bytes) = ([0; 512], [0; 600]);
        let mut writer = Writer::new(&mut buffer, frame.header, &reply).unwrap();
        if let Request::List { after: 0, .. } = request {
            writer.push(&probe).unwrap();
        }
        let length = writer.seal(&mut bytes).unwrap();
        if damaged {
            bytes[length / 2] ^= 0x10;
        }
        if line.write_all(&bytes[..length]).is_err() {
            break;
        }
    }
}

/// The fields of [`Reply::Snapshot`].
struct Snapshot<'a> {
    size: u32,
    oldest: u32,
    drops: u64,
    errors: u64,
    timestamp: u64,
    bytes: &'a [u8],
}

fn snapshot(of: Snapshot<'_>) -> Reply<'_> {
    let Snapshot { size, oldest, drops, errors, timestamp, bytes } = of;
    Reply::Snapshot { size, oldest, drops, errors, timestamp, bytes }
}

/// The first answer with records is damaged: a message says so, and later records are printed.
#[test]
fn a_damaged_answer_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let address = listening(folder.path(), records);
    let output = dtrace(&address, &["-x", "switchrate=10ms", "-n", "proc:::exec"]);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let hit = "CPU     ID                    FUNCTION:NAME\n  0      7                           f:exec \n\n";
    assert_eq!(text(output.stdout), hit);
    let said = "dtrace: description 'proc:::exec' matched 1 probe\n\
                dtrace: 1 answer was damaged on the connection: records may be missing\n\
                dtrace: over\\u{1b}[31m\n  kernel: last line\n";
    assert_eq!(text(output.stderr), said);
    assert_eq!(output.status.code(), Some(1));
}

/// However dtrace ends, the processes that `exec:` has started end as well, with their children.
#[test]
fn a_command_does_not_outlive_dtrace() {
    use std::io::{BufRead as _, BufReader};
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ids");
    // The script runs a shell that sends no data, and a child of the shell.
    let script = format!("sleep 600 & echo $$ $! > {0}.new; mv {0}.new {0}; wait", file.display());
    let mut dtrace = Command::new(env!("CARGO_BIN_EXE_dtrace"))
        .args(["--connect", &format!("exec:{script}"), "-l"])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    while !file.exists() {
        assert!(dtrace.try_wait().unwrap().is_none(), "it waits for a kernel");
        thread::sleep(Duration::from_millis(5));
    }
    let ids = std::fs::read_to_string(&file).unwrap();
    let ids: Vec<String> = ids.split_whitespace().map(|id| format!("/proc/{id}/stat")).collect();
    let is_alive = |stat: &String| {
        let stat = std::fs::read_to_string(stat).unwrap_or_default();
        // A zombie, whose parent has not waited for it, has ended, too.
        stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
    };
    assert_eq!((ids.len(), ids.iter().all(is_alive)), (2, true));
    dtrace.kill().unwrap();
    dtrace.wait().unwrap();
    while ids.iter().any(is_alive) {
        thread::sleep(Duration::from_millis(5));
    }
    let said = BufReader::new(dtrace.stderr.take().unwrap()).lines().count();
    assert!(said <= 1, "no process holds the pipe that dtrace writes to");
}
