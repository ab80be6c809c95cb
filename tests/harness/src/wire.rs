//! The host's end of the line to the kernel: requests out, replies and events in.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use sdt_protocol::frame::{self, Decoder};
use sdt_protocol::{Event, Message, Refusal, Reply, Request};

use cargo_sdt::output;

/// Console lines kept for error messages.
const KEPT: usize = 20;

/// What can go wrong on the line.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The machine is gone.
    #[error("the line to the kernel is closed")]
    Closed,
    /// Reading or writing failed.
    #[error("the line to the kernel failed: {0}")]
    Failed(std::io::Error),
    /// The kernel has not come up in time.
    #[error("the kernel did not come up within {} s", .0.as_secs())]
    NotUp(Duration),
    /// No answer in time.
    #[error("the kernel did not answer {request} within {} s", .limit.as_secs())]
    NoAnswer {
        /// What was asked.
        request: &'static str,
        /// How long was waited.
        limit: Duration,
    },
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
        /// What was asked.
        request: &'static str,
        /// What came.
        reply: Box<Reply>,
    },
}

fn refused(refusal: &Refusal) -> String {
    match refusal.errno {
        0 => refusal.message.clone(),
        errno => format!("{} (error {errno})", refusal.message),
    }
}

/// What arrives.
#[derive(Clone, Debug, PartialEq)]
pub enum Incoming {
    /// The answer to the request of this number.
    Reply(u32, Result<Reply, Refusal>),
    /// Something the kernel says of itself.
    Event(Event),
}

/// The line.
#[derive(Debug)]
pub struct Wire {
    line: UnixStream,
    decoder: Decoder,
    arrived: VecDeque<Incoming>,
    /// Events that arrived while a reply was waited for, oldest first.
    pub events: VecDeque<Event>,
    console: VecDeque<String>,
    /// Console lines are shown as they come.
    echo: bool,
    damaged: u64,
    seq: u32,
}

impl Wire {
    /// The line over this socket. With `echo` the kernel's console lines go to standard error.
    pub fn new(line: UnixStream, echo: bool) -> Self {
        Self {
            line,
            decoder: Decoder::new(),
            arrived: VecDeque::new(),
            events: VecDeque::new(),
            console: VecDeque::new(),
            echo,
            damaged: 0,
            seq: 0,
        }
    }

    /// The last lines of the kernel's console.
    pub fn console(&self) -> impl Iterator<Item = &str> {
        self.console.iter().map(String::as_str)
    }

    /// Frames from the kernel that were damaged, and dropped.
    pub fn damaged(&self) -> u64 {
        self.damaged
    }

    /// Asks; the answer comes later, with the number that is returned.
    ///
    /// # Errors
    /// The line failed or does not take the request within the limit.
    pub fn send(&mut self, request: Request, limit: Duration) -> Result<u32, WireError> {
        self.seq = self.seq.wrapping_add(1);
        let name = name(&request);
        let bytes = frame::encode(&Message { seq: self.seq, request });
        self.line.set_write_timeout(Some(limit)).map_err(WireError::Failed)?;
        self.line.write_all(&bytes).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                WireError::NoAnswer { request: name, limit }
            }
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => WireError::Closed,
            _ => WireError::Failed(error),
        })?;
        Ok(self.seq)
    }

    /// The next thing that arrives before the deadline, or `None`. Console lines and damage are seen
    /// to here; a panic of the kernel's is an error.
    ///
    /// # Errors
    /// The line is closed or failed, the kernel panicked, or it could not read a request.
    pub fn next(&mut self, deadline: Instant) -> Result<Option<Incoming>, WireError> {
        loop {
            while let Some(incoming) = self.arrived.pop_front() {
                match incoming {
                    Incoming::Event(Event::Console { text }) => self.console_line(text),
                    Incoming::Event(Event::Panic { message }) => {
                        return Err(WireError::Panicked(message));
                    }
                    Incoming::Event(Event::BadFrame { reason }) => {
                        return Err(WireError::Damaged(reason));
                    }
                    other => return Ok(Some(other)),
                }
            }
            if !self.read(deadline)? {
                return Ok(None);
            }
        }
    }

    /// Waits for the kernel's first console line: what is sent before is lost, since there is no
    /// serial port yet that would take it.
    ///
    /// # Errors
    /// As [`next`](Self::next), or there is no line in time.
    pub fn wait_until_up(&mut self, limit: Duration) -> Result<(), WireError> {
        let deadline = Instant::now() + limit;
        while self.console.is_empty() {
            match self.next(deadline.min(Instant::now() + Duration::from_millis(10)))? {
                Some(Incoming::Event(event)) => self.events.push_back(event),
                Some(Incoming::Reply(..)) => {}
                None if Instant::now() < deadline => {}
                None => return Err(WireError::NotUp(limit)),
            }
        }
        Ok(())
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

    /// Reads what is there, waiting for it until the deadline. Says whether something came.
    fn read(&mut self, deadline: Instant) -> Result<bool, WireError> {
        // A timeout of 0 would be none at all.
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
                Some(Ok(Event::Reply { seq, result })) => {
                    self.arrived.push_back(Incoming::Reply(seq, result));
                }
                Some(Ok(event)) => self.arrived.push_back(Incoming::Event(event)),
                // What firmware says on the line before the kernel runs is damage, too.
                Some(Err(_)) => self.damaged += 1,
            }
        }
        Ok(true)
    }

    /// Asks and waits for the answer. What else arrives is kept in [`events`](Self::events).
    ///
    /// # Errors
    /// The line failed, the kernel panicked, refused, or did not answer within the limit.
    pub fn request(&mut self, request: Request, limit: Duration) -> Result<Reply, WireError> {
        let name = name(&request);
        let deadline = Instant::now() + limit;
        let asked = self.send(request, limit)?;
        loop {
            match self.next(deadline)? {
                None => return Err(WireError::NoAnswer { request: name, limit }),
                Some(Incoming::Event(event)) => self.events.push_back(event),
                Some(Incoming::Reply(seq, result)) if seq == asked => {
                    return result.map_err(WireError::Refused);
                }
                // The answer to a request that was given up.
                Some(Incoming::Reply(..)) => {}
            }
        }
    }
}

