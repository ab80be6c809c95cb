//! An output that counts.

use std::io;

use dtrace_consumer::render::{Order, Output};

/// An output that counts its bytes, and panics beyond a maximum or if an action is requested.
pub(crate) struct Counted {
    bytes: usize,
    most: usize,
}

impl Counted {
    pub(crate) const fn up_to(most: usize) -> Self {
        Self { bytes: 0, most }
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Output for Counted {
    fn line(&mut self, text: &[u8]) -> io::Result<()> {
        self.write(text)
    }

    fn write(&mut self, text: &[u8]) -> io::Result<()> {
        self.bytes += text.len();
        assert!(self.bytes < self.most, "{} bytes", self.bytes);
        Ok(())
    }

    fn message(&mut self, text: &str) -> io::Result<()> {
        self.write(text.as_bytes())
    }

    fn listing(&mut self, text: &str) -> io::Result<()> {
        self.message(text)
    }

    fn perform(&mut self, order: &Order<'_>) -> io::Result<()> {
        panic!("no program asks for {order:?}");
    }
}
