//! Consumers on the other side of a line.
//!
//! A [`Server`] answers what consumers ask in `dtrace-protocol`, over any [`Stream`], out of a [`Tracer`], which a
//! [`Dtrace`](crate::Dtrace) is. So `dtrace --connect` lists, enables and prints from another machine. It needs no
//! allocation, no thread and no clock: the host calls [`Server::step`] again and again from a thread that may
//! take locks, as long as it returns `true`, and then whenever something may have arrived.
//!
//! ```no_run
//! # use sdt_framework::Rights;
//! # use sdt_framework::server::{Lost, NoSites, Server, Stream, Tracer};
//! # fn serve(dtrace: &'static dyn Tracer, uart: &mut impl Stream, wait: fn()) -> Lost {
//! let mut server: Server<'_> = Server::new(dtrace, &NoSites, Rights::ALL);
//! loop {
//!     match server.step(uart) {
//!         Ok(true) => {}
//!         Ok(false) => wait(), // for an interrupt
//!         Err(lost) => return lost, // everything of the consumers is closed
//!     }
//! }
//! # }
//! ```
//!
//! What arrives is trusted with nothing: frames that are damaged or too long are counted and dropped, requests
//! that make no sense are refused, and there are never more channels, consumers and bytes than there is room for.
//!
//! Not every line says that its other end has gone: a socket does, a serial line does not. What a consumer has enabled that
//! was killed there stays enabled, at the cost of hits that nobody reads, until the next one greets on its channel, which each
//! `dtrace` does when it connects, or the host calls [`Server::reset`], as when a modem's carrier is gone. If the consumer's
//! programs are not destructive, nothing is recorded for it any more 30 s after it was last heard of (DTrace's deadman).
//!
//! Who may: the host says for each line, by the [`Rights`] that it gives the server. What these do not
//! allow is refused, or is not there. Whoever has the line has its rights. A line that leaves the machine is
//! wrapped in a `Secure` (feature `noise`): only who has the kernel's key is heard.

mod answer;
mod known;
mod refusal;
mod reply;
mod run;
#[cfg(feature = "noise")]
mod secure;
mod sites;
mod stream;

use dtrace_protocol::frame::encoded_len;
use dtrace_protocol::{Decoder, FrameError};

use self::answer::Channels;
use crate::base::rights::Rights;
pub use crate::control::tracer::Tracer;
#[cfg(feature = "noise")]
pub use secure::{End, Limits, Secure, SecureHost};
pub use sites::{NoSites, Sites};
pub use stream::{Lost, Polled, Stream};

/// Bytes that are taken from the line at a time.
const CHUNK: usize = 64;

/// A number of consumers, over one line.
///
/// - `FRAME`: bytes of the longest frame, in either direction. [`MIN_FRAME`] is enough for everything; longer ones carry
///   more probes and records at a time.
/// - `CHANNELS`: consumers that can be there at once.
#[derive(Debug)]
pub struct Server<'d, const FRAME: usize = 2048, const CHANNELS: usize = 8> {
    channels: Channels<'d, CHANNELS>,
    decoder: Decoder<[u8; FRAME]>,
    /// Taken from the line, and not looked at yet.
    arrived: [u8; CHUNK],
    arrived_at: usize,
    arrived_len: usize,
    /// The answer that is being made.
    draft: [u8; FRAME],
    /// The answer that is being sent: what is left of it.
    line: [u8; FRAME],
    sent: usize,
    to_send: usize,
    /// The line was [reset](Self::reset) in probe context: its consumers are closed later.
    is_abandoned: bool,
}

/// The shortest longest frame: two types of an argument, or four names of a probe with its stability.
pub const MIN_FRAME: usize = 512;

impl<'d, const FRAME: usize, const CHANNELS: usize> Server<'d, FRAME, CHANNELS> {
    /// A draft may be so long that it fits the line when it is encoded.
    const DRAFT: usize = {
        assert!(FRAME >= MIN_FRAME, "frames have no room for what they carry");
        dtrace_protocol::frame::decoded_len(FRAME)
    };

    /// A server of consumers that nobody has heard of yet, all of whom have these rights.
    pub const fn new(tracer: &'d dyn Tracer, sites: &'d dyn Sites, rights: Rights) -> Self {
        const { assert!(encoded_len(Self::DRAFT) <= FRAME) };
        Self {
            channels: Channels::new(tracer, sites, rights),
            decoder: Decoder::new([0; FRAME]),
            arrived: [0; CHUNK],
            arrived_at: 0,
            arrived_len: 0,
            draft: [0; FRAME],
            line: [0; FRAME],
            sent: 0,
            to_send: 0,
            is_abandoned: false,
        }
    }

    /// Sends, or receives and answers a request. Returns whether there was anything to do. Called by a thread with interrupts
    /// on; calls the framework, so that providers' ops and the host's [`sync`](crate::Host::sync) run in it. In probe context it
    /// does nothing.
    ///
    /// # Errors
    /// [`Lost`], and all consumers have been closed.
    pub fn step(&mut self, stream: &mut impl Stream) -> Result<bool, Lost> {
        if self.channels.tracer.need_thread().is_err() {
            return Ok(false);
        }
        if self.is_abandoned {
            self.reset();
        }
        self.go_on(stream).inspect_err(|_| self.reset())
    }

    /// Closes all consumers and forgets what has arrived, as for a line that is gone. In probe context the next
    /// [`step`](Self::step) in a thread does it.
    pub fn reset(&mut self) {
        self.is_abandoned = self.channels.tracer.need_thread().is_err();
        if self.is_abandoned {
            return;
        }
        self.channels.close_all();
        self.decoder = Decoder::new([0; FRAME]);
        (self.arrived_at, self.arrived_len) = (0, 0);
        (self.sent, self.to_send) = (0, 0);
    }

    fn go_on(&mut self, stream: &mut impl Stream) -> Result<bool, Lost> {
        if self.sent < self.to_send {
            // The server reads no further request until this answer is sent.
            let left = self.line.get(self.sent..self.to_send).unwrap_or_default();
            let sent = stream.write(left)?.min(left.len());
            self.sent += sent;
            return Ok(sent != 0);
        }
        let mut busy = false;
        if self.arrived_at == self.arrived_len {
            self.arrived_at = 0;
            self.arrived_len = stream.read(&mut self.arrived)?.min(CHUNK);
        }
        while let Some(&byte) =
            self.arrived.get(self.arrived_at..self.arrived_len).and_then(<[u8]>::first)
        {
            busy = true;
            self.arrived_at += 1;
            let Some(result) = self.decoder.push(byte) else { continue };
            let draft = self.draft.get_mut(..Self::DRAFT).unwrap_or_default();
            let status = &mut self.channels.status;
            match result {
                Ok(frame) => {
                    status.frames += 1;
                    if let Some(length) = self.channels.answer(frame, draft, &mut self.line) {
                        (self.sent, self.to_send) = (0, length);
                        return Ok(true);
                    }
                }
                Err(FrameError::TooLong) => status.overlong += 1,
                Err(_) => status.damaged += 1,
            }
        }
        Ok(busy)
    }
}
