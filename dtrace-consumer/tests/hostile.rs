//! A kernel that tries to make dtrace wait forever or use unlimited memory: dtrace ends each case with an error.
#![cfg(unix)]

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;
use std::time::Duration;

use dtrace_consumer::client::CHANNEL;
use dtrace_consumer::{Address, Client, ClientError, Protection};
use dtrace_protocol::{Declared, Decoder, Header, Reply, Request, Side, Status, VERSION, Writer};

/// The answer of a peer to a request; after `None` it sends nothing more.
type Says = fn(&Request<'_>) -> Option<Reply<'static>>;

fn send(line: &mut UnixStream, header: Header, reply: &Reply<'_>) -> std::io::Result<()> {
    let (mut draft, mut bytes) = (vec![0; 8 << 10], vec![0; 9 << 10]);
    let length = Writer::new(&mut draft, header, reply).unwrap().seal(&mut bytes).unwrap();
    line.write_all(&bytes[..length])
}

/// Connects a client to a peer that answers requests by `says`. For a request without an answer, the peer calls `instead`
/// repeatedly, until it fails.
fn client(says: Says, instead: fn(&mut UnixStream, Header) -> std::io::Result<()>) -> Client {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    thread::spawn(move || {
        let (mut line, _) = listener.accept().unwrap();
        let (mut decoder, mut byte) = (Decoder::new([0; 1 << 10]), [0]);
        while matches!(line.read(&mut byte), Ok(1)) {
            let Some(Ok(frame)) = decoder.push(byte[0]) else { continue };
            let (request, _) = frame.message::<Request<'_>>().unwrap();
            let reply = match request {
                Request::Hello { .. } => {
                    Some(Reply::Hello { version: VERSION, side: Side::Framework })
                }
                request => says(&request),
            };
            let header = frame.header;
            match reply {
                Some(reply) => drop(send(&mut line, header, &reply)),
                None => while instead(&mut line, header).is_ok() {},
            }
        }
    });
    let address: Address = format!("unix:{}", socket.display()).parse().unwrap();
    let line = address.open(&Protection::Machine, || {}).unwrap();
    Client::greet(line, CHANNEL, Duration::from_secs(5)).unwrap()
}

fn nothing(_: &mut UnixStream, _: Header) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Other.into())
}

#[test]
fn more_cpus_than_there_are() {
    let says: Says = |_| Some(Reply::Status(Status { cpus: u32::MAX, ..Status::default() }));
    let error = client(says, nothing).status().unwrap_err();
    assert!(matches!(error, ClientError::Cpus(u32::MAX)), "{error}");
    assert_eq!(
        error.to_string(),
        "the peer reports 4294967295 CPUs, and dtrace accepts at most 65536"
    );
}

#[test]
fn a_piece_that_is_longer_than_it_says() {
    let says: Says = |request| {
        let Request::Declared { at, .. } = *request else { return Some(Reply::Done) };
        let found = Declared { module: b"m", text: &[b' '; 512], next: at + 1, end: 1 << 20 };
        Some(Reply::Declared(Some(found)))
    };
    let error = client(says, nothing).declared().unwrap_err();
    assert!(matches!(error, ClientError::Strange("declared")), "{error}");
}

#[test]
fn a_format_without_an_end() {
    let says: Says = |_| Some(Reply::Bytes { bytes: &[b'x'; 4 << 10] });
    let error = client(says, nothing).format(1).unwrap_err();
    assert!(matches!(error, ClientError::Strange("format")), "{error}");
}

#[test]
fn something_else_without_an_end() {
    let error = client(|_| None, |line, _| line.write_all(&[1; 4 << 10])).open().unwrap_err();
    assert!(matches!(error, ClientError::NoAnswer { .. }), "{error}");
}

#[test]
fn answers_to_what_nobody_asked() {
    let earlier = |line: &mut UnixStream, header: Header| {
        let header = Header { seq: header.seq.wrapping_sub(1), ..header };
        send(line, header, &Reply::Matched { probes: 1 })
    };
    let error = client(|_| None, earlier).open().unwrap_err();
    assert!(matches!(error, ClientError::NoAnswer { .. }), "{error}");
}
