//! File descriptors that are this crate's as long as the program closes none that it does not know.
//!
//! Daemons of old close whatever is open, and what they open next has the numbers of it: their own connections would be
//! answered here, and closed.

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::AsFd;

/// A descriptor, and what it is of. What somebody else has closed is left alone.
#[derive(Debug)]
pub(crate) struct Ours<T: AsFd> {
    it: ManuallyDrop<T>,
    of: Identity,
}

/// Device and inode.
pub(crate) type Identity = (u64, u64);

pub(crate) fn identity(of: &impl AsFd) -> io::Result<Identity> {
    let of = rustix::fs::fstat(of)?;
    // Of types that differ by architecture.
    #[allow(clippy::unnecessary_cast)]
    Ok((of.st_dev as u64, of.st_ino as u64))
}

impl<T: AsFd> Ours<T> {
    /// One that has just been made.
    pub(crate) fn new(it: T) -> io::Result<Self> {
        let of = identity(&it)?;
        Ok(Self { it: ManuallyDrop::new(it), of })
    }

    /// It, if it is there.
    pub(crate) fn get(&self) -> io::Result<&T> {
        match identity(&*self.it)? == self.of {
            true => Ok(&self.it),
            false => Err(io::Error::other("the program has closed a descriptor of sdt-process's")),
        }
    }
}

impl<T: AsFd> Drop for Ours<T> {
    fn drop(&mut self) {
        if self.get().is_ok() {
            // SAFETY: once, and it is not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.it) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

    use super::*;

    #[test]
    fn what_another_has_closed_is_left_alone() {
        let (reader, writer) = io::pipe().unwrap();
        let number = reader.as_raw_fd();
        let reader = Ours::new(reader).unwrap();
        assert!(reader.get().is_ok());
        // SAFETY: the number is this file's from here on, which nobody else knows.
        let other = unsafe {
            let file = File::open("/").unwrap();
            libc::dup2(file.as_raw_fd(), number);
            OwnedFd::from_raw_fd(number)
        };
        assert!(reader.get().is_err());
        drop(reader);
        assert!(identity(&other).is_ok(), "it is open");
        drop(writer);
    }
}
