//! A shell on the second serial port: `send COUNT`, `count`, and the commands of `Console`.

use alloc::string::String;
use core::fmt::Write as _;
use core::sync::atomic::Ordering;

use crate::Port;
use crate::letters::{DESKS, Desk};
use crate::tracing::Tracer;

/// The shell of the kernel.
pub struct Shell {
    pub console: Port,
    /// The text that was typed since the last line.
    pub line: String,
    pub tracer: Tracer,
}

impl Shell {
    /// Reads one byte from the console, and runs the command at the end of a line.
    pub fn step(&mut self) {
        match self.console.inner_mut().try_receive_byte() {
            Ok(b'\n') => self.command(),
            Ok(byte) => self.line.push(byte.into()),
            // If the console fails, there is nowhere to report it, here and below.
            Err(_) => _ = self.tracer.print(&mut self.console),
        }
    }

    fn command(&mut self) {
        let line = core::mem::take(&mut self.line);
        if let Some(count) = line.strip_prefix("send ").and_then(|count| count.parse().ok()) {
            DESKS.iter().for_each(|desk| desk.to_send.store(count, Ordering::Relaxed));
        } else if line != "count" {
            if let Err(error) = self.tracer.command(&line, &mut self.console) {
                writeln!(self.console, "dtrace: {error}").ok();
            }
            return;
        }
        for (cpu, Desk { to_send, sent, received, .. }) in DESKS.iter().enumerate() {
            let counts = format_args!("{to_send:?} to send, {sent:?} sent, {received:?} received");
            writeln!(self.console, "CPU {cpu}: {counts}").ok();
        }
    }
}
