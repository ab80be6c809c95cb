//! The host's end of the line to the kernel. It sends the requests of the bench, receives replies and events, and transfers the
//! data of consumers.

use std::collections::{BTreeMap, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use dtrace_consumer::{Transport, TransportError};
use dtrace_protocol::OTHERS;
use dtrace_protocol::frame::channel_of;
use sdt_protocol::frame::{self, Arrived, Decoder};
use sdt_protocol::{Event, Message, Refusal, Reply, Request};

use cargo_sdt::internal::output;

/// Console lines kept for error messages.
pub(crate) const KEPT: usize = 20;

/// An error on the line.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The machine has closed the line.
    #[error("the line to the kernel is closed")]
    Closed,
    /// The machine does not read the line.
    #[error("the line to the kernel is full")]
    Stuck,
    /// The greatest number of consumers is connected.
    #[error("all channels of the line to the kernel are taken")]
    NoChannel,
    /// Reading or writing failed.
    #[error("the line to the kernel failed: {0}")]
    Failed(std::io::Error),
    /// The kernel has not come up in time.
    #[error("the kernel did not come up within {} s", .0.as_secs())]
    NotUp(Duration),
    /// The kernel did not answer within the limit.
    #[error("the kernel did not answer {request} within {} s", .limit.as_secs())]
    NoAnswer {
        /// The request.
        request: &'static str,
        /// The limit.
        limit: Duration,
    },
    /// A consumer could not continue.
    #[error(transparent)]
    Consumer(dtrace_consumer::ClientError),
    /// The kernel panicked.
    #[error("the kernel panicked: {0}")]
    Panicked(String),
    /// The kernel could not read a request.
    #[error("the kernel received a damaged frame: {0}")]
    Damaged(String),
    /// The kernel refused.
    #[error("{}", refused(.0))]
    Refused(Refusal),
    /// The kernel answered something else.
    #[error("the kernel answered {request} with {reply:?}")]
    Strange {
        /// The request.
        request: &'static str,
        /// The received reply.
        reply: Box<Reply>,
    },
}

fn refused(refusal: &Refusal) -> String {
    match refusal.errno {
        0 => refusal.message.clone(),
        errno => format!("{} (error {errno})", refusal.message),
    }
}

/// The line to the kernel. Clones share the line. The bench sends requests over it, and consumers trace over its [ports](Port).
#[derive(Clone, Debug)]
pub struct Wire(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    line: UnixStream,
    decoder: Decoder,
    /// Answers and events for the bench.
    arrived: VecDeque<Event>,
    /// Bytes for each consumer.
    ports: BTreeMap<u8, VecDeque<u8>>,
    console: VecDeque<String>,
    /// Console lines are shown as they come.
    echo: bool,
    panicked: Option<String>,
    damaged: u64,
    seq: u32,
}

