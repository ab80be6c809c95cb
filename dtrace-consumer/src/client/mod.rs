//! A client: requests to a kernel, and its answers.

mod answer;
mod buffers;
mod error;
mod exchange;
mod functions;
mod known;
mod probes;
mod program;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::Range;
use std::time::{Duration, Instant};

use dtrace_protocol::{Decoder, Reply, Request, Status, VERSION};

pub use answer::{Aggregation, ArgType, Detail, Eprobe, Probe, Site, Snapshot, Symbol};
pub use error::ClientError;
pub use functions::{FunctionSite, FunctionText};
pub use known::Declared;

use crate::budget::{Budget, Share, Use};
use crate::transport::{Peer, Transport};

/// The channel of a consumer with a connection of its own.
pub const CHANNEL: u8 = 1;
/// The default time limit for an answer: kernels answer at once.
const LIMIT: Duration = Duration::from_secs(60);
/// Time limit for sending the last request of a client.
const GOODBYE: Duration = Duration::from_secs(1);
/// Time after which the first greeting is repeated; it doubles with each repetition.
const GREETING: Duration = Duration::from_secs(2);
/// Size of the longest frame that is accepted, in bytes.
const FRAME: usize = 64 << 10;

/// A consumer's channel of a connection to a kernel.
pub struct Client {
    transport: Box<dyn Transport>,
    peer: Peer,
    channel: u8,
    decoder: Decoder<Vec<u8>>,
    /// The last received bytes, and the range of those that are not decoded yet.
    received: Vec<u8>,
    arrived: Range<usize>,
    /// The number of the last request.
    seq: u32,
    /// The budget of memory for this kernel.
    budget: Budget,
    /// The memory of declarations, whose types the compiler keeps.
    declared: Share,
    limit: Duration,
    /// The time since which a damaged frame may have been the answer.
    suspect: Option<Instant>,
    /// Whether the kernel has a session for this client.
    greeted: bool,
    /// Returns whether the user has interrupted the run: then an answer has a shorter time limit.
    hurried: Option<fn() -> bool>,
}

/// Closes the session, if the connection still works.
impl Drop for Client {
    fn drop(&mut self) {
        if self.greeted {
            self.limit = self.limit.min(GOODBYE);
            // The connection may have failed.
            let _ = self.send("close", &Request::Close);
        }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("channel", &self.channel).finish_non_exhaustive()
    }
}

impl Client {
    /// Connects to a kernel over a transport that only this client uses.
    ///
    /// # Errors
    /// The peer does not answer, or speaks another version.
    pub fn connect(transport: impl Transport + 'static) -> Result<Self, ClientError> {
        Self::greet(transport, CHANNEL, LIMIT)
    }

    /// Connects like [`connect`](Self::connect). Errors name the peer. Once `hurried` returns true, each answer has a time limit of
    /// five seconds.
    ///
    /// # Errors
    /// The peer does not answer, or speaks another version.
    pub fn connect_until(
        transport: impl Transport + 'static,
        peer: Peer,
        hurried: fn() -> bool,
    ) -> Result<Self, ClientError> {
        Self::greet_until(transport, peer, CHANNEL, LIMIT, Some(hurried))
    }

    /// Connects to a kernel on a channel of a transport, with a time limit for each answer.
    ///
    /// # Errors
    /// The peer does not answer, or speaks another version.
    pub fn greet(
        transport: impl Transport + 'static,
        channel: u8,
        limit: Duration,
    ) -> Result<Self, ClientError> {
        Self::greet_until(transport, Peer::Kernel, channel, limit, None)
    }

    fn greet_until(
        transport: impl Transport + 'static,
        peer: Peer,
        channel: u8,
        limit: Duration,
        hurried: Option<fn() -> bool>,
    ) -> Result<Self, ClientError> {
        let budget = Budget::default();
        let mut client = Self {
            transport: Box::new(transport),
            peer,
            channel,
            decoder: Decoder::new(vec![0; FRAME]),
            received: vec![0; FRAME],
            arrived: 0..0,
            // A random start, so that answers to requests of an earlier client of this connection are recognised and skipped.
            seq: RandomState::new().build_hasher().finish() as u32,
            declared: budget.share(Use::Declarations),
            budget,
            limit,
            suspect: None,
            greeted: false,
            hurried,
        };
        let end = Instant::now() + limit;
        let mut patience = GREETING;
        // A kernel that has just booted loses bytes that arrive before its line is set up, so the greeting is repeated.
        let version = loop {
            let left = end.saturating_duration_since(Instant::now());
            client.limit = patience.min(left);
            match client.hello() {
                Err(error @ ClientError::NoAnswer { .. }) if client.is_hurried() => {
                    return Err(error);
                }
                Err(ClientError::NoAnswer { .. }) if patience < left => patience *= 2,
                Err(ClientError::NoAnswer { request, .. }) => {
                    return Err(client.no_answer(request, limit));
                }
                version => break version?,
            }
        };
        client.limit = limit;
        client.greeted = version == VERSION;
        if client.greeted { Ok(client) } else { Err(ClientError::Version { peer, version }) }
    }

    /// Returns the budget of memory that the kernel can make dtrace use.
    pub const fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Sets the time limit of all further answers.
    pub const fn set_limit(&mut self, limit: Duration) {
        self.limit = limit;
    }

    fn hello(&mut self) -> Result<u32, ClientError> {
        // Ends a frame that is incomplete on the connection.
        self.transport.write(&[0], self.limit)?;
        self.call("hello", Request::Hello { version: VERSION }, |reply, _| match reply {
            Reply::Hello { version, .. } => Some(version),
            _ => None,
        })
        .map_err(|error| match error {
            ClientError::Strange("hello") => ClientError::Echo,
            error => error,
        })
    }

    /// Opens a session of the framework. Providers cannot unregister while a session is open.
    ///
    /// # Errors
    /// The kernel refuses, or the kernel or the connection failed.
    pub fn open(&mut self) -> Result<(), ClientError> {
        self.done("open", Request::Open)
    }

    /// Closes the session; the kernel frees everything that belongs to it.
    ///
    /// # Errors
    /// See [`open`](Self::open).
    pub fn close(&mut self) -> Result<(), ClientError> {
        self.done("close", Request::Close)?;
        self.greeted = false;
        Ok(())
    }

    /// Requests the status of the framework and the connection.
    ///
    /// # Errors
    /// See [`open`](Self::open).
    pub fn status(&mut self) -> Result<Status, ClientError> {
        let status = self.call("status", Request::Status, |reply, _| match reply {
            Reply::Status(status) => Some(status),
            _ => None,
        })?;
        if status.cpus > error::CPUS { Err(ClientError::Cpus(status.cpus)) } else { Ok(status) }
    }
}
