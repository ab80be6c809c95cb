//! Where text goes.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Seek, Write};
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

    /// What `-S` lists: on standard error, as it is.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    fn listing(&mut self, text: &str) -> io::Result<()>;

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

    /// What was written is to be seen by now.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
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

    fn system(&mut self, command: &[u8]) -> io::Result<()> {
        (**self).system(command)
    }

    fn redirect(&mut self, file: Option<&[u8]>) -> io::Result<()> {
        (**self).redirect(file)
    }

    fn truncate(&mut self) -> io::Result<()> {
        (**self).truncate()
    }

    fn flush(&mut self) -> io::Result<()> {
        (**self).flush()
    }
}

/// Text that is kept, for programs that want it: on standard output and on standard error. It has no files and no shell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// What was printed.
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

    fn system(&mut self, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn redirect(&mut self, file: Option<&[u8]>) -> io::Result<()> {
        if file.is_some() { Err(io::ErrorKind::Unsupported.into()) } else { Ok(()) }
    }

    fn truncate(&mut self) -> io::Result<()> {
        self.out.clear();
        Ok(())
    }
}

/// Bytes that are kept before they are written, at most.
const BUFFER: usize = 64 << 10;

/// The files of a process: a file or standard output, and standard error.
#[derive(Debug)]
pub struct Streams {
    first: BufWriter<File>,
    now: Option<BufWriter<File>>,
    program: String,
}

impl Streams {
    /// To a file; messages begin with the program's name.
    pub fn new(file: File, program: &str) -> Self {
        let first = BufWriter::with_capacity(BUFFER, file);
        Self { first, now: None, program: program.into() }
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

    /// Standard error that nobody reads is no reason to stop.
    fn message(&mut self, text: &str) -> io::Result<()> {
        self.flush()?;
        let _ = write!(io::stderr(), "{}: {text}", self.program);
        Ok(())
    }

    fn listing(&mut self, text: &str) -> io::Result<()> {
        self.flush()?;
        let _ = write!(io::stderr(), "{text}");
        Ok(())
    }

    fn system(&mut self, command: &[u8]) -> io::Result<()> {
        self.flush()?;
        let command = std::ffi::OsStr::from_bytes(command);
        // How it ended is its own affair, as with system(3).
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(command);
        shell.status().map(drop)
    }

    fn redirect(&mut self, file: Option<&[u8]>) -> io::Result<()> {
        self.flush()?;
        let open = |file| {
            let file = std::ffi::OsStr::from_bytes(file);
            OpenOptions::new().append(true).create(true).open(file)
        };
        self.now = file.map(open).transpose()?.map(|file| BufWriter::with_capacity(BUFFER, file));
        Ok(())
    }

    fn truncate(&mut self) -> io::Result<()> {
        self.flush()?;
        let file = self.first.get_mut();
        // A terminal or a pipe has nothing to empty.
        if file.set_len(0).is_ok() {
            file.rewind()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.first.flush()?;
        self.now.as_mut().map_or(Ok(()), BufWriter::flush)
    }
}
