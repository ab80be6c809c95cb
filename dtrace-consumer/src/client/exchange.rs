//! The exchange of one request and its answer.

use std::time::{Duration, Instant};

use dtrace_protocol::frame::encoded_len;
use dtrace_protocol::{FrameError, Header, Items, Reply, Request, Why, Writer};

use super::{Client, ClientError, GOODBYE};
use crate::escape::lines;

/// Time limit for the answer after a damaged frame, which may have been the answer.
const GRACE: Duration = Duration::from_secs(2);
/// Size of the longest request in bytes; descriptions are much shorter.
const REQUEST: usize = 1 << 10;

/// Time limit for an answer after an interrupt.
const HURRY: Duration = Duration::from_secs(5);
/// Longest time between two checks for an interrupt.
const BEAT: Duration = Duration::from_millis(100);

impl Client {
    /// Returns whether the user has interrupted the run.
    pub(super) fn is_hurried(&self) -> bool {
        self.hurried.is_some_and(|hurried| hurried())
    }

    pub(super) fn done(
        &mut self,
        name: &'static str,
        request: Request<'_>,
    ) -> Result<(), ClientError> {
        self.call(name, request, |reply, _| matches!(reply, Reply::Done).then_some(()))
    }

    /// Sends a request, waits for the answer, and passes it to `take`, which returns `None` for an answer of the wrong type.
    pub(super) fn call<R>(
        &mut self,
        name: &'static str,
        request: Request<'_>,
        take: impl FnOnce(Reply<'_>, Items<'_>) -> Option<R>,
    ) -> Result<R, ClientError> {
        let seq = match self.send(name, &request) {
            Err(error @ ClientError::Transport(_)) => return Err(self.last_words(error)),
            sent => sent?,
        };
        self.answer(name, seq, take)
    }

    /// Waits for the answer to a request, and passes it to `take`, which returns `None` for an answer of the wrong type.
    pub(super) fn answer<R>(
        &mut self,
        name: &'static str,
        seq: u32,
        take: impl FnOnce(Reply<'_>, Items<'_>) -> Option<R>,
    ) -> Result<R, ClientError> {
        match self.receive(seq, Instant::now() + self.limit, take)? {
            Some(answer) => answer.ok_or(ClientError::Strange(name)),
            None => {
                let limit = if self.is_hurried() { HURRY.min(self.limit) } else { self.limit };
                Err(self.no_answer(name, limit))
            }
        }
    }

    /// Returns the error that the peer has not answered a request within the limit.
    pub(super) fn no_answer(&self, request: &'static str, limit: Duration) -> ClientError {
        ClientError::NoAnswer { peer: self.peer, stopped: self.peer.stopped(), request, limit }
    }

    /// Returns the message that the peer sent before it closed the connection, as an error; if there is none, returns `error`.
    fn last_words(&mut self, error: ClientError) -> ClientError {
        let none = self.seq.wrapping_add(1);
        match self.receive(none, Instant::now() + GOODBYE, |_, _| None::<()>) {
            Err(said @ ClientError::Gone(_)) => said,
            _ => error,
        }
    }

    pub(super) fn send(
        &mut self,
        name: &'static str,
        request: &Request<'_>,
    ) -> Result<u32, ClientError> {
        self.send_items(name, request, REQUEST, |_| {})
    }

    /// Sends a request of at most `size` bytes with the items that `fill` adds.
    pub(super) fn send_items(
        &mut self,
        name: &'static str,
        request: &Request<'_>,
        size: usize,
        fill: impl FnOnce(&mut Writer<'_>),
    ) -> Result<u32, ClientError> {
        self.seq = self.seq.wrapping_add(1);
        let header = Header { channel: self.channel, seq: self.seq };
        let (mut buffer, mut line) = (vec![0; size], vec![0; encoded_len(size)]);
        let frame = Writer::new(&mut buffer, header, request).map(|mut frame| {
            fill(&mut frame);
            frame
        });
        let length = frame.and_then(|frame| frame.seal(&mut line)).map_err(|error| {
            ClientError::Refused { why: Why::Other, message: format!("{name}: {error}") }
        })?;
        let limit = if self.is_hurried() { HURRY.min(self.limit) } else { self.limit };
        self.transport.write(&line[..length], limit)?;
        Ok(self.seq)
    }

    /// Waits for the answer to the request of this number until the deadline.
    fn receive<R>(
        &mut self,
        asked: u32,
        deadline: Instant,
        take: impl FnOnce(Reply<'_>, Items<'_>) -> Option<R>,
    ) -> Result<Option<Option<R>>, ClientError> {
        let mut deadline = deadline;
        let (mut hurried, mut late) = (false, false);
        loop {
            if !hurried && self.is_hurried() {
                hurried = true;
                deadline = deadline.min(Instant::now() + HURRY);
            }
            while !self.arrived.is_empty() {
                let mut bytes = &self.received[self.arrived.clone()];
                let frame = self.decoder.take(&mut bytes);
                self.arrived.start = self.arrived.end - bytes.len();
                let frame = match frame {
                    None => continue,
                    Some(Ok(frame)) => frame,
                    Some(Err(_)) => {
                        // The damaged frame may have been the answer, and then no other answer follows.
                        if self.greeted {
                            self.suspect.get_or_insert_with(Instant::now);
                        }
                        continue;
                    }
                };
                // The frame belongs to another client of a shared connection.
                if frame.header.channel != self.channel {
                    continue;
                }
                let message: Result<(Reply<'_>, Items<'_>), FrameError> = frame.message();
                match message {
                    Ok((Reply::Gone { reason }, _)) => {
                        return Err(ClientError::Gone(lines(reason).into_owned()));
                    }
                    Ok((Reply::Refused { why, message }, _)) if frame.header.seq == asked => {
                        let message = lines(message).into_owned();
                        return Err(ClientError::Refused { why, message });
                    }
                    Ok((reply, items)) if frame.header.seq == asked => {
                        self.suspect = None;
                        return Ok(Some(take(reply, items)));
                    }
                    Err(_) if frame.header.seq == asked => return Ok(Some(None)),
                    // The answer belongs to an abandoned request.
                    _ => {}
                }
            }
            // Other frames do not extend the deadline.
            if late {
                return Ok(None);
            }
            late = deadline <= Instant::now();
            let grace = self.suspect.map(|since| since + GRACE);
            let until = grace.map_or(deadline, |grace| grace.min(deadline));
            let left = until.saturating_duration_since(Instant::now());
            let part = if self.hurried.is_some() { left.min(BEAT) } else { left };
            let length = self.transport.read(&mut self.received, part)?;
            self.arrived = 0..length;
            if length != 0 {
                continue;
            }
            if grace.is_some_and(|grace| grace <= Instant::now()) {
                self.suspect = None;
                return Err(ClientError::Damaged);
            }
            if left.is_zero() {
                return Ok(None);
            }
        }
    }
}
