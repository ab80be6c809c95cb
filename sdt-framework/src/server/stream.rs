//! The line to the consumers.

use core::fmt;

/// A byte stream: a serial line, a virtio console, a socket of the kernel's own. Whatever it loses or damages is
/// noticed, and survived.
pub trait Stream {
    /// Takes what has arrived, as much as fits, and says how much; 0 when there is nothing at the moment.
    ///
    /// # Errors
    /// The line is gone for good.
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Lost>;

    /// Sends some of the bytes and says how many; 0 when it takes none at the moment.
    ///
    /// # Errors
    /// The line is gone for good.
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Lost>;
}

/// There is no line any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lost;

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the line to the consumers is gone")
    }
}

impl core::error::Error for Lost {}
