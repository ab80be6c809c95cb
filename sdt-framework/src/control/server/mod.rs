//! Consumers on the other side of a line.
//!
//! A [`Server`] answers the requests of `dtrace-protocol` over any [`Stream`]. It serves a [`Tracer`], such as
//! [`Dtrace`](crate::Dtrace). So `dtrace --connect` lists, enables and prints from another machine. The server needs no
//! allocation, no thread and no clock: a thread of the host that may take locks calls [`Server::step`] until it returns `false`,
//! and again when bytes have arrived.
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
//!         Err(lost) => return lost, // all consumers are closed
//!     }
//! }
//! # }
//! ```
//!
//! The server trusts no input. It counts and drops frames that are damaged or too long, refuses requests that make no sense,
//! and limits channels, consumers and bytes.
//!
//! A socket reports that its other end has closed; a serial line does not. The probes of a consumer that was killed there stay
//! enabled until the next consumer greets on its channel, as each `dtrace` does when it connects, or the host calls
//! [`Server::reset`], for example when a modem loses its carrier. Unless the consumer's programs are destructive, nothing is
//! recorded for it 30 s after its last request (DTrace's deadman).
//!
//! The host grants the [`Rights`] of each line. The server refuses requests that these do not allow, and hides probes that the
//! consumer may not use. Every peer on a line has the rights of the line. A line that leaves the machine is wrapped in a `Secure`
//! (feature `noise`), which accepts only peers with the kernel's key.

mod answer;
mod functions;
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

/// The number of bytes that one read takes from the line.
const CHUNK: usize = 64;

/// The server of all consumers on one line.
///
/// - `FRAME`: the size of the longest frame in bytes, in both directions. [`MIN_FRAME`] is enough; longer frames carry more
///   probes and records.
/// - `CHANNELS`: the largest number of simultaneous consumers.
#[derive(Debug)]
pub struct Server<'d, const FRAME: usize = 2048, const CHANNELS: usize = 8> {
    channels: Channels<'d, CHANNELS>,
    decoder: Decoder<[u8; FRAME]>,
    /// Received bytes that are not decoded yet.
    arrived: [u8; CHUNK],
    arrived_at: usize,
    arrived_len: usize,
    /// The answer before it is encoded.
    draft: [u8; FRAME],
    /// The encoded answer, of which `sent..to_send` is not sent yet.
    line: [u8; FRAME],
    sent: usize,
    to_send: usize,
    /// Whether [`reset`](Self::reset) was called in probe context, so that the next step closes the consumers.
    is_abandoned: bool,
}

/// The smallest allowed limit for frames: two types of an argument, or four names of a probe with its stability.
pub const MIN_FRAME: usize = 512;

impl<'d, const FRAME: usize, const CHANNELS: usize> Server<'d, FRAME, CHANNELS> {
    /// The largest size of an answer that fits `line` after encoding.
    const DRAFT: usize = {
        assert!(FRAME >= MIN_FRAME, "frames have no room for what they carry");
        dtrace_protocol::frame::decoded_len(FRAME)
    };

    /// Creates a server without channels. All its consumers have these rights.
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

    /// Sends, or receives and answers a request. Returns whether there was anything to do. Called by a thread with interrupts on;
    /// calls the framework, which can call providers' ops and the host's [`sync`](crate::Host::sync). In probe context it does
    /// nothing.
    ///
    /// # Errors
    /// [`Lost`] if the line is lost; all consumers are closed then.
    pub fn step(&mut self, stream: &mut impl Stream) -> Result<bool, Lost> {
        if self.channels.tracer.need_thread().is_err() {
            return Ok(false);
        }
        if self.is_abandoned {
            self.reset();
        }
        self.go_on(stream).inspect_err(|_| self.reset())
    }

    /// Closes all consumers and discards received bytes, after the line was lost. In probe context, the next
    /// [`step`](Self::step) in a thread does this.
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
