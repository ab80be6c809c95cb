//! Encrypted connections: the command and the client connect to the framework's server.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use dtrace_consumer::compiler::options::Options;
use dtrace_consumer::compiler::surroundings::EveryProbe;
use dtrace_consumer::compiler::{Compiler, Source, dof};
use dtrace_consumer::transport::{Line, Secure, SecureError};
use dtrace_consumer::{Client, ClientError, TransportError, key};
use dtrace_protocol::secure::{HANDSHAKE, Key, PREAMBLE, REKEY};
use recording_host::cpus::{CPUS, Threads};
use sdt_core::ops::{Privileges, ProviderAttr};
use sdt_core::runtime::{Provider, Slot};
use sdt_framework::server::{
    End, Limits, Lost, NoSites, Secure as Secured, SecureHost, Server, Stream,
};
use sdt_framework::{Config, Dtrace, Record, Rights};

const CONFIG: Config =
    Config { providers: 1, probes: 1, ecbs: 8, consumers: 8, buffer: 8 * Record::SIZE };
static DTRACE: Dtrace<Threads> = Dtrace::new(Threads::new());
/// Has one probe, which never fires.
static PROVIDER: Provider = Provider::new(&SLOTS);
static SLOTS: [Slot; 1] = [const { Slot::new() }; 1];

/// Returns the kernel, which all tests share.
fn kernel() -> &'static Dtrace<Threads> {
    static READY: OnceLock<()> = OnceLock::new();
    READY.get_or_init(|| {
        let memory = Box::leak(Box::new_uninit_slice(CONFIG.memory::<Threads>(CPUS, 8)));
        DTRACE.init(memory, &CONFIG).unwrap();
        let (attr, privileges) = (&ProviderAttr::SDT, Privileges::USER);
        // SAFETY: the provider is a static of the test program, which is never unloaded.
        unsafe { PROVIDER.open_with(&DTRACE, c"m", c"proc", attr, privileges) }.unwrap();
        PROVIDER.add(c"f", c"exec", &[]).unwrap();
    });
    &DTRACE
}

const LISTED: &str = "   ID   PROVIDER            MODULE                          FUNCTION NAME
    1       proc                 m                                 f exec\n";
const NO_LIMITS: Limits = Limits { handshake: u64::MAX, silence: u64::MAX };

struct Machine(Instant);

impl SecureHost for Machine {
    fn fill(&mut self, bytes: &mut [u8]) -> bool {
        getrandom::fill(bytes).is_ok()
    }

    fn now(&mut self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }
}

/// A socket of the system with the interface of a kernel's line. A read waits a short time if no data have arrived.
struct Socket<S>(S);

