//! Files in `/proc` that stay open while the process is traced. Reading them needs no path and no free descriptor, and
//! only the system calls `fstat`, `pread64` and `ioctl`.
//!
//! The program may close any descriptor and open another file with the same number. So each access first compares the file with the
//! one that was opened.

use std::ffi::{CStr, c_void};
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, IntoRawFd as _};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::{descriptor, identity};

/// A file in `/proc` that describes this process.
#[derive(Debug)]
pub(crate) struct ProcFile {
    path: &'static CStr,
    /// The descriptor; -1 while the file is closed.
    descriptor: AtomicI32,
    device: AtomicU64,
    inode: AtomicU64,
    /// The generation of the process that opened the file. In a child, the copied descriptor still describes the parent.
    generation: AtomicU32,
}

/// The pages of this process that are in memory (`proc_pid_pagemap(5)`).
pub(crate) static PAGES: ProcFile = ProcFile::new(c"/proc/self/pagemap");
/// The status of the first thread (`proc_pid_status(5)`).
pub(crate) static STATUS: ProcFile = ProcFile::new(c"/proc/self/status");

/// The mappings of this process (`proc_pid_maps(5)`).
pub(crate) static MAPS: ProcFile = ProcFile::new(c"/proc/self/maps");

/// Closes the files in the child of a `fork`, where they describe the parent.
pub(crate) fn close_all() {
    PAGES.close();
    STATUS.close();
    MAPS.close();
}

impl ProcFile {
    const fn new(path: &'static CStr) -> Self {
        let [device, inode] = [const { AtomicU64::new(0) }; 2];
        Self { path, descriptor: AtomicI32::new(-1), device, inode, generation: AtomicU32::new(0) }
    }

    /// Opens the file, unless this process has it open. The caller holds the lock of the tracing state.
    pub(crate) fn open(&self) -> io::Result<()> {
        if self.get().is_some() && self.is_of_this_process() {
            return Ok(());
        }
        let file = rustix::fs::open(self.path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let (device, inode) = descriptor::identity(&file)?;
        self.descriptor.store(-1, Ordering::Release);
        self.device.store(device, Ordering::Release);
        self.inode.store(inode, Ordering::Release);
        self.generation.store(identity::generation(), Ordering::Release);
        self.descriptor.store(file.into_raw_fd(), Ordering::Release);
        Ok(())
    }

    /// Reads bytes at an offset, and returns how many. Probe context: the error is a number, for which no memory is allocated.
    ///
    /// # Errors
    /// The program has closed the file (`EBADF`), or the system call fails.
    pub(crate) fn read_at(&self, into: &mut [u8], offset: u64) -> Result<usize, Errno> {
        rustix::io::pread(self.get().ok_or(Errno::BADF)?, into, offset)
    }

    /// Calls `ioctl(2)` for the file, and returns whether that succeeded. Probe context.
    ///
    /// # Safety
    /// `argument` is a valid argument of this request for this file.
    pub(crate) unsafe fn ioctl(&self, request: u32, argument: *mut c_void) -> bool {
        let Some(file) = self.get() else { return false };
        // SAFETY: the caller guarantees that `argument` is valid for the request.
        unsafe { libc::ioctl(file.as_raw_fd(), request as libc::Ioctl, argument) != -1 }
    }

    /// Returns whether the file describes this process, and not its parent. Probe context.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.generation.load(Ordering::Acquire) == identity::generation()
    }

    /// Returns the descriptor while it refers to the file that was opened.
    fn get(&self) -> Option<BorrowedFd<'_>> {
        let descriptor = self.descriptor.load(Ordering::Acquire);
        if descriptor < 0 {
            return None;
        }
        // SAFETY: the descriptor is not -1. If the program closes it after the check, a system call fails or reads
        // another file. No memory access depends on the result.
        let file = unsafe { BorrowedFd::borrow_raw(descriptor) };
        let opened = (self.device.load(Ordering::Acquire), self.inode.load(Ordering::Acquire));
        descriptor::identity(&file).is_ok_and(|found| found == opened).then_some(file)
    }

    fn close(&self) {
        if self.get().is_some() {
            // SAFETY: `open` gave up the ownership of this descriptor, and `get` has just found it open.
            unsafe { libc::close(self.descriptor.load(Ordering::Acquire)) };
        }
        self.descriptor.store(-1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_file_at_the_same_number_is_not_read() {
        static FILE: ProcFile = ProcFile::new(c"/proc/self/stat");
        identity::prepare();
        assert!(FILE.read_at(&mut [0; 4], 0).is_err(), "not opened yet");
        FILE.open().unwrap();
        let descriptor = FILE.descriptor.load(Ordering::Relaxed);
        FILE.open().unwrap();
        assert_eq!(FILE.descriptor.load(Ordering::Relaxed), descriptor, "it is open already");
        assert_eq!(FILE.read_at(&mut [0; 4], 0).unwrap(), 4);
        let other = std::fs::File::open("/proc/self/status").unwrap();
        // SAFETY: replaces the file at a descriptor that only this test uses.
        unsafe { libc::dup2(std::os::fd::AsRawFd::as_raw_fd(&other), descriptor) };
        assert_eq!(FILE.read_at(&mut [0; 4], 0), Err(Errno::BADF));
        FILE.close();
        // SAFETY: asks whether the descriptor is open.
        let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFD) };
        assert_ne!(flags, -1, "`close` must leave the other file open");
        // SAFETY: closes the descriptor that `dup2` made.
        unsafe { libc::close(descriptor) };
    }
}
