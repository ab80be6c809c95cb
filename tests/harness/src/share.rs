//! A shared machine: each connection to its socket uses the machine's line as if no other connection existed.
//!
//! [`Share`] gives the consumer of each connection a channel of the line, and renumbers the requests of the bench. If a
//! connection is lost, it sends a [`Close`](Request::Close) for the channel. No connection waits for another one: `Share` reads
//! nothing from a connection that does not read its answers.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use dtrace_protocol::frame::{OVERHEAD, channel_of, encoded_len};
use dtrace_protocol::{Frame, Header, OTHERS, Reply, Request, Writer};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::Mode;
use sdt_protocol::frame::{self, Arrived, Decoder};
use sdt_protocol::{Event, Message, Refusal};

use cargo_sdt::internal::output;

use crate::machine::{Ended, Machine};
use crate::session::Session;
use crate::wire::KEPT;

/// Interval between two checks whether the machine has to stop.
const BEAT: Duration = Duration::from_millis(100);
/// The number of unsent bytes above which a connection is not read.
const PENDING: usize = 64 << 10;
/// Time limit for a machine to end after a request to power off, or after its line was closed.
const END: Duration = Duration::from_secs(60);
/// Time limit for the remaining connections to read the last message.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// The last message of a machine that ended in order.
const STOPPED: &str = "the machine has been stopped";
/// The longest last message in bytes.
const WORDS: usize = 8 << 10;

/// Why a machine cannot be shared, or is no longer shared.
#[derive(Debug, thiserror::Error)]
pub enum ShareError {
    /// The socket cannot be made.
    #[error("cannot listen at {}: {source}", .socket.display())]
    Listen {
        /// The path of the socket.
        socket: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// Another machine listens at the path.
    #[error("a machine is running at {} already; stop it, or give this one another --socket", .0.display())]
    Taken(PathBuf),
    /// The machine ended, or its kernel panicked.
    #[error("{0}")]
    Gone(String),
    /// Waiting failed.
    #[error("cannot wait for the machine: {0}")]
    Wait(#[from] io::Error),
}

/// A socket to which only its owner can connect. Dropping it removes the file.
#[derive(Debug)]
pub struct Socket {
    listener: UnixListener,
    path: PathBuf,
}

impl Socket {
    /// Creates the socket. Replaces a file that a killed machine left behind.
    ///
    /// # Errors
    /// Another process listens at `path`, or the socket cannot be created.
    pub fn listen(path: &Path) -> Result<Self, ShareError> {
        let error = |source| ShareError::Listen { socket: path.into(), source };
        if UnixStream::connect(path).is_ok() {
            return Err(ShareError::Taken(path.into()));
        }
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(error)?;
        }
        let is_socket =
            |meta: std::fs::Metadata| std::os::unix::fs::FileTypeExt::is_socket(&meta.file_type());
        if std::fs::symlink_metadata(path).is_ok_and(is_socket) {
            std::fs::remove_file(path).map_err(error)?;
        }
        // The mode excludes other users from the moment of creation.
        let before = rustix::process::umask(Mode::from_raw_mode(0o177));
        let listener = UnixListener::bind(path);
        rustix::process::umask(before);
        let socket = Self { listener: listener.map_err(error)?, path: path.into() };
        socket.listener.set_nonblocking(true).map_err(error)?;
        Ok(socket)
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // The owner may have removed the file.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A non-blocking stream of frames in both directions.
struct Pipe {
    stream: UnixStream,
    decoder: Decoder,
    to_send: VecDeque<u8>,
}

impl Pipe {
    fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { stream, decoder: Decoder::new(), to_send: VecDeque::new() })
    }

    /// Returns the events to poll for.
    fn flags(&self, may_read: bool) -> PollFlags {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, may_read);
        flags.set(PollFlags::OUT, !self.to_send.is_empty());
        flags
    }

