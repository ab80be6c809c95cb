//! What can be asked of a kernel.

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant};

use dtrace_protocol::frame::encoded_len;
use dtrace_protocol::{
    Datum, Decoder, FrameError, Header, Items, Record, Reply, Request, Run, SiteState, SnapshotOf,
    Status, VERSION, Why, Writer,
};

use crate::transport::{Transport, TransportError};

/// Something damaged has come: so long is waited for an answer after that.
const GRACE: Duration = Duration::from_secs(2);

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
/// Bytes of the longest request: a description is much shorter.
const REQUEST: usize = 1 << 10;
/// Bytes of a program that are sent at a time: they fit the shortest frame that a framework takes.
const PIECE: usize = 384;
/// So often a piece of an answer is asked for again that was damaged on the line.
const TRIES: usize = 4;
/// A line on which nothing has come for so long is asked whether it is still there.
const SILENCE: Duration = Duration::from_secs(10);

/// One probe. Names that are not UTF-8 are shown as well as can be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Its id.
    pub id: u32,
    /// Provider name.
    pub provider: String,
    /// Module name.
    pub module: String,
    /// Function name.
    pub function: String,
    /// Probe name.
    pub name: String,
}

/// What `-l -v` shows of a probe. Stability is name, data, class, as DTrace numbers them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detail {
    /// Stability of the probe's description.
    pub probe: [u8; 3],
    /// Stability of its arguments.
    pub args: [u8; 3],
    /// Stability of its provider: of the provider itself, of modules, functions, names and arguments.
    pub provider: [[u8; 3]; 5],
    /// Who may use the provider, as DTrace's bits.
    pub privileges: u32,
    /// Types of `args[0]`, `args[1]`, ...
    pub types: Vec<ArgType>,
}

/// Type of one argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgType {
    /// C type the kernel passes.
    pub native: String,
    /// C type D sees, if it is another one.
    pub translated: Option<String>,
}

/// A firing site of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Its address.
    pub address: u64,
    /// The symbol of the function it is in, as it is in the file, and the site's offset in it.
    pub function: Option<(String, u64)>,
    /// What it does now.
    pub state: SiteState,
    /// Address of its cold block, where it goes while enabled.
    pub target: u64,
    /// Whether a jump can take it there.
    pub in_reach: bool,
    /// Most bytes that a jump can go on this architecture, either way.
    pub reach: u64,
}

/// What an enabled probe records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eprobe {
    /// The probe's id.
    pub probe: u32,
    /// Bytes of one record, its header included.
    pub size: u32,
    /// In the order of the actions.
    pub data: Vec<Datum>,
}

/// What an aggregation holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aggregation {
    /// The number of its variable.
    pub variable: u32,
    /// The enabled probe that aggregates.
    pub epid: u32,
    /// Bytes of one tuple, its header included.
    pub size: u32,
    /// The number of the variable, the keys, the value.
    pub data: Vec<Datum>,
}

/// What stands at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its module.
    pub module: String,
    /// Its name, as it is in the file.
    pub name: String,
    /// Where it begins.
    pub address: u64,
    /// Bytes of it.
    pub size: u64,
}

/// A CPU's buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The bytes, what is oldest first.
    pub data: Vec<u8>,
    /// What found no room since the last time.
    pub drops: u64,
    /// Errors of programs on this CPU since then.
    pub errors: u64,
    /// When the buffer was switched, in nanoseconds of the kernel's clock.
    pub taken: u64,
}

/// What was recorded on one CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    /// Which one.
    pub cpu: u32,
    /// Records lost since it was last read, because its buffer was full.
    pub drops: u64,
    /// Answers that did not come, but something damaged did. What was recorded in them is lost.
    pub damaged: u64,
    /// Oldest first.
    pub records: Vec<Record>,
}

impl Records {
    fn is_empty(&self) -> bool {
        self.drops == 0 && self.damaged == 0 && self.records.is_empty()
    }
}

