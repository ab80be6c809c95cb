//! Where text goes.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

/// Takes text, and does what programs ask of it.
pub trait Output {
    /// What frames the data: headings, the beginning and end of a line. `freopen` does not move it.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    fn line(&mut self, text: &[u8]) -> io::Result<()>;

    /// Data.
    ///
    /// # Errors
    ///
    /// They cannot be written.
    fn write(&mut self, text: &[u8]) -> io::Result<()>;

    /// A message on standard error, a line with its newline, without the program's name.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    fn message(&mut self, text: &str) -> io::Result<()>;

    /// Runs a command of the shell's, after everything before it was written.
    ///
    /// # Errors
    ///
    /// It cannot be run.
    fn system(&mut self, command: &[u8]) -> io::Result<()>;

    /// Data go to the end of this file from now on, or again where they first went.
    ///
    /// # Errors
    ///
    /// The file cannot be opened; nothing has changed then.
    fn redirect(&mut self, file: Option<&[u8]>) -> io::Result<()>;

    /// Empties the file that data first went to.
    ///
    /// # Errors
    ///
    /// What came before cannot be written.
    fn truncate(&mut self) -> io::Result<()>;
}

/// The files of a process: a file or standard output, and standard error.
#[derive(Debug)]
pub struct Streams {
    first: File,
    now: Option<File>,
    program: String,
}

impl Streams {
    /// To a file; messages begin with the program's name.
    pub fn new(file: File, program: &str) -> Self {
        Self { first: file, now: None, program: program.into() }
    }

    /// To standard output.
    ///
    /// # Errors
    ///
    /// There is none.
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

    fn message(&mut self, text: &str) -> io::Result<()> {
        write!(io::stderr(), "{}: {text}", self.program)
    }

    fn system(&mut self, command: &[u8]) -> io::Result<()> {
        let command = std::ffi::OsStr::from_bytes(command);
        // How it ended is its own affair, as with system(3).
        Command::new("/bin/sh").arg("-c").arg(command).status().map(drop)
    }

    fn redirect(&mut self, file: Option<&[u8]>) -> io::Result<()> {
        let open = |file| {
            let file = std::ffi::OsStr::from_bytes(file);
            OpenOptions::new().append(true).create(true).open(file)
        };
        self.now = file.map(open).transpose()?;
        Ok(())
    }

    fn truncate(&mut self) -> io::Result<()> {
        // A terminal or a pipe has nothing to empty.
        if self.first.set_len(0).is_ok() {
            self.first.rewind()?;
        }
        Ok(())
    }
}
