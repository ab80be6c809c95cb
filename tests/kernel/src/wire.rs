//! The line to the host: frames of `sdt-protocol` over the serial port.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};

use sdt_protocol::frame::{self, Decoder, FrameError};
use sdt_protocol::{Event, Message};

use crate::arch::timer;
use crate::arch::uart::Uart;
use crate::{console, panic};

static OPEN: AtomicBool = AtomicBool::new(false);

/// How long a panicking kernel waits for a host that does not read.
const LAST_WORDS_NS: u64 = 2_000_000_000;

/// This end of the line. Only the first CPU has it.
pub(crate) struct Wire {
    uart: Uart,
    decoder: Decoder,
    buffer: [u8; 64],
    filled: usize,
}

impl Wire {
    /// Sets the line up.
    ///
    /// # Panics
    /// When it has been set up before.
    pub(crate) fn open() -> Self {
        assert!(!OPEN.swap(true, Ordering::AcqRel), "the line is open already");
        // SAFETY: the flag says that this is the first one; the only other one is made by
        // `send_last`, when this CPU has been stopped or is the one that panics.
        let uart = unsafe { Uart::new() };
        Self { uart, decoder: Decoder::new(), buffer: [0; 64], filled: 0 }
    }

    /// Sends one event, waiting for as long as the host makes it.
    pub(crate) fn send(&mut self, event: &Event) {
        let frame = frame::encode(event);
        let mut rest = &frame[..];
        while !rest.is_empty() && !panic::panicked() {
            rest = &rest[self.uart.send(rest)..];
        }
    }

    /// Sends the console's lines.
    pub(crate) fn send_console(&mut self) {
        while let Some(text) = console::take_line() {
            self.send(&Event::Console { text });
        }
    }

    /// Takes some of what has arrived and adds the messages that are complete by it, or what was wrong
    /// with them. Says whether anything had arrived.
    pub(crate) fn receive(&mut self, messages: &mut Vec<Result<Message, FrameError>>) -> bool {
        let length = self.fill();
        for &byte in &self.buffer[..length] {
            messages.extend(self.decoder.push(byte));
        }
        self.filled = 0;
        length != 0
    }

    /// Whether something has arrived that [`receive`](Self::receive) has not taken.
    pub(crate) fn has_received(&mut self) -> bool {
        self.fill() != 0
    }

    fn fill(&mut self) -> usize {
        let room = &mut self.buffer[self.filled..];
        self.filled += self.uart.receive(room);
        self.filled
    }
}

/// Sends what a panicking kernel has to say, whatever the line was doing: the host finds one damaged
/// frame before it at most. All other CPUs have been stopped.
pub(crate) fn send_last(event: &Event) {
    // SAFETY: nobody else runs any more.
    let mut uart = unsafe { Uart::new() };
    let frame = frame::encode(event);
    let deadline = timer::now_ns() + LAST_WORDS_NS;
    for mut rest in [&[0][..], &frame] {
        while !rest.is_empty() && timer::now_ns() < deadline {
            rest = &rest[uart.send(rest)..];
        }
    }
}
