//! Files of `/proc` that are opened when tracing starts and stay open, so that reading them later takes no path, no free
//! descriptor and no system call other than `fstat` and `pread64`.
//!
//! The program may close any descriptor, and open another file at the same number. So each access first compares the
//! file with the one that was opened.

use std::ffi::CStr;
use std::io;
use std::os::fd::{BorrowedFd, IntoRawFd as _};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use rustix::fs::{Mode, OFlags};

use crate::ours;

/// A file of this process's in `/proc`.
#[derive(Debug)]
pub(crate) struct Kept {
    path: &'static CStr,
    /// The descriptor, -1 if there is none.
    number: AtomicI32,
    device: AtomicU64,
    inode: AtomicU64,
    /// The process that has opened it: a copy of the descriptor in a child still describes the parent.
    process: AtomicU32,
}

/// Which pages of this process are in memory (`proc_pid_pagemap(5)`).
pub(crate) static PAGES: Kept = Kept::new(c"/proc/self/pagemap");
/// What the kernel says about the first thread (`proc_pid_status(5)`).
pub(crate) static STATUS: Kept = Kept::new(c"/proc/self/status");

/// Closes the files of the parent in the child of a `fork`: they describe the parent.
pub(crate) fn close_all() {
    PAGES.close();
    STATUS.close();
}

impl Kept {
    const fn new(path: &'static CStr) -> Self {
        let [device, inode] = [const { AtomicU64::new(0) }; 2];
        Self { path, number: AtomicI32::new(-1), device, inode, process: AtomicU32::new(0) }
    }

    /// Opens the file unless it is open. Callers hold the lock of the process's state.
    pub(crate) fn open(&self) -> io::Result<()> {
        if self.get().is_some() && self.is_of_this_process() {
            return Ok(());
        }
        let file = rustix::fs::open(self.path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let (device, inode) = ours::identity(&file)?;
        self.number.store(-1, Ordering::Release);
        self.device.store(device, Ordering::Release);
        self.inode.store(inode, Ordering::Release);
        self.process.store(std::process::id(), Ordering::Release);
        self.number.store(file.into_raw_fd(), Ordering::Release);
        Ok(())
    }

    /// Reads bytes at an offset, and returns how many. Probe context.
    pub(crate) fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let file = self.get().ok_or_else(closed)?;
        Ok(rustix::io::pread(file, into, offset)?)
    }

    /// Whether the file describes this process, and not the one that this is a child of. Probe context.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.process.load(Ordering::Acquire) == std::process::id()
    }

    /// The descriptor, while it is the one that was opened.
    fn get(&self) -> Option<BorrowedFd<'_>> {
        let number = self.number.load(Ordering::Acquire);
        if number < 0 {
            return None;
        }
        // SAFETY: not -1. Should the program close it just now, the system call that follows fails, or reads another file.
        let file = unsafe { BorrowedFd::borrow_raw(number) };
        let opened = (self.device.load(Ordering::Acquire), self.inode.load(Ordering::Acquire));
        ours::identity(&file).is_ok_and(|found| found == opened).then_some(file)
    }

    fn close(&self) {
        if self.get().is_some() {
            // SAFETY: opened by `open`, which gave it away, and closed by nobody since.
            unsafe { libc::close(self.number.load(Ordering::Acquire)) };
        }
        self.number.store(-1, Ordering::Release);
    }
}

fn closed() -> io::Error {
    io::Error::other("the program has closed a descriptor of sdt-process's")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_file_at_the_same_number_is_not_read() {
        static FILE: Kept = Kept::new(c"/proc/self/stat");
        assert!(FILE.read_at(&mut [0; 4], 0).is_err(), "not opened yet");
        FILE.open().unwrap();
        let number = FILE.number.load(Ordering::Relaxed);
        FILE.open().unwrap();
        assert_eq!(FILE.number.load(Ordering::Relaxed), number, "it is open already");
        assert_eq!(FILE.read_at(&mut [0; 4], 0).unwrap(), 4);
        let other = std::fs::File::open("/proc/self/status").unwrap();
        // SAFETY: the number is this test's.
        unsafe { libc::dup2(std::os::fd::AsRawFd::as_raw_fd(&other), number) };
        assert!(FILE.read_at(&mut [0; 4], 0).is_err());
        FILE.close();
        // SAFETY: asks whether the other file is open at that number.
        assert_ne!(unsafe { libc::fcntl(number, libc::F_GETFD) }, -1, "it is not ours to close");
        // SAFETY: opened above.
        unsafe { libc::close(number) };
    }
}