impl Wire {
    /// The line over this socket. With `echo` the kernel's console lines go to standard error.
    pub fn new(line: UnixStream, echo: bool) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            line,
            decoder: Decoder::new(),
            arrived: VecDeque::new(),
            ports: BTreeMap::new(),
            console: VecDeque::new(),
            echo,
            panicked: None,
            damaged: 0,
            seq: 0,
        })))
    }

    /// Returns the socket and the last lines of the console; `None` if there are other clones or ports of the line.
    pub(crate) fn into_line(self) -> Option<(UnixStream, VecDeque<String>)> {
        let inner = Arc::into_inner(self.0)?.into_inner().unwrap_or_else(PoisonError::into_inner);
        Some((inner.line, inner.console))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last lines of the kernel's console.
    pub fn console(&self) -> impl ExactSizeIterator<Item = String> + DoubleEndedIterator + use<> {
        self.inner().console.clone().into_iter()
    }

    /// Frames from the kernel that were damaged, and dropped.
    pub fn damaged(&self) -> u64 {
        self.inner().damaged
    }

    /// The message of the kernel's panic, if it has panicked.
    pub fn panicked(&self) -> Option<String> {
        self.inner().panicked.clone()
    }

    /// Opens a channel of the line for one more consumer.
    ///
    /// # Errors
    /// All channels are taken.
    pub fn port(&self) -> Result<Port, WireError> {
        let mut inner = self.inner();
        let free = (1..OTHERS).find(|channel| !inner.ports.contains_key(channel));
        let channel = free.ok_or(WireError::NoChannel)?;
        inner.ports.insert(channel, VecDeque::new());
        Ok(Port { wire: self.clone(), channel })
    }

    /// Sends a request, and returns its number. The reply has the same number.
    ///
    /// # Errors
    /// The line failed or does not take the request within the limit.
    pub fn send(&self, request: Request, limit: Duration) -> Result<u32, WireError> {
        let mut inner = self.inner();
        inner.seq = inner.seq.wrapping_add(1);
        let seq = inner.seq;
        let name = name(&request);
        let bytes = frame::encode(&Message { seq, request });
        inner.write(&bytes, limit).map_err(|error| match error {
            WireError::Stuck => WireError::NoAnswer { request: name, limit },
            error => error,
        })?;
        Ok(seq)
    }

    /// Returns the next event for the bench, or `None` at the deadline. Handles console lines and damaged frames itself; a panic
    /// of the kernel is an error.
    ///
    /// # Errors
    /// The line is closed or failed, the kernel panicked, or it could not read a request.
    pub fn next(&self, deadline: Instant) -> Result<Option<Event>, WireError> {
        let mut inner = self.inner();
        loop {
            match inner.arrived.pop_front() {
                Some(Event::BadFrame { reason }) => return Err(WireError::Damaged(reason)),
                Some(event) => return Ok(Some(event)),
                None => {}
            }
            if let Some(message) = &inner.panicked {
                return Err(WireError::Panicked(message.clone()));
            }
            if !inner.read(deadline)? {
                return Ok(None);
            }
        }
    }

    /// Waits for the kernel's first console line. Before it, the kernel has no serial port, so that requests would be lost.
    ///
    /// # Errors
    /// The errors of [`next`](Self::next); no line arrives within the limit.
    pub fn wait_until_up(&self, limit: Duration) -> Result<(), WireError> {
        let deadline = Instant::now() + limit;
        while self.inner().console.is_empty() {
            let beat = deadline.min(Instant::now() + Duration::from_millis(10));
            if self.next(beat)?.is_none() && Instant::now() >= deadline {
                return Err(WireError::NotUp(limit));
            }
        }
        Ok(())
    }

    /// Sends a request and waits for the reply.
    ///
    /// # Errors
    /// The line failed, the kernel panicked, refused, or did not answer within the limit.
    pub fn request(&self, request: Request, limit: Duration) -> Result<Reply, WireError> {
        let name = name(&request);
        let deadline = Instant::now() + limit;
        let asked = self.send(request, limit)?;
        loop {
            match self.next(deadline)? {
                None => return Err(WireError::NoAnswer { request: name, limit }),
                Some(Event::Reply { seq, result }) if seq == asked => {
                    return result.map_err(WireError::Refused);
                }
                // Ignores late replies to requests that timed out, and events for other requests.
                Some(_) => {}
            }
        }
    }
}

