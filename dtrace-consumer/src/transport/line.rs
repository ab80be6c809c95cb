//! A stream of the operating system: one or two file descriptors.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use super::child::Child;
use super::serial::Settings;
use super::{Transport, TransportError};

/// A socket, a terminal, or the pipes of a child.
#[derive(Debug)]
pub struct Line {
    input: OwnedFd,
    /// The descriptor for writing, if it differs.
    output: Option<OwnedFd>,
    pub(super) child: Option<Child>,
    /// The settings of a terminal, which are restored at the end.
    pub(super) settings: Option<Settings>,
}

impl Line {
    /// Creates a stream from one descriptor for both directions, or from two.
    ///
    /// # Errors
    /// A descriptor cannot be made non-blocking.
    pub fn new(input: OwnedFd, output: Option<OwnedFd>) -> io::Result<Self> {
        for fd in [Some(&input), output.as_ref()].into_iter().flatten() {
            fcntl_setfl(fd, fcntl_getfl(fd)? | OFlags::NONBLOCK)?;
        }
        Ok(Self { input, output, child: None, settings: None })
    }

    fn output(&self) -> BorrowedFd<'_> {
        self.output.as_ref().unwrap_or(&self.input).as_fd()
    }

    /// Returns the error that the peer has closed the stream, with the exit status of a child.
    fn closed(&mut self) -> TransportError {
        TransportError::Closed(self.child.as_mut().and_then(Child::ended))
    }

    fn failed(&mut self, errno: Errno) -> TransportError {
        match TransportError::from(io::Error::from(errno)) {
            TransportError::Closed(_) => self.closed(),
            // The error of a terminal that was unplugged.
            TransportError::Failed(_) if errno == Errno::IO => self.closed(),
            error => error,
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if let Some(settings) = &self.settings {
            settings.restore(self.input.as_fd());
        }
    }
}

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.input.as_fd()
    }
}

/// Waits until a descriptor is ready, the time is over, or a signal arrives. Returns whether the descriptor may be
/// ready.
fn wait(fd: BorrowedFd<'_>, flags: PollFlags, wait: Duration) -> Result<bool, Errno> {
    let wait = Timespec::try_from(wait).ok();
    let mut fds = [PollFd::from_borrowed_fd(fd, flags)];
    match poll(&mut fds, wait.as_ref()) {
        Ok(ready) => Ok(ready != 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error),
    }
}

impl Transport for Line {
    fn read(&mut self, buffer: &mut [u8], limit: Duration) -> Result<usize, TransportError> {
        match wait(self.input.as_fd(), PollFlags::IN, limit) {
            Ok(true) => {}
            Ok(false) => return Ok(0),
            Err(errno) => return Err(self.failed(errno)),
        }
        match rustix::io::read(&self.input, buffer) {
            Ok(0) => Err(self.closed()),
            Ok(length) => Ok(length),
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            Err(errno) => Err(self.failed(errno)),
        }
    }

    fn write(&mut self, mut bytes: &[u8], limit: Duration) -> Result<(), TransportError> {
        let deadline = Instant::now() + limit;
        while !bytes.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(TransportError::Stuck(limit));
            }
            if let Err(errno) = wait(self.output(), PollFlags::OUT, left) {
                return Err(self.failed(errno));
            }
            match rustix::io::write(self.output(), bytes) {
                Ok(length) => bytes = &bytes[length..],
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(errno) => return Err(self.failed(errno)),
            }
        }
        Ok(())
    }
}
