//! A shell on the second serial port.

use alloc::string::String;
use core::fmt::Write as _;
use core::sync::atomic::Ordering;

use crate::letters::DESKS;
use crate::{Port, TICKS};

/// It.
pub struct Shell {
    pub console: Port,
    /// What has been typed since the last line.
    pub line: String,
}

impl Shell {
    /// Takes what has been typed, and does it.
    pub fn step(&mut self) {
        match self.console.inner_mut().try_receive_byte() {
            Ok(b'\n') => self.command(),
            Ok(byte) => self.line.push(byte.into()),
            Err(_) => {}
        }
    }

    fn command(&mut self) {
        let line = core::mem::take(&mut self.line);
        if let Some(count) = line.strip_prefix("send ").and_then(|count| count.parse().ok()) {
            DESKS.iter().for_each(|desk| desk.to_send.store(count, Ordering::Relaxed));
        }
        for (cpu, (desk, ticks)) in DESKS.iter().zip(&TICKS).enumerate() {
            let (left, sent, received) = (&desk.to_send, &desk.sent, &desk.received);
            let counts = format_args!("{left:?} to send, {sent:?} sent, {received:?} received");
            writeln!(self.console, "CPU {cpu}: {counts}, {ticks:?} ticks").ok();
        }
    }
}
