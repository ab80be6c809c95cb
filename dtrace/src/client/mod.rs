//! What can be asked of a kernel.

mod answer;
mod error;
mod exchange;
mod known;
mod probes;
mod program;
mod records;

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant};

use dtrace_protocol::{Decoder, Reply, Request, Status, VERSION};

pub use answer::{Aggregation, ArgType, Detail, Eprobe, Probe, Site, Snapshot, Symbol};
pub use error::ClientError;
pub use known::Declared;
pub use records::Records;

use crate::budget::{Budget, Share, Use};
use crate::transport::Transport;

/// The channel of a consumer that has a line for itself.
pub const CHANNEL: u8 = 1;
/// Every request is answered at once, as far as the line allows.
const LIMIT: Duration = Duration::from_secs(60);
/// How long a line is given to take the last request of who goes.
const GOODBYE: Duration = Duration::from_secs(1);
/// How long the first greeting may be unanswered before there is another; each further one twice as long.
const GREETING: Duration = Duration::from_secs(2);
/// Bytes of the longest frame that is taken.
const FRAME: usize = 64 << 10;

/// A consumer's end of a line: one channel.
pub struct Client {
    transport: Box<dyn Transport>,
    channel: u8,
    decoder: Decoder<Vec<u8>>,
    /// Taken from the line, and not looked at yet.
    arrived: VecDeque<u8>,
    /// Number of the last request.
    seq: u32,
    /// The request for records that has not been answered, if it may be still.
    reading: Option<u32>,
    /// Records that came while something else was waited for.
    early: VecDeque<Records>,
    /// What these take.
    early_share: Share,
    /// What the other side may have us keep.
    budget: Budget,
    /// What of that declarations take: the compiler keeps their types.
    declared: Share,
    /// When the line last gave a sign of life.
    heard: Instant,
    limit: Duration,
    /// Since when something damaged may have been the answer.
    suspect: Option<Instant>,
    /// The kernel knows of us.
    greeted: bool,
    /// Says whether who waits wants to go: then an answer has only so long.
    hurried: Option<fn() -> bool>,
}

/// The kernel forgets who goes without a word, as far as the line takes that.
impl Drop for Client {
    fn drop(&mut self) {
        if self.greeted {
            self.limit = self.limit.min(GOODBYE);
            // The line may be what failed.
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
    /// Greets the kernel on the other side of a line that is for nobody else.
    ///
    /// # Errors
    /// There is none, or one of another version.
    pub fn connect(transport: impl Transport + 'static) -> Result<Self, ClientError> {
        Self::greet(transport, CHANNEL, LIMIT)
    }

    /// The same; once `hurried` says so, each answer has five seconds, and no more.
    ///
    /// # Errors
    /// There is none, or one of another version.
    pub fn connect_until(
        transport: impl Transport + 'static,
        hurried: fn() -> bool,
    ) -> Result<Self, ClientError> {
        Self::greet_until(transport, CHANNEL, LIMIT, Some(hurried))
    }

    /// Greets the kernel on a channel of a line. Every answer may take until the limit.
    ///
    /// # Errors
    /// There is none, or one of another version.
    pub fn greet(
        transport: impl Transport + 'static,
        channel: u8,
        limit: Duration,
    ) -> Result<Self, ClientError> {
        Self::greet_until(transport, channel, limit, None)
    }

    fn greet_until(
        transport: impl Transport + 'static,
        channel: u8,
        limit: Duration,
        hurried: Option<fn() -> bool>,
    ) -> Result<Self, ClientError> {
        let budget = Budget::default();
        let mut client = Self {
            transport: Box::new(transport),
            channel,
            decoder: Decoder::new(vec![0; FRAME]),
            arrived: VecDeque::new(),
            // What an earlier consumer has asked on this line is not answered to us.
            seq: RandomState::new().build_hasher().finish() as u32,
            reading: None,
            early: VecDeque::new(),
            early_share: budget.share(Use::Buffers),
            declared: budget.share(Use::Declarations),
            budget,
            heard: Instant::now(),
            limit,
            suspect: None,
            greeted: false,
            hurried,
        };
        let end = Instant::now() + limit;
        let mut patience = GREETING;
        // A kernel that has just begun loses what arrives before its line is set up, so it is greeted again.
        let version = loop {
            let left = end.saturating_duration_since(Instant::now());
            client.limit = patience.min(left);
            match client.hello() {
                Err(error @ ClientError::NoAnswer { .. }) if client.is_hurried() => {
                    return Err(error);
                }
                Err(ClientError::NoAnswer { .. }) if patience < left => patience *= 2,
                Err(ClientError::NoAnswer { request, .. }) => {
                    return Err(ClientError::NoAnswer { request, limit });
                }
                version => break version?,
            }
        };
        client.limit = limit;
        client.early.clear();
        client.early_share.set(0)?;
        client.greeted = version == VERSION;
        if client.greeted { Ok(client) } else { Err(ClientError::Version(version)) }
    }

    /// The memory that the kernel may have dtrace use.
    pub const fn budget(&self) -> &Budget {
        &self.budget
    }

    /// From here on each answer has so long.
    pub const fn set_limit(&mut self, limit: Duration) {
        self.limit = limit;
    }

    fn hello(&mut self) -> Result<u32, ClientError> {
        // Ends whatever is on the line already.
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

    /// Opens the framework. While it is open no provider can go.
    ///
    /// # Errors
    /// The kernel refuses, or failed; so with all that follow.
    pub fn open(&mut self) -> Result<(), ClientError> {
        self.done("open", Request::Open)
    }

    /// Ends it all: the kernel forgets this consumer.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn close(&mut self) -> Result<(), ClientError> {
        self.done("close", Request::Close)?;
        self.greeted = false;
        Ok(())
    }

    /// How framework and line are.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn status(&mut self) -> Result<Status, ClientError> {
        let status = self.call("status", Request::Status, |reply, _| match reply {
            Reply::Status(status) => Some(status),
            _ => None,
        })?;
        if status.cpus > error::CPUS { Err(ClientError::Cpus(status.cpus)) } else { Ok(status) }
    }
}
