//! Outputs: the destination of text, and of the actions that change this machine.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, IsTerminal as _, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use crate::escape;
use crate::render::record::effect::{Order, Request};

/// Receives text, and performs the actions of this run's programs.
pub trait Output {
    /// Writes text around the data: headings, the beginning and end of a line. `freopen` does not redirect it.
    ///
    /// # Errors
    /// Writing failed.
    fn line(&mut self, text: &[u8]) -> io::Result<()>;

    /// Writes data.
    ///
    /// # Errors
    /// Writing failed.
    fn write(&mut self, text: &[u8]) -> io::Result<()>;

    /// Writes a message to standard error: one line with its newline, without the program's name.
    ///
    /// # Errors
    /// Writing failed.
    fn message(&mut self, text: &str) -> io::Result<()>;

    /// Writes the listing of `-S` to standard error.
    ///
    /// # Errors
    /// Writing failed.
    fn listing(&mut self, text: &str) -> io::Result<()>;

    /// Performs an action of a program of this run, after writing everything before it: runs a shell command (`system`), appends
    /// further data to another file or again to the first one (`freopen`), or truncates the first file (`ftruncate`).
    ///
    /// # Errors
    /// The action failed, and has changed nothing.
    fn perform(&mut self, order: &Order<'_>) -> io::Result<()>;

    /// Makes all written text visible to readers.
    ///
    /// # Errors
    /// Writing failed.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Returns whether data go to a terminal after a `freopen`; `None` if they go to the first output.
    fn moved_to_terminal(&self) -> Option<bool> {
        None
    }
}

impl<O: Output + ?Sized> Output for &mut O {
    fn line(&mut self, text: &[u8]) -> io::Result<()> {
        (**self).line(text)
    }

    fn write(&mut self, text: &[u8]) -> io::Result<()> {
        (**self).write(text)
    }

    fn message(&mut self, text: &str) -> io::Result<()> {
        (**self).message(text)
    }

    fn listing(&mut self, text: &str) -> io::Result<()> {
        (**self).listing(text)
    }

    fn perform(&mut self, order: &Order<'_>) -> io::Result<()> {
        (**self).perform(order)
    }

    fn flush(&mut self) -> io::Result<()> {
        (**self).flush()
    }

    fn moved_to_terminal(&self) -> Option<bool> {
        (**self).moved_to_terminal()
    }
}

/// An output that collects standard output and standard error in memory. It supports no files and no shell commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// The printed text.
    pub out: Vec<u8>,
    /// Messages, each a line.
    pub err: String,
}

impl Output for Kept {
    fn line(&mut self, text: &[u8]) -> io::Result<()> {
        self.write(text)
    }

    fn write(&mut self, text: &[u8]) -> io::Result<()> {
        self.out.extend_from_slice(text);
        Ok(())
    }

    fn message(&mut self, text: &str) -> io::Result<()> {
        self.err.push_str("dtrace: ");
        self.err.push_str(text);
        Ok(())
    }

    fn listing(&mut self, text: &str) -> io::Result<()> {
        self.err.push_str(text);
        Ok(())
    }

    fn perform(&mut self, order: &Order<'_>) -> io::Result<()> {
        match order.request() {
            Request::Ftruncate => self.out.clear(),
            Request::Freopen(None) => {}
            _ => return Err(io::ErrorKind::Unsupported.into()),
        }
        Ok(())
    }
}

/// The size in bytes of the buffer before a file.
const BUFFER: usize = 64 << 10;

/// The files of a process: a file or standard output, and standard error.
#[derive(Debug)]
pub struct Streams {
    first: BufWriter<File>,
    now: Option<BufWriter<File>>,
    program: String,
}

impl Streams {
    /// Writes to a file; messages begin with the program's name.
    pub fn new(file: File, program: &str) -> Self {
        let first = BufWriter::with_capacity(BUFFER, file);
        Self { first, now: None, program: program.into() }
    }

    /// Writes to standard output.
    ///
    /// # Errors
    ///
    /// The process has no standard output.
    pub fn standard(program: &str) -> io::Result<Self> {
        let out = io::stdout().as_fd().try_clone_to_owned()?;
        Ok(Self::new(File::from(out), program))
    }
}

impl Output for Streams {
    fn line(&mut self, text: &[u8]) -> io::Result<()> {
        self.first.write_all(text)
    }

    fn write(&mut self, text: &[u8]) -> io::Result<()> {
        self.now.as_mut().unwrap_or(&mut self.first).write_all(text)
    }

    /// Ignores errors: dtrace continues if standard error is closed.
    fn message(&mut self, text: &str) -> io::Result<()> {
        self.flush()?;
        let _ = write!(io::stderr(), "{}: {}", self.program, escape::lines(text));
        Ok(())
    }

    fn listing(&mut self, text: &str) -> io::Result<()> {
        self.flush()?;
        let _ = write!(io::stderr(), "{text}");
        Ok(())
    }

    fn perform(&mut self, order: &Order<'_>) -> io::Result<()> {
        self.flush()?;
        match order.request() {
            // Its exit status is ignored, as with system(3).
            Request::System(command) => {
                Command::new("/bin/sh").arg("-c").arg(OsStr::from_bytes(command)).status().map(drop)
            }
            Request::Freopen(file) => {
                let open = |file| {
                    OpenOptions::new().append(true).create(true).open(OsStr::from_bytes(file))
                };
                let file = file.map(open).transpose()?;
                self.now = file.map(|file| BufWriter::with_capacity(BUFFER, file));
                Ok(())
            }
            Request::Ftruncate => {
                let file = self.first.get_mut();
                // A terminal or a pipe has nothing to empty.
                if file.set_len(0).is_ok() {
                    file.rewind()?;
                }
                Ok(())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.first.flush()?;
        self.now.as_mut().map_or(Ok(()), BufWriter::flush)
    }

    fn moved_to_terminal(&self) -> Option<bool> {
        self.now.as_ref().map(|now| now.get_ref().is_terminal())
    }
}
