//! The line to the consumer: two descriptors.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};

use sdt_framework::server::{Lost, Stream};

use crate::syscall::Syscalls;

/// A line to a consumer.
#[derive(Debug)]
pub struct Line {
    input: File,
    output: File,
    traced: Option<Syscalls>,
}

impl Line {
    /// Creates a line from a descriptor for input and one for output. The latter stays blocking, so a consumer that does not read
    /// stops this process.
    ///
    /// # Panics
    /// `input` cannot be made non-blocking.
    pub fn new(input: OwnedFd, output: OwnedFd) -> Self {
        let input = File::from(input);
        // SAFETY: `input` keeps the descriptor open.
        let done = unsafe { libc::fcntl(input.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        assert_eq!(done, 0, "the line can be made non-blocking");
        Self { input, output: File::from(output), traced: None }
    }

    /// Fires the probes of `syscalls` at every write from now on.
    pub(crate) fn trace(&mut self, syscalls: Syscalls) {
        self.traced = Some(syscalls);
    }

    /// Waits until input has arrived, at most 10 ms.
    pub(crate) fn wait(&self) {
        let mut poll =
            libc::pollfd { fd: self.input.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: `poll` is one valid entry, and `self.input` keeps its descriptor open. An error shows up in the next read.
        unsafe { libc::poll(&mut poll, 1, 10) };
    }
}

impl Stream for Line {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Lost> {
        match self.input.read(buffer) {
            Ok(0) => Err(Lost),
            Ok(length) => Ok(length),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
            Err(_) => Err(Lost),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<usize, Lost> {
        if let Some(syscalls) = &self.traced {
            let fd = self.output.as_raw_fd().unsigned_abs().into();
            syscalls.entry([fd, bytes.as_ptr() as u64, bytes.len() as u64]);
        }
        let written = self.output.write(bytes);
        if let Some(syscalls) = &self.traced {
            syscalls.ret(written.as_ref().map_or(u64::MAX, |&count| count as u64));
        }
        match written {
            Ok(length) => Ok(length),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
            Err(_) => Err(Lost),
        }
    }
}
