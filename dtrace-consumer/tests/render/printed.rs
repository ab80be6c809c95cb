//! The output of these tests.

use std::io;

use dtrace_consumer::render::{Order, Output, Request};

/// The output of a run.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Printed {
    pub out: Vec<u8>,
    pub err: String,
    /// Files that `freopen` has named.
    pub files: Vec<(Vec<u8>, Vec<u8>)>,
    redirected: bool,
}

impl Output for Printed {
    fn line(&mut self, text: &[u8]) -> io::Result<()> {
        self.out.extend_from_slice(text);
        Ok(())
    }

    fn write(&mut self, text: &[u8]) -> io::Result<()> {
        match self.files.last_mut().filter(|_| self.redirected) {
            Some((_, file)) => file.extend_from_slice(text),
            None => self.out.extend_from_slice(text),
        }
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

    /// Supports only the shell's `echo`.
    fn perform(&mut self, order: &Order<'_>) -> io::Result<()> {
        match order.request() {
            Request::System(command) => {
                let text = command.strip_prefix(b"echo ").ok_or(io::ErrorKind::NotFound)?;
                self.out.extend_from_slice(text);
                self.out.push(b'\n');
            }
            Request::Freopen(file) => {
                self.redirected = file.is_some();
                self.files.extend(file.map(|file| (file.to_vec(), Vec::new())));
            }
            Request::Ftruncate => self.out.clear(),
        }
        Ok(())
    }
}