impl Inner {
    fn write(&mut self, bytes: &[u8], limit: Duration) -> Result<(), WireError> {
        self.line.set_write_timeout(Some(limit)).map_err(WireError::Failed)?;
        self.line.write_all(bytes).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => WireError::Stuck,
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => WireError::Closed,
            _ => WireError::Failed(error),
        })
    }

    fn console_line(&mut self, text: String) {
        if self.echo {
            output::say(format_args!("kernel: {text}\n"));
        }
        if self.console.len() == KEPT {
            self.console.pop_front();
        }
        self.console.push_back(text);
    }

    /// Reads available bytes, and waits for them until the deadline. Returns whether any arrived.
    fn read(&mut self, deadline: Instant) -> Result<bool, WireError> {
        // The system refuses a timeout of 0.
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        self.line.set_read_timeout(Some(left)).map_err(WireError::Failed)?;
        let mut buffer = [0; 8192];
        let length = match self.line.read(&mut buffer) {
            Ok(0) => return Err(WireError::Closed),
            Ok(length) => length,
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut => return Ok(false),
                ErrorKind::Interrupted => return Ok(true),
                ErrorKind::ConnectionReset => return Err(WireError::Closed),
                _ => return Err(WireError::Failed(error)),
            },
        };
        for &byte in &buffer[..length] {
            match self.decoder.push(byte) {
                None => {}
                Some(Arrived::Ours(Ok(Event::Console { text }))) => self.console_line(text),
                Some(Arrived::Ours(Ok(Event::Panic { message }))) => self.panicked = Some(message),
                Some(Arrived::Ours(Ok(event))) => self.arrived.push_back(event),
                Some(Arrived::Consumers(frame)) => {
                    let port = channel_of(&frame).and_then(|channel| self.ports.get_mut(&channel));
                    match port {
                        Some(port) => port.extend(frame),
                        None => self.damaged += 1,
                    }
                }
                // The output of the firmware before the kernel starts is not a frame either.
                Some(Arrived::Ours(Err(_))) => self.damaged += 1,
            }
        }
        Ok(true)
    }
}

/// A consumer's part of the line.
#[derive(Debug)]
pub struct Port {
    wire: Wire,
    channel: u8,
}

impl Port {
    /// Returns the number of its channel.
    pub fn channel(&self) -> u8 {
        self.channel
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.wire.inner().ports.remove(&self.channel);
    }
}

impl Transport for Port {
    fn read(&mut self, buffer: &mut [u8], wait: Duration) -> Result<usize, TransportError> {
        let mut inner = self.wire.inner();
        let deadline = Instant::now() + wait;
        loop {
            let port = inner.ports.entry(self.channel).or_default();
            let length = buffer.len().min(port.len());
            if length != 0 {
                for (to, from) in buffer.iter_mut().zip(port.drain(..length)) {
                    *to = from;
                }
                return Ok(length);
            }
            if let Some(message) = &inner.panicked {
                return Err(transport_error(WireError::Panicked(message.clone())));
            }
            if !inner.read(deadline).map_err(transport_error)? {
                return Ok(0);
            }
        }
    }

    fn write(&mut self, bytes: &[u8], limit: Duration) -> Result<(), TransportError> {
        self.wire.inner().write(bytes, limit).map_err(transport_error)
    }
}

fn transport_error(error: WireError) -> TransportError {
    match error {
        WireError::Closed => TransportError::Closed(None),
        WireError::Failed(error) => TransportError::Failed(error),
        error => TransportError::Failed(std::io::Error::other(error)),
    }
}

