//! The line to the host: a serial port that carries frames of `sdt-protocol` and frames of consumers.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};

use sdt_framework::server::{Lost, Stream};
use sdt_protocol::frame::{self, Arrived, Decoder, FrameError};
use sdt_protocol::{Event, Message};

use crate::arch::timer;
use crate::arch::uart::Uart;
use crate::{console, panic};

static OPEN: AtomicBool = AtomicBool::new(false);

/// The time in nanoseconds that a panicking kernel waits for a host that does not read.
const LAST_WORDS_NS: u64 = 2_000_000_000;
/// The number of bytes from consumers that are buffered until they are read; further bytes are lost.
const KEPT: usize = 64 << 10;

/// The kernel's end of the line. Only the first CPU uses it.
pub(crate) struct Wire {
    uart: Uart,
    decoder: Decoder,
    buffer: [u8; 64],
    filled: usize,
    /// Bytes that have arrived from consumers.
    consumers: VecDeque<u8>,
}

impl Wire {
    /// Initialises the line.
    ///
    /// # Panics
    /// If the line has been initialised before.
    pub(crate) fn open() -> Self {
        assert!(!OPEN.swap(true, Ordering::AcqRel), "the line is open already");
        // SAFETY: `OPEN` was not set, so there is no other `Wire`. Only `send_last` creates another `Uart`, after this CPU has
        // been stopped or has panicked itself.
        let uart = unsafe { Uart::new() };
        let consumers = VecDeque::new();
        Self { uart, decoder: Decoder::new(), buffer: [0; 64], filled: 0, consumers }
    }

    /// Sends one event; waits until the host has read enough.
    pub(crate) fn send(&mut self, event: &Event) {
        self.send_whole(&frame::encode(event));
    }

    fn send_whole(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !panic::panicked() {
            bytes = &bytes[self.uart.send(bytes)..];
        }
    }

    /// Sends the console's lines.
    pub(crate) fn send_console(&mut self) {
        while let Some(text) = console::take_line() {
            self.send(&Event::Console { text });
        }
    }

    /// Receives the available bytes, and appends each completed message, or the error in its frame, to `messages`. Buffers the
    /// frames of consumers for [`Stream::read`]. Returns whether any bytes were received.
    pub(crate) fn receive(&mut self, messages: &mut Vec<Result<Message, FrameError>>) -> bool {
        let length = self.fill();
        for &byte in &self.buffer[..length] {
            match self.decoder.push(byte) {
                Some(Arrived::Ours(message)) => messages.push(message),
                Some(Arrived::Consumers(frame)) if self.consumers.len() < KEPT => {
                    self.consumers.extend(frame);
                }
                Some(Arrived::Consumers(_)) | None => {}
            }
        }
        self.filled = 0;
        length != 0
    }

    /// Returns whether bytes have arrived that [`receive`](Self::receive) has not processed.
    pub(crate) fn has_received(&mut self) -> bool {
        self.fill() != 0
    }

    fn fill(&mut self) -> usize {
        let room = &mut self.buffer[self.filled..];
        self.filled += self.uart.receive(room);
        self.filled
    }
}

/// The stream of the frames of consumers, in both directions.
impl Stream for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Lost> {
        let length = buffer.len().min(self.consumers.len());
        for (to, from) in buffer.iter_mut().zip(self.consumers.drain(..length)) {
            *to = from;
        }
        Ok(length)
    }

    /// Sends all bytes, and waits for the host if necessary: frames of both kinds must not be mixed.
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Lost> {
        self.send_whole(bytes);
        Ok(bytes.len())
    }
}

/// Sends the message of a panicking kernel. The line may be in the middle of a frame: the host then receives one damaged frame
/// before the message. All other CPUs have been stopped.
pub(crate) fn send_last(event: &Event) {
    // SAFETY: all other CPUs have been stopped.
    let mut uart = unsafe { Uart::new() };
    let frame = frame::encode(event);
    let deadline = timer::now_ns() + LAST_WORDS_NS;
    for mut rest in [&[0][..], &frame] {
        while !rest.is_empty() && timer::now_ns() < deadline {
            rest = &rest[uart.send(rest)..];
        }
    }
}
