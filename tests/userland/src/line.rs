//! The line to the consumer: two descriptors.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};

use sdt_framework::server::{Lost, Stream};

use crate::syscall::Syscalls;

/// It.
#[derive(Debug)]
pub struct Line {
    input: File,
    output: File,
    traced: Option<Syscalls>,
}

impl Line {
    /// The line that comes in by one descriptor and goes out by another, which stays blocking: who does not read is waited
    /// for.
    ///
    /// # Panics
    /// The first one cannot be made non-blocking.
    pub fn new(input: OwnedFd, output: OwnedFd) -> Self {
        let input = File::from(input);
        // SAFETY: the descriptor is open.
        let done = unsafe { libc::fcntl(input.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        assert_eq!(done, 0, "the line can be made non-blocking");
        Self { input, output: File::from(output), traced: None }
    }

    /// From now on what it writes is probes'.
    pub(crate) fn trace(&mut self, syscalls: Syscalls) {
        self.traced = Some(syscalls);
    }

    /// Waits a little, or until something has arrived.
    pub(crate) fn wait(&self) {
        let mut poll =
            libc::pollfd { fd: self.input.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one descriptor, which is open. How it ends is seen by reading.
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