/// Returns the name of a request for messages.
pub fn name(request: &Request) -> &'static str {
    match request {
        Request::Hello { .. } => "hello",
        Request::FreeBsd { .. } => "freebsd",
        Request::Illumos { .. } => "illumos",
        Request::KldLoad { .. } => "kldload",
        Request::KldUnload { .. } => "kldunload",
        Request::KldStat => "kldstat",
        Request::Exec { .. } => "exec",
        Request::Sysctl { .. } => "sysctl",
        Request::Kstat { .. } => "kstat",
        Request::ReadText { .. } => "read text",
        Request::Counters => "counters",
        Request::Torture { .. } => "torture",
        Request::Reenter { .. } => "reenter",
        Request::Call { .. } => "call",
        Request::TortureFunctions { .. } => "torture functions",
        Request::HashText => "hash text",
        Request::Mailed { .. } => "message in the mailbox",
        Request::PowerOff => "power off",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    const LIMIT: Duration = Duration::from_secs(10);
    const HELLO: Request = Request::Hello { time: 0 };

    /// Returns a line to a peer that answers every request with the result of `answer`.
    fn line_to(answer: impl Fn(Message) -> Vec<Vec<u8>> + Send + 'static) -> Wire {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        thread::spawn(move || {
            let mut decoder = Decoder::new();
            let mut byte = [0];
            while theirs.read_exact(&mut byte).is_ok() {
                if let Some(Arrived::Ours(message)) = decoder.push::<Message>(byte[0]) {
                    for bytes in answer(message.unwrap()) {
                        theirs.write_all(&bytes).unwrap();
                    }
                }
            }
        });
        Wire::new(ours, false)
    }

    fn reply(seq: u32, result: Result<Reply, Refusal>) -> Vec<u8> {
        frame::encode(&Event::Reply { seq, result })
    }

    #[test]
    fn answers_find_their_requests() {
        let wire = line_to(|message| {
            vec![
                reply(message.seq.wrapping_sub(1), Ok(Reply::Done)),
                frame::encode(&Event::Progress { done: 1, total: 2 }),
                reply(message.seq, Ok(Reply::Modules(Vec::new()))),
            ]
        });
        for _ in 0..3 {
            let got = wire.request(Request::KldStat, LIMIT).unwrap();
            assert_eq!(got, Reply::Modules(Vec::new()));
        }
    }

    #[test]
    fn refusals_say_why() {
        let refusal = Refusal { errno: 8, message: "x.ko: symbol puts undefined".into() };
        let wire = line_to(move |message| vec![reply(message.seq, Err(refusal.clone()))]);
        let error = wire.request(Request::KldStat, LIMIT).unwrap_err();
        assert_eq!(error.to_string(), "x.ko: symbol puts undefined (error 8)");
    }

    #[test]
    fn silence_is_an_error() {
        let wire = line_to(|_| Vec::new());
        let error = wire.request(HELLO, Duration::from_millis(50)).unwrap_err();
        assert_eq!(error.to_string(), "the kernel did not answer hello within 0 s");
    }

    #[test]
    fn a_panic_is_an_error_and_the_console_is_kept() {
        let wire = line_to(|_| {
            let line = |n: u32| frame::encode(&Event::Console { text: format!("line {n}") });
            let panic = frame::encode(&Event::Panic { message: "page fault".into() });
            (0..25).map(line).chain([panic]).collect()
        });
        let error = wire.request(HELLO, LIMIT).unwrap_err();
        assert_eq!(error.to_string(), "the kernel panicked: page fault");
        let kept: Vec<_> = wire.console().collect();
        assert_eq!((kept.len(), &*kept[0], &*kept[19]), (KEPT, "line 5", "line 24"));
    }

    #[test]
    fn a_dead_machine_is_noticed() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(theirs);
        let wire = Wire::new(ours, false);
        assert!(matches!(wire.request(HELLO, LIMIT), Err(WireError::Closed)));
    }

    #[test]
    fn a_kernel_that_comes_up_is_waited_for() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let wire = Wire::new(ours, false);
        let error = wire.wait_until_up(Duration::from_millis(20)).unwrap_err();
        assert_eq!(error.to_string(), "the kernel did not come up within 0 s");
        theirs.write_all(&frame::encode(&Event::Console { text: "up".into() })).unwrap();
        wire.wait_until_up(LIMIT).unwrap();
    }

    #[test]
    fn noise_before_a_frame_is_passed_over() {
        let wire = line_to(|message| {
            vec![b"SeaBIOS\r\n\0\0".to_vec(), reply(message.seq, Ok(Reply::Done))]
        });
        assert_eq!(wire.request(Request::KldStat, LIMIT).unwrap(), Reply::Done);
        assert_eq!(wire.damaged(), 1);
    }

    #[test]
    fn damage_that_the_kernel_saw_is_an_error() {
        let bad = frame::encode(&Event::BadFrame { reason: "not COBS".into() });
        let wire = line_to(move |_| vec![bad.clone()]);
        let error = wire.request(Request::KldStat, LIMIT).unwrap_err();
        assert_eq!(error.to_string(), "the kernel received a damaged frame: not COBS");
    }
}