    /// Sends as much as the stream accepts. Returns false if the peer closed it.
    fn send(&mut self) -> bool {
        while !self.to_send.is_empty() {
            match self.stream.write(self.to_send.as_slices().0) {
                Ok(length) => drop(self.to_send.drain(..length)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
        }
        true
    }

    /// Reads available bytes, and returns the frames that they complete. Returns `None` if the peer closed the stream.
    fn receive<T: serde::de::DeserializeOwned>(&mut self) -> Option<Vec<Arrived<T>>> {
        let mut buffer = [0; 8192];
        match self.stream.read(&mut buffer) {
            Ok(0) => None,
            Ok(length) => {
                Some(buffer[..length].iter().filter_map(|&byte| self.decoder.push(byte)).collect())
            }
            Err(error) => {
                let nothing =
                    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted);
                nothing.then(Vec::new)
            }
        }
    }

    /// Sends the remaining bytes, until `deadline`.
    fn send_last(&mut self, deadline: Instant) {
        // After an error, there is no peer to which to report it.
        let _ = self.stream.set_nonblocking(false);
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        let _ = self.stream.set_write_timeout(Some(left));
        let _ = self.stream.write_all(self.to_send.make_contiguous());
    }
}

/// A connection of a bench.
struct Connection {
    pipe: Pipe,
    /// The channel in the frames of its consumer, after the first frame.
    channel: Option<u8>,
}

/// A shared machine.
pub struct Share {
    machine: Machine,
    line: Pipe,
    socket: Socket,
    /// The connections, by their channel of the line.
    connections: BTreeMap<u8, Connection>,
    /// For each open request of a bench: its connection's channel, and its number on that connection.
    asked: BTreeMap<u32, (u8, u32)>,
    seq: u32,
    console: VecDeque<String>,
    panicked: Option<String>,
}

impl std::fmt::Debug for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Share").field("machine", &self.machine).finish_non_exhaustive()
    }
}

impl Share {
    /// Shares the machine of a session.
    ///
    /// # Errors
    /// The session has no machine of its own, or other owners of its line exist.
    pub fn new(session: Session, socket: Socket) -> Result<Self, ShareError> {
        let parts = session.into_parts();
        let (machine, line, console) =
            parts.ok_or_else(|| ShareError::Gone("the machine's line is in use".into()))?;
        line.set_read_timeout(None)?;
        line.set_write_timeout(None)?;
        Ok(Self {
            machine,
            line: Pipe::new(line)?,
            socket,
            connections: BTreeMap::new(),
            asked: BTreeMap::new(),
            seq: 0,
            console,
            panicked: None,
        })
    }

    /// Serves all connections until `stop` returns true or the machine ends.
    ///
    /// # Errors
    /// The machine ended by itself, or its kernel panicked.
    pub fn serve(mut self, stop: impl Fn() -> bool) -> Result<(), ShareError> {
        while !stop() {
            if !self.step()? {
                return self.gone();
            }
        }
        let message = Message { seq: 0, request: sdt_protocol::Request::PowerOff };
        self.line.to_send.extend(frame::encode(&message));
        self.line.send_last(Instant::now() + LAST_WORDS);
        self.machine.ended(END);
        self.say_last(STOPPED);
        Ok(())
    }