impl<S: Read + Write> Stream for Socket<S> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Lost> {
        match self.0.read(buffer) {
            Ok(0) => Err(Lost),
            Ok(length) => Ok(length),
            Err(error) if is_nothing(&error) => Ok(0),
            Err(_) => Err(Lost),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<usize, Lost> {
        match self.0.write(bytes) {
            Ok(length) => Ok(length),
            Err(error) if is_nothing(&error) => Ok(0),
            Err(_) => Err(Lost),
        }
    }
}

fn is_nothing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Serves one connection until it ends.
fn serve(line: impl Read + Write, key: &Key) -> End {
    let mut server: Server<'_> = Server::new(kernel(), &NoSites, Rights::ALL);
    let mut secure = Secured::new(Socket(line), key, Machine(Instant::now()), NO_LIMITS);
    while server.step(&mut secure).is_ok() {}
    secure.end().unwrap()
}

const WAIT: Option<Duration> = Some(Duration::from_millis(5));

/// Serves a kernel at a TCP port of this machine. Returns the address, and a channel that receives the end of each connection.
fn listening(key: &Key) -> (String, Receiver<End>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp:{}", listener.local_addr().unwrap());
    let ((said, ends), key) = (channel(), key.clone());
    thread::spawn(move || {
        for line in listener.incoming().map(Result::unwrap) {
            line.set_read_timeout(WAIT).unwrap();
            // The test may have dropped the receiver.
            let _ = said.send(serve(line, &key));
        }
    });
    (address, ends)
}

fn dtrace(address: &str, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dtrace"));
    command.env_remove("DTRACE_KEY_FILE");
    command.args(["--connect", address]).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn fails(output: &Output, error: &str) {
    assert_eq!((text(&output.stderr), text(&output.stdout)), (&*format!("dtrace: {error}\n"), ""));
    assert_eq!(output.status.code(), Some(1));
}

/// Creates two key files with the command, and returns their paths.
fn keys(folder: &Path) -> [String; 2] {
    ["right", "wrong"].map(|name| {
        let file = folder.join(name).to_str().unwrap().to_owned();
        let made = Command::new(env!("CARGO_BIN_EXE_dtrace")).args(["--make-key", &file]).output();
        let made = made.unwrap();
        assert!(made.status.success() && made.stdout.is_empty(), "the key is in the file alone");
        file
    })
}

#[test]
fn the_command_with_a_key() {
    let folder = tempfile::tempdir().unwrap();
    let [right, wrong] = keys(folder.path());
    let (address, ends) = listening(&key::read(right.as_ref()).unwrap());

    let listed = dtrace(&address, &["--key", &right, "-l"]);
    assert_eq!((text(&listed.stdout), text(&listed.stderr)), (LISTED, ""));
    assert_eq!(ends.recv(), Ok(End::Lost));
    let mut command = Command::new(env!("CARGO_BIN_EXE_dtrace"));
    command.args(["--connect", &address, "-l"]).env("DTRACE_KEY_FILE", &right);
    assert_eq!(text(&command.output().unwrap().stdout), LISTED);
    assert_eq!(ends.recv(), Ok(End::Lost));

    let refused = format!(
        "{address}: the kernel rejects the key; use the file that --make-key created for it"
    );
    fails(&dtrace(&address, &["--key", &wrong, "-l"]), &refused);
    assert_eq!(ends.recv(), Ok(End::Refused));
    let no_key = "the line is encrypted; name the file of the kernel's key with --key FILE";
    fails(&dtrace(&address, &["-l"]), no_key);
    assert_eq!(ends.recv(), Ok(End::Refused));
    // For a socket in the file system, a key is optional.
    let socket = folder.path().join("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    let of_kernel = key::read(right.as_ref()).unwrap();
    thread::spawn(move || serve(listener.accept().unwrap().0, &of_kernel));
    let listed = dtrace(&format!("unix:{}", socket.display()), &["--key", &right, "-l"]);
    assert_eq!(text(&listed.stdout), LISTED);
}

#[test]
fn the_command_without_a_key_stays_on_the_machine() {
    // The address is reserved for documentation (RFC 5737).
    let address = "tcp:192.0.2.1:4242";
    let output = dtrace(address, &["-l"]);
    let error = text(&output.stderr);
    assert!(error.starts_with("dtrace: tcp:192.0.2.1:4242 is another machine: "), "{error}");
    assert!(error.contains("--key FILE") && error.contains("--unencrypted"), "{error}");
    let both = dtrace(address, &["-l", "--key", "x", "--unencrypted"]);
    assert_eq!(both.status.code(), Some(2));
    let nowhere = "cannot read the key /nowhere/key: No such file or directory";
    fails(&dtrace(address, &["--key", "/nowhere/key", "-l"]), nowhere);
}

/// Connects to a server with the key. Returns one end of the connection, and the thread that returns how the server's side ends.
fn connected(key: &Key) -> (UnixStream, thread::JoinHandle<End>) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    theirs.set_read_timeout(WAIT).unwrap();
    let key = key.clone();
    (ours, thread::spawn(move || serve(theirs, &key)))
}

fn line(stream: UnixStream) -> Line {
    Line::new(stream.into(), None).unwrap()
}

const KEY: Key = Key::new([3; 32]);
const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn a_long_conversation() {
    let (ours, end) = connected(&KEY);
    let mut client = Client::connect(Secure::connect(line(ours), &KEY, LIMIT).unwrap()).unwrap();
    assert_eq!(client.list("").unwrap().len(), 1);
    let mut compiler = Compiler::new(dtrace_abi::Platform::Freebsd, Options::default());
    let program = compiler.compile(Source::file(b"proc::: { trace(arg0); }"), &EveryProbe).unwrap();
    let dof = dof::program(&program, compiler.options()).unwrap();
    // Sends more messages than one key is used for, in both directions.
    for _ in 0..REKEY + 10 {
        client.status().unwrap();
    }
    client.open().unwrap();
    assert_eq!(client.program(&dof).unwrap(), 1);
    drop(client);
    assert_eq!(end.join().unwrap(), End::Lost);
}

/// Forwards the bytes between two ends; `change` can modify the bytes for the client, and gets the position of the
/// first one.
fn between(
    change: impl Fn(usize, &mut [u8]) + Send + 'static,
) -> (UnixStream, thread::JoinHandle<End>) {
    let (mut of_server, end) = connected(&KEY);
    let (ours, mut of_client) = UnixStream::pair().unwrap();
    let (mut up, mut down) = (of_client.try_clone().unwrap(), of_server.try_clone().unwrap());
    thread::spawn(move || {
        let _ = io::copy(&mut up, &mut down);
        let _ = down.shutdown(Shutdown::Write);
    });
    thread::spawn(move || {
        let (mut at, mut buffer) = (0, [0; 4096]);
        while let Ok(length @ 1..) = of_server.read(&mut buffer) {
            change(at, &mut buffer[..length]);
            at += length;
            if of_client.write_all(&buffer[..length]).is_err() {
                break;
            }
        }
        let _ = of_client.shutdown(Shutdown::Both);
        let _ = of_server.shutdown(Shutdown::Both);
    });
    (ours, end)
}

/// An attacker on the network changes one byte of the kernel's data.
#[test]
fn a_changed_byte_is_noticed() {
    const GREETING: usize = PREAMBLE.len() + 2 + HANDSHAKE;
    // The answer to a hello is at least as long.
    const ANSWER: usize = 2 + 16 + 10;
    for place in 0..GREETING + ANSWER {
        let (ours, end) = between(move |at, bytes| {
            if let Some(byte) = place.checked_sub(at).and_then(|at| bytes.get_mut(at)) {
                *byte ^= 1 << (place % 8);
            }
        });
        let secure = Secure::connect(line(ours), &KEY, LIMIT);
        let version = PREAMBLE.len() - 1;
        match secure {
            Err(SecureError::Plain) => assert!(place < version, "{place}"),
            Err(SecureError::Version(_)) => assert_eq!(place, version),
            Err(SecureError::Impostor) => assert!((version + 1..GREETING).contains(&place)),
            Ok(secure) => {
                assert!(place >= GREETING, "{place}");
                let error = Client::connect(secure).map(drop).unwrap_err();
                let forged = ClientError::Transport(TransportError::Forged);
                assert_eq!(error.to_string(), forged.to_string(), "{place}");
            }
            Err(error) => panic!("{place}: {error}"),
        }
        assert_eq!(end.join().unwrap(), End::Lost);
    }
}

/// A peer that sends the client's data back is not the kernel.
#[test]
fn who_echoes_is_nobody() {
    let echo = || {
        let (ours, theirs) = UnixStream::pair().unwrap();
        thread::spawn(move || io::copy(&mut &theirs, &mut &theirs));
        line(ours)
    };
    let error = Secure::connect(echo(), &KEY, LIMIT).map(drop).unwrap_err();
    assert!(matches!(error, SecureError::Impostor), "{error}");
    let error = Client::connect(echo()).map(drop).unwrap_err();
    assert!(matches!(error, ClientError::Echo), "{error}");
}

/// The test records the answers of a kernel, and replays them to the next client.
#[test]
fn a_recorded_kernel_is_nobody() {
    let (ours, end) = connected(&KEY);
    let (tapped, mut tap) = UnixStream::pair().unwrap();
    let (mut up, mut down) = (tap.try_clone().unwrap(), ours.try_clone().unwrap());
    thread::spawn(move || {
        let _ = io::copy(&mut up, &mut down);
        let _ = down.shutdown(Shutdown::Write);
    });
    let recorded = thread::spawn(move || {
        let (mut all, mut buffer, mut ours) = (Vec::new(), [0; 4096], ours);
        while let Ok(length @ 1..) = ours.read(&mut buffer) {
            all.extend(&buffer[..length]);
            let _ = tap.write_all(&buffer[..length]);
        }
        all
    });
    let mut client = Client::connect(Secure::connect(line(tapped), &KEY, LIMIT).unwrap()).unwrap();
    client.status().unwrap();
    drop(client);
    end.join().unwrap();
    let recorded = recorded.join().unwrap();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    theirs.write_all(&recorded).unwrap();
    let error = Secure::connect(line(ours), &KEY, LIMIT).map(drop).unwrap_err();
    assert!(matches!(error, SecureError::Impostor), "{error}");
}

#[test]
fn who_says_nothing_is_told_of() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("mute");
    let listener = UnixListener::bind(&socket).unwrap();
    let address = format!("unix:{}", socket.display());
    // The peer keeps the connection open until dtrace has printed that it waits, and then closes it.
    let mut child = Command::new(env!("CARGO_BIN_EXE_dtrace"))
        .args(["--connect", &address, "-l"])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mute = listener.accept().unwrap().0;
    let mut said = io::BufReader::new(child.stderr.take().unwrap());
    let mut first = String::new();
    io::BufRead::read_line(&mut said, &mut first).unwrap();
    assert_eq!(first, format!("dtrace: waiting for {address}: no data received yet\n"));
    drop(mute);
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "dtrace: the connection is closed\n");
    assert_eq!(child.wait().unwrap().code(), Some(1));

    let (ours, _mute) = UnixStream::pair().unwrap();
    let limit = Duration::from_millis(50);
    let error = Secure::connect(line(ours), &KEY, limit).map(drop).unwrap_err();
    assert!(matches!(error, SecureError::NoAnswer(_)), "{error}");
}

/// If the consumer has a key and the peer does not encrypt, the consumer reports that.
#[test]
fn who_does_not_encrypt_is_told_of() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || listener.accept().unwrap().0.write_all(b"220 mail ready\r\n"));
    let stream = TcpStream::connect(address).unwrap();
    let plain = Line::new(stream.into(), None).unwrap();
    let error = Secure::connect(plain, &KEY, LIMIT).map(drop).unwrap_err();
    assert!(matches!(error, SecureError::Plain), "{error}");
}