/// What can go wrong with a kernel.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nothing goes over the line any more.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The other side has come to an end, and says how.
    #[error("{0}")]
    Gone(String),
    /// An answer was damaged on the line.
    #[error("an answer of the kernel's was damaged on the line; try again")]
    Damaged,
    /// No answer in time.
    #[error("the kernel did not answer {request} within {} s", .limit.as_secs())]
    NoAnswer {
        /// What was asked.
        request: &'static str,
        /// How long was waited.
        limit: Duration,
    },
    /// The two sides do not understand each other.
    #[error(
        "the kernel speaks version {0} of the protocol, this dtrace version {VERSION}; build one of them again"
    )]
    Version(u32),
    /// The kernel refused.
    #[error("{message}")]
    Refused {
        /// Of which kind.
        why: Why,
        /// What is wrong with what.
        message: String,
    },
    /// What came back for the first request is no kernel's answer.
    #[error(
        "there is no kernel that answers: what comes back is the request itself, or nothing that \
         this dtrace knows; turn the line's echo off, or look who is on the other side"
    )]
    Echo,
    /// The kernel answered something else.
    #[error("the kernel answered {0} with something else")]
    Strange(&'static str),
}

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
    /// When the line last gave a sign of life.
    heard: Instant,
    limit: Duration,
    /// Since when something damaged may have been the answer.
    suspect: Option<Instant>,
    /// The kernel knows of us.
    greeted: bool,
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

    /// Greets the kernel on a channel of a line. Every answer may take until the limit.
    ///
    /// # Errors
    /// There is none, or one of another version.
    pub fn greet(
        transport: impl Transport + 'static,
        channel: u8,
        limit: Duration,
    ) -> Result<Self, ClientError> {
        let mut client = Self {
            transport: Box::new(transport),
            channel,
            decoder: Decoder::new(vec![0; FRAME]),
            arrived: VecDeque::new(),
            // What an earlier consumer has asked on this line is not answered to us.
            seq: RandomState::new().build_hasher().finish() as u32,
            reading: None,
            early: VecDeque::new(),
            heard: Instant::now(),
            limit,
            suspect: None,
            greeted: false,
        };
        let end = Instant::now() + limit;
        let mut patience = GREETING;
        // A kernel that has just begun loses what arrives before its line is set up, so it is greeted again.
        let version = loop {
            let left = end.saturating_duration_since(Instant::now());
            client.limit = patience.min(left);
            match client.hello() {
                Err(ClientError::NoAnswer { .. }) if patience < left => patience *= 2,
                Err(ClientError::NoAnswer { request, .. }) => {
                    return Err(ClientError::NoAnswer { request, limit });
                }
                version => break version?,
            }
        };
        client.limit = limit;
        client.early.clear();
        client.greeted = version == VERSION;
        if client.greeted { Ok(client) } else { Err(ClientError::Version(version)) }
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

    /// The probes that a description matches, in order of id.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn list(&mut self, spec: &str) -> Result<Vec<Probe>, ClientError> {
        let mut all: Vec<Probe> = Vec::new();
        loop {
            let after = all.last().map_or(0, |probe| probe.id);
            let more = self.list_after(spec, after)?;
            if more.is_empty() {
                return Ok(all);
            }
            // A kernel that goes back would never end.
            if more.first().is_some_and(|probe| probe.id <= after)
                || !more.is_sorted_by_key(|probe| probe.id)
            {
                return Err(ClientError::Strange("list"));
            }
            all.extend(more);
        }
    }

    /// Some of the probes that a description matches, the next ones after an id; with 0 the first ones. None are
    /// left out, but there may be more.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn list_after(&mut self, spec: &str, after: u32) -> Result<Vec<Probe>, ClientError> {
        self.call("list", Request::List { spec, after }, |reply, items| {
            if reply == Reply::Probes { probes(items) } else { None }
        })
    }

    /// Stability and argument types of a probe.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn describe(&mut self, id: u32) -> Result<Detail, ClientError> {
        let mut detail = self.call("describe", Request::Describe { probe: id }, |reply, _| {
            let Reply::Detail(of) = reply else { return None };
            let (probe, args, provider) = (of.stability, of.args, of.provider);
            Some(Detail { probe, args, provider, privileges: of.privileges, types: Vec::new() })
        })?;
        for index in 0..=u8::MAX {
            let request = Request::Argument { probe: id, index };
            let argument = self.call("argument", request, |reply, _| {
                let Reply::Argument(argument) = reply else { return None };
                Some(argument.map(|of| ArgType {
                    native: text(of.native),
                    translated: (!of.translated.is_empty()).then(|| text(of.translated)),
                }))
            })?;
            match argument {
                Some(argument) => detail.types.push(argument),
                None => break,
            }
        }
        Ok(detail)
    }

    /// Where a probe fires, in order of address.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn sites(&mut self, probe: u32) -> Result<Vec<Site>, ClientError> {
        let mut all = Vec::new();
        loop {
            let skip = all.len() as u32;
            let more = self.call("sites", Request::Sites { probe, skip }, |reply, items| {
                if reply == Reply::Sites { sites(items) } else { None }
            })?;
            if more.is_empty() {
                return Ok(all);
            }
            // Nor would one that begins again.
            let last = all.last().map(|site: &Site| site.address);
            if more.first().map(|site| site.address) <= last
                || !more.is_sorted_by_key(|site| site.address)
            {
                return Err(ClientError::Strange("sites"));
            }
            all.extend(more);
        }
    }

    /// Enables what a description matches; says how many probes.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn enable(&mut self, spec: &str) -> Result<u32, ClientError> {
        self.call("enable", Request::Enable { spec }, |reply, _| matched(reply))
    }

    /// Disables what a description matches; says how many probes.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn disable(&mut self, spec: &str) -> Result<u32, ClientError> {
        self.call("disable", Request::Disable { spec }, |reply, _| matched(reply))
    }

    /// Sets an option of the run, by its number, before the channel goes.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn option(&mut self, option: u32, value: i64) -> Result<(), ClientError> {
        self.done("option", Request::Option { option, value })
    }

    /// Hands over a program in DOF and enables its clauses; says how many probes.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn program(&mut self, dof: &[u8]) -> Result<u32, ClientError> {
        let size = dof.len() as u32;
        let mut at = 0;
        loop {
            let bytes = &dof[at..dof.len().min(at + PIECE)];
            let last = at + bytes.len() == dof.len();
            let request = Request::Program { size, at: at as u32, bytes };
            let done = self.call("program", request, |reply, _| match (reply, last) {
                (Reply::Done, false) => Some(None),
                (Reply::Matched { probes }, true) => Some(Some(probes)),
                _ => None,
            })?;
            match done {
                Some(probes) => return Ok(probes),
                None => at += bytes.len(),
            }
        }
    }

    /// Takes over what was enabled before any consumer was there.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn claim(&mut self) -> Result<(), ClientError> {
        self.done("claim", Request::Claim)
    }

    /// A probe by its id, if there is one.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn probe(&mut self, id: u32) -> Result<Option<Probe>, ClientError> {
        let request = Request::Describe { probe: id };
        let found = self.call("describe", request, |reply, _| match reply {
            Reply::Detail(of) => Some(probe(of.probe)),
            _ => None,
        });
        there(found)
    }

    /// What an enabled probe of this channel's records, if there is one of this number.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn eprobe(&mut self, epid: u32) -> Result<Option<Eprobe>, ClientError> {
        let found = self.call("eprobe", Request::Eprobe { epid }, |reply, items| {
            let Reply::Eprobe { probe, size } = reply else { return None };
            Some(Eprobe { probe, size, data: data(items)? })
        });
        there(found)
    }

    /// What an aggregation of this channel's holds, if there is one of this number.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn aggregation(&mut self, id: u32) -> Result<Option<Aggregation>, ClientError> {
        let found = self.call("aggregation", Request::Aggregation { id }, |reply, items| {
            let Reply::Aggregation { variable, epid, size } = reply else { return None };
            Some(Aggregation { variable, epid, size, data: data(items)? })
        });
        there(found)
    }

    /// A format of this channel's programs, if there is one of this number.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn format(&mut self, number: u16) -> Result<Option<Vec<u8>>, ClientError> {
        let mut all = Vec::new();
        loop {
            let request = Request::Format { number, at: all.len() as u32 };
            let more = self.call("format", request, |reply, _| match reply {
                Reply::Bytes { bytes } => Some(bytes.to_vec()),
                _ => None,
            });
            match there(more)? {
                Some(more) if more.is_empty() => return Ok(Some(all)),
                Some(more) => all.extend(more),
                None => return Ok(None),
            }
        }
    }

    /// Starts recording. Returns the CPU on which `dtrace:::BEGIN` fired.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn go(&mut self) -> Result<u32, ClientError> {
        self.call("go", Request::Go, |reply, _| on(reply))
    }

    /// Stops recording; what was recorded can still be read. Returns the CPU on which `dtrace:::END` fired.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn stop(&mut self) -> Result<u32, ClientError> {
        self.call("stop", Request::Stop, |reply, _| on(reply))
    }

    /// What programs have left in a CPU's buffer, which goes on empty.
    ///
    /// # Errors
    /// As [`open`](Self::open); [`ClientError::Damaged`] if what was in it is lost.
    pub fn snapshot(&mut self, cpu: u32, buffer: SnapshotOf) -> Result<Snapshot, ClientError> {
        let (size, oldest, mut snapshot) = self.piece(cpu, buffer, 0)?;
        while snapshot.data.len() < size {
            let at = snapshot.data.len() as u32;
            // The buffer has been switched: what comes of it can be asked for again.
            let mut more = self.piece(cpu, buffer, at);
            for _ in 0..TRIES {
                if !matches!(more, Err(ClientError::Damaged)) {
                    break;
                }
                more = self.piece(cpu, buffer, at);
            }
            let (_, _, more) = more?;
            if more.data.is_empty() {
                return Err(ClientError::Strange("snapshot"));
            }
            snapshot.data.extend(more.data);
        }
        if oldest > size || snapshot.data.len() > size {
            return Err(ClientError::Strange("snapshot"));
        }
        snapshot.data.rotate_left(oldest);
        Ok(snapshot)
    }

    /// Some of a CPU's buffer; how large it is, and where its oldest record begins.
    fn piece(
        &mut self,
        cpu: u32,
        buffer: SnapshotOf,
        at: u32,
    ) -> Result<(usize, usize, Snapshot), ClientError> {
        self.call("snapshot", Request::Snapshot { cpu, buffer, at }, |reply, _| match reply {
            Reply::Snapshot { size, oldest, drops, errors, timestamp, bytes } => {
                let data = bytes.to_vec();
                let snapshot = Snapshot { data, drops, errors, taken: timestamp };
                Some((size as usize, oldest as usize, snapshot))
            }
            _ => None,
        })
    }

    /// How this channel's programs are; the sign that their consumer lives.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn run(&mut self) -> Result<Run, ClientError> {
        self.call("run", Request::Run, |reply, _| match reply {
            Reply::Run(run) => Some(run),
            _ => None,
        })
    }

    /// What stands at an address of the kernel's, if that is known.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn symbol(&mut self, address: u64) -> Result<Option<Symbol>, ClientError> {
        self.call("symbol", Request::Symbol { address }, |reply, _| {
            let Reply::Symbol(symbol) = reply else { return None };
            Some(symbol.map(|of| Symbol {
                module: text(of.module),
                name: text(of.name),
                address: of.address,
                size: of.size,
            }))
        })
    }

    /// How framework and line are.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn status(&mut self) -> Result<Status, ClientError> {
        self.call("status", Request::Status, |reply, _| match reply {
            Reply::Status(status) => Some(status),
            _ => None,
        })
    }

    /// What there is of records: of one CPU at a time, `None` when there is nothing on any. It returns earlier than
    /// `wait` if a signal comes.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn read(&mut self, wait: Duration) -> Result<Option<Records>, ClientError> {
        match self.read_undamaged(wait) {
            Err(ClientError::Damaged) => {
                self.reading = None;
                Ok(Some(Records { damaged: 1, ..Records::default() }))
            }
            read => read,
        }
    }

    fn read_undamaged(&mut self, wait: Duration) -> Result<Option<Records>, ClientError> {
        if let Some(early) = self.early.pop_front() {
            return Ok(Some(early));
        }
        if wait.is_zero() {
            let records = self.call("read", Request::Read { wait: false }, records)?;
            // What was on its way already comes first.
            self.early.push_back(records);
            let first = self.early.pop_front().filter(|records| !records.is_empty());
            self.early.retain(|records| !records.is_empty());
            return Ok(first);
        }
        let asked = match self.reading {
            Some(seq) => seq,
            None => {
                let seq = self.send("read", &Request::Read { wait: true })?;
                self.reading = Some(seq);
                seq
            }
        };
        let answer = self.receive(asked, Instant::now() + wait, true, records)?;
        if let Some(answer) = answer {
            self.reading = None;
            return answer.ok_or(ClientError::Strange("read")).map(Some);
        }
        if self.heard.elapsed() > SILENCE {
            self.status()?;
        }
        Ok(self.early.pop_front())
    }

    fn done(&mut self, name: &'static str, request: Request<'_>) -> Result<(), ClientError> {
        self.call(name, request, |reply, _| matches!(reply, Reply::Done).then_some(()))
    }

    /// Asks, waits for the answer, and gives it to `take`, which returns `None` for what is no answer to that.
    fn call<R>(
        &mut self,
        name: &'static str,
        request: Request<'_>,
        take: impl FnOnce(Reply<'_>, Items<'_>) -> Option<R>,
    ) -> Result<R, ClientError> {
        // It takes the place of one that waits; if that has been answered already, the answer comes first.
        self.reading = None;
        let seq = match self.send(name, &request) {
            Err(error @ ClientError::Transport(_)) => return Err(self.last_words(error)),
            sent => sent?,
        };
        match self.receive(seq, Instant::now() + self.limit, false, take)? {
            Some(answer) => answer.ok_or(ClientError::Strange(name)),
            None => Err(ClientError::NoAnswer { request: name, limit: self.limit }),
        }
    }

    /// What the other side said before the line was closed, if it said why; or else this.
    fn last_words(&mut self, error: ClientError) -> ClientError {
        let none = self.seq.wrapping_add(1);
        match self.receive(none, Instant::now() + GOODBYE, false, |_, _| None::<()>) {
            Err(said @ ClientError::Gone(_)) => said,
            _ => error,
        }
    }

    fn send(&mut self, name: &'static str, request: &Request<'_>) -> Result<u32, ClientError> {
        self.seq = self.seq.wrapping_add(1);
        let header = Header { channel: self.channel, seq: self.seq };
        let (mut buffer, mut line) = ([0; REQUEST], [0; encoded_len(REQUEST)]);
        let frame = Writer::new(&mut buffer, header, request);
        let length = frame.and_then(|frame| frame.seal(&mut line)).map_err(|error| {
            ClientError::Refused { why: Why::Other, message: format!("{name}: {error}") }
        })?;
        self.transport.write(&line[..length], self.limit)?;
        Ok(self.seq)
    }

    /// Waits for the answer to the request of this number, until the deadline. With `may_end`, until a signal comes.
    fn receive<R>(
        &mut self,
        asked: u32,
        deadline: Instant,
        may_end: bool,
        take: impl FnOnce(Reply<'_>, Items<'_>) -> Option<R>,
    ) -> Result<Option<Option<R>>, ClientError> {
        loop {
            while let Some(byte) = self.arrived.pop_front() {
                let frame = match self.decoder.push(byte) {
                    None => continue,
                    Some(Ok(frame)) => frame,
                    Some(Err(_)) => {
                        // Noise, or the answer: then no other comes.
                        if self.greeted {
                            self.suspect.get_or_insert_with(Instant::now);
                        }
                        continue;
                    }
                };
                // Somebody else's, on a line that is shared.
                if frame.header.channel != self.channel {
                    continue;
                }
                let message: Result<(Reply<'_>, Items<'_>), FrameError> = frame.message();
                match message {
                    Ok((Reply::Gone { reason }, _)) => {
                        return Err(ClientError::Gone(shown(reason)));
                    }
                    Ok((Reply::Refused { why, message }, _)) if frame.header.seq == asked => {
                        let message = shown(message);
                        return Err(ClientError::Refused { why, message });
                    }
                    Ok((reply, items)) if frame.header.seq == asked => {
                        self.suspect = None;
                        return Ok(Some(take(reply, items)));
                    }
                    Err(_) if frame.header.seq == asked => return Ok(Some(None)),
                    // An answer to a request whose place has been taken, or that was given up.
                    Ok((reply, items)) => {
                        let records = records(reply, items).filter(|records| !records.is_empty());
                        self.early.extend(records);
                    }
                    Err(_) => {}
                }
            }
            let grace = self.suspect.map(|since| since + GRACE);
            let until = grace.map_or(deadline, |grace| grace.min(deadline));
            let left = until.saturating_duration_since(Instant::now());
            let mut buffer = [0; 4096];
            let length = self.transport.read(&mut buffer, left)?;
            self.arrived.extend(&buffer[..length]);
            if length != 0 {
                self.heard = Instant::now();
            } else if grace.is_some_and(|grace| grace <= Instant::now()) {
                self.suspect = None;
                return Err(ClientError::Damaged);
            } else if may_end || left.is_zero() {
                return Ok(None);
            }
        }
    }
}