    /// Waits for events for at most [`BEAT`], and passes all frames on. Returns false if the machine ended.
    fn step(&mut self) -> Result<bool, ShareError> {
        let may_read = self.line.to_send.len() < PENDING;
        let mut fds = vec![
            PollFd::new(&self.socket.listener, PollFlags::IN),
            PollFd::from_borrowed_fd(self.line.stream.as_fd(), self.line.flags(true)),
        ];
        fds.extend(self.connections.values().map(|Connection { pipe, .. }| {
            let flags = pipe.flags(may_read && pipe.to_send.len() < PENDING);
            PollFd::from_borrowed_fd(pipe.stream.as_fd(), flags)
        }));
        let beat = Timespec::try_from(BEAT).ok();
        match poll(&mut fds, beat.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(ShareError::Wait(errno.into())),
        }
        let ready: Vec<PollFlags> = fds.iter().map(PollFd::revents).collect();
        drop(fds);

        let readable = PollFlags::IN | PollFlags::HUP | PollFlags::ERR;
        if ready[1].intersects(readable) && !self.take_from_line() {
            return Ok(false);
        }
        let channels: Vec<u8> = self.connections.keys().copied().collect();
        for (channel, ready) in channels.into_iter().zip(&ready[2..]) {
            let taken = !ready.intersects(readable) || self.take_from(channel);
            let sent = self.connections.get_mut(&channel).is_some_and(|of| of.pipe.send());
            if !(taken && sent) {
                self.close(channel);
            }
        }
        if ready[0].intersects(PollFlags::IN) {
            self.accept();
        }
        Ok(self.line.send() && self.panicked.is_none())
    }

    fn accept(&mut self) {
        // The peer may have closed its connection again.
        let Ok((stream, _)) = self.socket.listener.accept() else { return };
        if !is_owner(&stream) {
            return;
        }
        let Ok(mut pipe) = Pipe::new(stream) else { return };
        match (1..OTHERS).find(|channel| !self.connections.contains_key(channel)) {
            Some(channel) => {
                self.connections.insert(channel, Connection { pipe, channel: None });
            }
            None => {
                pipe.to_send.extend(gone(
                    dtrace_consumer::client::CHANNEL,
                    "too many programs share the machine",
                ));
                pipe.send();
            }
        }
    }

    /// Passes on the frames from the kernel. Returns false if the machine closed the line.
    fn take_from_line(&mut self) -> bool {
        let Some(frames) = self.line.receive::<Event>() else { return false };
        for arrived in frames {
            match arrived {
                Arrived::Consumers(mut bytes) => {
                    let connection =
                        channel_of(&bytes).and_then(|channel| self.connections.get_mut(&channel));
                    let Some(connection) = connection else { continue };
                    let Some(channel) = connection.channel else { continue };
                    connection.pipe.to_send.extend(passed_on(&mut bytes, channel));
                }
                Arrived::Ours(Ok(Event::Reply { seq, result })) => {
                    let Some((channel, seq)) = self.asked.remove(&seq) else { continue };
                    if let Some(connection) = self.connections.get_mut(&channel) {
                        let reply = frame::encode(&Event::Reply { seq, result });
                        connection.pipe.to_send.extend(reply);
                    }
                }
                Arrived::Ours(Ok(Event::Console { text })) => {
                    output::say(format_args!("kernel: {text}\n"));
                    if self.console.len() == KEPT {
                        self.console.pop_front();
                    }
                    self.console.push_back(text);
                }
                Arrived::Ours(Ok(Event::Panic { message })) => self.panicked = Some(message),
                // Progress is part of the final reply. After damage, the connection's own time limit ends the request.
                Arrived::Ours(Ok(Event::Progress { .. } | Event::BadFrame { .. }) | Err(_)) => {}
            }
        }
        true
    }

    /// Passes on the frames from a connection. Returns false if the peer closed it.
    fn take_from(&mut self, channel: u8) -> bool {
        let Some(connection) = self.connections.get_mut(&channel) else { return false };
        let Some(frames) = connection.pipe.receive::<Message>() else { return false };
        for arrived in frames {
            match arrived {
                Arrived::Consumers(mut bytes) => {
                    let theirs = channel_of(&bytes);
                    let passed_on = passed_on(&mut bytes, channel);
                    if !passed_on.is_empty() {
                        connection.channel = theirs;
                        self.line.to_send.extend(passed_on);
                    }
                }
                Arrived::Ours(Ok(Message { seq, request })) => {
                    self.seq = self.seq.wrapping_add(1);
                    self.asked.insert(self.seq, (channel, seq));
                    let message = Message { seq: self.seq, request };
                    self.line.to_send.extend(frame::encode(&message));
                }
                Arrived::Ours(Err(error)) => {
                    let bad = Event::BadFrame { reason: error.to_string() };
                    connection.pipe.to_send.extend(frame::encode(&bad));
                }
            }
        }
        true
    }

