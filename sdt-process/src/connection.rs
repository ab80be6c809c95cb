//! The connection of one consumer: its requests, and their answers.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use dtrace_protocol::frame::encoded_len;
use dtrace_protocol::{Header, Reply, Writer};
use sdt_framework::server::{Lost, Server, Stream};
use sdt_framework::{Dtrace, Rights};

use crate::descriptor::Descriptor;
use crate::sites::Sites;
use crate::slots::Slots;
use crate::text;

/// The size in bytes of the longest frame. A consumer decodes frames of up to 64 KiB.
const FRAME: usize = 60 << 10;
/// The protocol channel of a consumer. Each consumer has a connection of its own, so one number is enough.
const CHANNEL: u8 = 1;
/// The largest size in bytes of a frame with the reason for which a consumer is not served.
const REASON: usize = 1024;
/// The largest size in bytes of the rest of that frame.
const REASON_OVERHEAD: usize = 32;
/// The time after which a peer without a request makes room for another.
const SILENCE: Duration = Duration::from_secs(1);
/// The number of steps of the protocol after which another connection has its turn.
const STEPS: usize = 64;

/// A connected consumer.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: Descriptor<UnixStream>,
    /// Whether the last write found no room in the socket.
    is_full: bool,
    /// The time at which the connection was accepted; `None` once the first request is answered.
    silent_since: Option<Instant>,
    server: Box<Server<'static, FRAME>>,
}

/// The socket of a consumer during one turn. It never blocks.
struct Socket<'c> {
    stream: &'c UnixStream,
    is_full: &'c mut bool,
    silent_since: &'c mut Option<Instant>,
}

/// The result of a connection's turn.
pub(crate) enum Turn {
    /// All requests that have arrived are answered.
    Idle,
    /// More requests wait for the next turn.
    Busy,
    /// The consumer has closed the connection.
    Lost,
    /// A change of text was refused, for this reason. Everything that the consumer had open is closed.
    Refused(String),
}

impl Connection {
    /// Serves a consumer. A peer that passed [`accept`](crate::socket::Socket::accept) has all rights.
    pub(crate) fn new(dtrace: &'static Dtrace<Slots>, stream: Descriptor<UnixStream>) -> Self {
        let server = Box::new(Server::new(dtrace, &Sites, Rights::ALL));
        Self { stream, is_full: false, silent_since: Some(Instant::now()), server }
    }

    /// Answers the requests that have arrived, up to the limit of one turn.
    pub(crate) fn answer(&mut self) -> Turn {
        text::take_refusal();
        let Ok(stream) = self.stream.get() else { return Turn::Lost };
        let (is_full, silent_since) = (&mut self.is_full, &mut self.silent_since);
        let mut socket = Socket { stream, is_full, silent_since };
        for _ in 0..STEPS {
            let step = self.server.step(&mut socket);
            crate::function::end_change();
            if let Some(reason) = text::take_refusal() {
                self.server.reset();
                return Turn::Refused(reason);
            }
            match step {
                Ok(true) => {}
                Ok(false) => return Turn::Idle,
                Err(Lost) => return Turn::Lost,
            }
        }
        Turn::Busy
    }

    /// Closes everything that the consumer has open.
    pub(crate) fn close(&mut self) {
        self.server.reset();
    }

    /// Returns whether answers wait for room in the socket.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Returns whether the peer has had more than [`SILENCE`] for its first request. `dtrace` sends it at once.
    pub(crate) fn is_silent(&self) -> bool {
        self.silent_since.is_some_and(|since| since.elapsed() > SILENCE)
    }

    pub(crate) fn stream(&self) -> &Descriptor<UnixStream> {
        &self.stream
    }

    pub(crate) fn into_stream(self) -> Descriptor<UnixStream> {
        self.stream
    }
}

impl Stream for Socket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Lost> {
        match self.stream.read(buffer) {
            Ok(0) => Err(Lost),
            result => zero_if_blocked(result),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<usize, Lost> {
        let count = zero_if_blocked(self.stream.write(bytes))?;
        *self.is_full = count == 0;
        if count != 0 {
            *self.silent_since = None;
        }
        Ok(count)
    }
}

/// Converts the result of a transfer: 0 bytes if the transfer would block.
fn zero_if_blocked(result: io::Result<usize>) -> Result<usize, Lost> {
    match result {
        Ok(count) => Ok(count),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            Ok(0)
        }
        Err(_) => Err(Lost),
    }
}

/// Sends a consumer the reason for which it is not served. The caller keeps the connection open until [`has_closed`]: if it
/// closed the connection at once, the consumer would see the end of the connection and not the reason.
pub(crate) fn send_reason(stream: &Descriptor<UnixStream>, reason: &str) {
    let mut draft = [0; REASON];
    let mut line = [0; encoded_len(REASON)];
    let header = Header { channel: CHANNEL, seq: 0 };
    // A reason that is too long is cut, and ends with dots.
    let length = reason.floor_char_boundary(REASON - REASON_OVERHEAD);
    let (reason, rest) = reason.split_at(length);
    let reason = &[reason, if rest.is_empty() { "" } else { "..." }].concat();
    let frame = Writer::new(&mut draft, header, &Reply::Gone { reason });
    if let Ok(length) = frame.and_then(|frame| frame.seal(&mut line)) {
        // The first frame on a line follows a zero.
        let bytes = [&[0], &line[..length]].concat();
        stream.get().and_then(|mut stream| stream.write_all(&bytes)).ok();
    }
}

/// Returns whether a consumer has closed its end. Discards the requests that it sends.
pub(crate) fn has_closed(stream: &Descriptor<UnixStream>) -> bool {
    match stream.get().and_then(|mut stream| stream.read(&mut [0; 64])) {
        Ok(length) => length == 0,
        Err(error) => zero_if_blocked(Err(error)).is_err(),
    }
}
