//! File descriptors of this crate in a program that may close them.
//!
//! Some daemons close every descriptor that they find. The files that they open next get the same numbers. Without a check, this
//! crate would read, write and close files of the program.

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd as _, RawFd};

use rustix::io::Errno;

/// A file descriptor that is used and closed only while it refers to the file that it was created for.
#[derive(Debug)]
pub(crate) struct Descriptor<T: AsFd> {
    file: ManuallyDrop<T>,
    identity: Identity,
}

/// Device and inode of an open file.
pub(crate) type Identity = (u64, u64);

/// Returns the identity of an open file: one call of `fstat`. Probe context.
pub(crate) fn identity(file: &impl AsFd) -> Result<Identity, Errno> {
    let status = rustix::fs::fstat(file.as_fd())?;
    // The types of the two fields differ between architectures.
    #[allow(clippy::unnecessary_cast)]
    Ok((status.st_dev as u64, status.st_ino as u64))
}

/// Returns the error for a descriptor that the program has closed. Allocates memory, so not in probe context.
pub(crate) fn closed_by_program() -> io::Error {
    io::Error::other("the program has closed a file descriptor of sdt-process")
}

impl<T: AsFd> Descriptor<T> {
    /// Takes over a descriptor that has just been created.
    ///
    /// # Errors
    /// `fstat` fails.
    pub(crate) fn new(file: T) -> io::Result<Self> {
        let identity = identity(&file)?;
        Ok(Self { file: ManuallyDrop::new(file), identity })
    }

    /// Returns the file.
    ///
    /// # Errors
    /// The program has closed the descriptor.
    pub(crate) fn get(&self) -> io::Result<&T> {
        match identity(&*self.file)? == self.identity {
            true => Ok(&self.file),
            false => Err(closed_by_program()),
        }
    }

    /// Returns the number of the descriptor, for `poll(2)`. The program may have given the number to another file;
    /// `poll` does not change that file.
    pub(crate) fn number(&self) -> RawFd {
        self.file.as_fd().as_raw_fd()
    }
}

impl<T: AsFd> Drop for Descriptor<T> {
    fn drop(&mut self) {
        if self.get().is_ok() {
            // SAFETY: `drop` runs once, and the field is not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.file) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::{FromRawFd as _, OwnedFd};

    use super::*;

    #[test]
    fn another_file_at_the_same_number_is_neither_used_nor_closed() {
        let (reader, writer) = io::pipe().unwrap();
        let number = reader.as_raw_fd();
        let reader = Descriptor::new(reader).unwrap();
        assert!(reader.get().is_ok());
        // SAFETY: the number belongs to the new file from here on: `reader` must not use it any more.
        let other = unsafe {
            let file = File::open("/").unwrap();
            libc::dup2(file.as_raw_fd(), number);
            OwnedFd::from_raw_fd(number)
        };
        assert!(reader.get().is_err());
        drop(reader);
        assert!(identity(&other).is_ok(), "the other file is still open");
        drop(writer);
    }
}