    /// Removes a connection, and closes its consumer, which removes the enablings.
    fn close(&mut self, channel: u8) {
        let connection = self.connections.remove(&channel);
        self.asked.retain(|_, (of, _)| *of != channel);
        if connection.is_some_and(|connection| connection.channel.is_some()) {
            let header = Header { channel, seq: 0 };
            self.line.to_send.extend(sealed(header, &Request::Close));
        }
    }

    /// Sends all connections the reason why the machine ended.
    fn gone(&mut self) -> Result<(), ShareError> {
        let ended = self.machine.ended(END);
        if self.panicked.is_none() && ended.as_ref().is_some_and(Ended::in_order) {
            self.say_last(STOPPED);
            return Ok(());
        }
        let mut reason = match (&self.panicked, ended) {
            (Some(message), _) => format!("the kernel panicked: {message}"),
            (None, Some(ended)) => format!("the machine has ended: {ended}"),
            (None, None) => "the machine has closed its line".into(),
        };
        for line in &self.console {
            reason.push_str(&format!("\n  kernel: {line}"));
        }
        let mut end = reason.len().min(WORDS);
        while !reason.is_char_boundary(end) {
            end -= 1;
        }
        reason.truncate(end);
        self.say_last(&reason);
        Err(ShareError::Gone(reason))
    }

    fn say_last(&mut self, reason: &str) {
        for (_, (channel, seq)) in std::mem::take(&mut self.asked) {
            if let Some(connection) = self.connections.get_mut(&channel) {
                let result = Err(Refusal { errno: 0, message: reason.to_owned() });
                connection.pipe.to_send.extend(frame::encode(&Event::Reply { seq, result }));
            }
        }
        let deadline = Instant::now() + LAST_WORDS;
        for connection in self.connections.values_mut() {
            if let Some(channel) = connection.channel {
                connection.pipe.to_send.extend(gone(channel, reason));
            }
            connection.pipe.send_last(deadline);
        }
    }
}

/// Returns whether the peer has the user id of this process, or is root. The mode of the socket admits only these, but its
/// owner can change the mode.
fn is_owner(stream: &UnixStream) -> bool {
    let ours = rustix::process::geteuid();
    rustix::net::sockopt::socket_peercred(stream)
        .is_ok_and(|peer| peer.uid == ours || peer.uid.is_root())
}

/// Returns a frame with its zero byte for another channel; nothing if it is damaged.
fn passed_on(bytes: &mut [u8], channel: u8) -> Vec<u8> {
    let [encoded @ .., _] = bytes else { return Vec::new() };
    let Ok(frame) = Frame::decode(encoded) else { return Vec::new() };
    let header = Header { channel, ..frame.header };
    let content = frame.content.len() + OVERHEAD;
    let (mut buffer, mut line) = (vec![0; content], vec![0; encoded_len(content)]);
    let length = frame.pass_on(header, &mut buffer, &mut line).unwrap_or(0);
    line.truncate(length);
    line
}

fn sealed<T: serde::Serialize>(header: Header, message: &T) -> Vec<u8> {
    let (mut buffer, mut line) = (vec![0; WORDS + 64], vec![0; encoded_len(WORDS + 64)]);
    let frame = Writer::new(&mut buffer, header, message);
    let length = frame.and_then(|frame| frame.seal(&mut line)).unwrap_or(0);
    line.truncate(length);
    line
}

fn gone(channel: u8, reason: &str) -> Vec<u8> {
    sealed(Header { channel, seq: 0 }, &Reply::Gone { reason })
}