/// What a request is called in messages.
pub fn name(request: &Request) -> &'static str {
    match request {
        Request::Hello => "hello",
        Request::FreeBsd { .. } => "freebsd",
        Request::Illumos { .. } => "illumos",
        Request::KldLoad { .. } => "kldload",
        Request::KldUnload { .. } => "kldunload",
        Request::KldStat => "kldstat",
        Request::Open => "open",
        Request::Close { .. } => "close",
        Request::List { .. } => "list",
        Request::Describe { .. } => "describe",
        Request::Enable { .. } => "enable",
        Request::Disable { .. } => "disable",
        Request::Go { .. } => "go",
        Request::Stop { .. } => "stop",
        Request::Exec { .. } => "exec",
        Request::Sysctl { .. } => "sysctl",
        Request::Kstat { .. } => "kstat",
        Request::ReadText { .. } => "read text",
        Request::Counters => "counters",
        Request::Sites { .. } => "sites",
        Request::Torture { .. } => "torture",
        Request::Reenter { .. } => "reenter",
        Request::PowerOff => "power off",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    const LIMIT: Duration = Duration::from_secs(10);

    /// A line to a peer that answers every request with what `answer` makes of it.
    fn line_to(answer: impl Fn(Message) -> Vec<Vec<u8>> + Send + 'static) -> Wire {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        thread::spawn(move || {
            let mut decoder = Decoder::new();
            let mut byte = [0];
            while theirs.read_exact(&mut byte).is_ok() {
                if let Some(message) = decoder.push::<Message>(byte[0]) {
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
        let mut wire = line_to(|message| {
            let drops = Event::Drops { consumer: 1, cpu: 0, count: 3 };
            vec![
                reply(message.seq.wrapping_sub(1), Ok(Reply::Done)),
                frame::encode(&drops),
                reply(message.seq, Ok(Reply::Consumer { consumer: 1 })),
            ]
        });
        for _ in 0..3 {
            let got = wire.request(Request::Open, LIMIT).unwrap();
            assert_eq!(got, Reply::Consumer { consumer: 1 });
        }
        assert_eq!(wire.events.len(), 3);
    }

    #[test]
    fn refusals_say_why() {
        let refusal = Refusal { errno: 8, message: "x.ko: symbol puts undefined".into() };
        let mut wire = line_to(move |message| vec![reply(message.seq, Err(refusal.clone()))]);
        let error = wire.request(Request::KldStat, LIMIT).unwrap_err();
        assert_eq!(error.to_string(), "x.ko: symbol puts undefined (error 8)");
    }

    #[test]
    fn silence_is_an_error() {
        let mut wire = line_to(|_| Vec::new());
        let error = wire.request(Request::Hello, Duration::from_millis(50)).unwrap_err();
        assert_eq!(error.to_string(), "the kernel did not answer hello within 0 s");
    }

    #[test]
    fn a_panic_is_an_error_and_the_console_is_kept() {
        let mut wire = line_to(|_| {
            let line = |n: u32| frame::encode(&Event::Console { text: format!("line {n}") });
            let panic = frame::encode(&Event::Panic { message: "page fault".into() });
            (0..25).map(line).chain([panic]).collect()
        });
        let error = wire.request(Request::Hello, LIMIT).unwrap_err();
        assert_eq!(error.to_string(), "the kernel panicked: page fault");
        let kept: Vec<_> = wire.console().collect();
        assert_eq!((kept.len(), kept[0], kept[19]), (KEPT, "line 5", "line 24"));
    }

    #[test]
    fn a_dead_machine_is_noticed() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(theirs);
        let mut wire = Wire::new(ours, false);
        assert!(matches!(wire.request(Request::Hello, LIMIT), Err(WireError::Closed)));
    }

    #[test]
    fn a_kernel_that_comes_up_is_waited_for() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut wire = Wire::new(ours, false);
        let error = wire.wait_until_up(Duration::from_millis(20)).unwrap_err();
        assert_eq!(error.to_string(), "the kernel did not come up within 0 s");
        theirs.write_all(&frame::encode(&Event::Console { text: "up".into() })).unwrap();
        wire.wait_until_up(LIMIT).unwrap();
    }

    #[test]
    fn noise_before_a_frame_is_passed_over() {
        let mut wire = line_to(|message| {
            vec![b"SeaBIOS\r\n\0\0".to_vec(), reply(message.seq, Ok(Reply::Done))]
        });
        assert_eq!(wire.request(Request::KldStat, LIMIT).unwrap(), Reply::Done);
        assert_eq!(wire.damaged(), 1);
    }

    #[test]
    fn damage_that_the_kernel_saw_is_an_error() {
        let bad = frame::encode(&Event::BadFrame { reason: "not COBS".into() });
        let mut wire = line_to(move |_| vec![bad.clone()]);
        let error = wire.request(Request::KldStat, LIMIT).unwrap_err();
        assert_eq!(error.to_string(), "the kernel received a damaged frame: not COBS");
    }
}