fn matched(reply: Reply<'_>) -> Option<u32> {
    match reply {
        Reply::Matched { probes } => Some(probes),
        _ => None,
    }
}

fn on(reply: Reply<'_>) -> Option<u32> {
    match reply {
        Reply::On { cpu } => Some(cpu),
        _ => None,
    }
}

/// What a kernel knows, or that it does not.
fn there<T>(answer: Result<T, ClientError>) -> Result<Option<T>, ClientError> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(ClientError::Refused { why: Why::NoSuch | Why::NoProbe, .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn data(items: Items<'_>) -> Option<Vec<Datum>> {
    items.iter().collect::<Result<_, _>>().ok()
}

fn records(reply: Reply<'_>, items: Items<'_>) -> Option<Records> {
    let Reply::Records { cpu, drops } = reply else { return None };
    let records = items.iter().collect::<Result<_, _>>().ok()?;
    Some(Records { cpu, drops, damaged: 0, records })
}

fn probes(items: Items<'_>) -> Option<Vec<Probe>> {
    items.iter().map(|item| item.ok().map(probe)).collect()
}

fn sites(items: Items<'_>) -> Option<Vec<Site>> {
    items.iter().map(|item| item.ok().map(site)).collect()
}

fn text(name: &[u8]) -> String {
    shown(&String::from_utf8_lossy(name))
}

/// What a kernel says goes to terminals, which take some characters for commands: these are shown. Lines stay lines.
fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() && c != '\n' {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

fn probe(of: dtrace_protocol::Probe<'_>) -> Probe {
    Probe {
        id: of.id,
        provider: text(of.provider),
        module: text(of.module),
        function: text(of.function),
        name: text(of.name),
    }
}

fn site(of: dtrace_protocol::Site<'_>) -> Site {
    let dtrace_protocol::Site { address, function, state, target, in_reach, reach } = of;
    let function = function.map(|(symbol, offset)| (symbol.to_owned(), offset));
    Site { address, function, state, target, in_reach, reach }
}
