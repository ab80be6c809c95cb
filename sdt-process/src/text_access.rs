//! Stores to the text of this program.
//!
//! | | x86_64 | aarch64, riscv64 |
//! |---|---|---|
//! | written | through `/proc/self/mem`, by which a process may write to its own read-only pages | directly, while the page is writable |
//! | writable and executable | never | one page at a time, from its first store in a change until the next store elsewhere, or the end of the change: other threads execute the page, and a system call for each store takes long |
//! | size of a single store | one byte | two or four bytes; the kernel does not document that `/proc/self/mem` stores them at once |
//! | refused under | a process that is not dumpable, kernels that forbid writing to one's own text | SELinux's `execmod`, `PR_SET_MDWE` |
//!
//! There is no second way: if the system refuses, probes are not enabled. `SDT_PATCH=gate` builds sites that are never written to.
//!
//! `/proc/self/mem` does not stay open between changes: a child that was made by the bare system call would inherit the right to write to
//! its parent's memory. Pages that have been written to are copies of this process from then on.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
#[cfg(not(target_arch = "x86_64"))]
use std::sync::{Mutex, MutexGuard, PoisonError};

#[cfg(not(target_arch = "x86_64"))]
use sdt_core::patch::machine;
use sdt_core::site::{self, ENCODING};

use crate::refused::Refused;

/// Whether this thread is the only one of the process, so that no other thread executes text.
static ALONE: AtomicBool = AtomicBool::new(false);

/// Returns whether [`alone`] is running.
pub(crate) fn is_alone() -> bool {
    ALONE.load(Ordering::Relaxed)
}

/// Runs `change` as the only thread of the process, in the child of a `fork`.
pub(crate) fn alone(change: impl FnOnce()) {
    if cfg!(target_arch = "riscv64") {
        // On these architectures, only the kernel can synchronise instruction caches. The registration of the parent
        // does not apply to the child.
        register_synchronisation().ok();
    }
    ALONE.store(true, Ordering::Relaxed);
    change();
    ALONE.store(false, Ordering::Relaxed);
}

/// The ability to write to text until this is dropped.
#[derive(Debug)]
pub(crate) struct Access {
    /// `/proc/self/mem`. The program may close the descriptor during a change, and open a file of its own at this number.
    #[cfg(target_arch = "x86_64")]
    memory: crate::descriptor::Descriptor<std::fs::File>,
}

impl Access {
    /// Opens `/proc/self/mem` for writing.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn open() -> io::Result<Self> {
        let memory = std::fs::OpenOptions::new().write(true).open("/proc/self/mem")?;
        Ok(Self { memory: crate::descriptor::Descriptor::new(memory)? })
    }

    /// Returns the access. There is nothing to open: each store changes the protection of its page.
    #[cfg(not(target_arch = "x86_64"))]
    pub(crate) fn open() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Stores bytes of a site.
    ///
    /// # Safety
    /// The bytes are at a site of this image, and a step of `sdt_core`'s protocol, so that any thread may execute them now.
    #[cfg(target_arch = "x86_64")]
    pub(crate) unsafe fn write(&self, address: usize, bytes: &[u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::write_all_at(self.memory.get()?, bytes, address as u64)
    }

    /// Stores bytes of a site. Its page stays writable until the next store to another page, or until any access is dropped.
    ///
    /// # Safety
    /// The bytes are at a site of this image, and a step of `sdt_core`'s protocol, so that any thread may execute them now.
    #[cfg(not(target_arch = "x86_64"))]
    pub(crate) unsafe fn write(&self, address: usize, bytes: &[u8]) -> io::Result<()> {
        let pages = Pages::of(address, bytes.len());
        let mut writable = writable();
        if *writable != Some(pages) {
            protect(&mut writable)?;
            // SAFETY: the caller guarantees that these are pages of this image's text.
            unsafe { pages.set(libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC)? };
            *writable = Some(pages);
        }
        // SAFETY: the pages are writable, and stay so while `writable` is locked; the caller guarantees the bytes.
        unsafe {
            machine::store(std::ptr::with_exposed_provenance_mut(address), bytes);
            machine::after_store(address, bytes.len());
        }
        Ok(())
    }

    /// Writes to a site the bytes that it already holds, to prove that it can be written. The bytes never change, so
    /// other threads may execute them meanwhile.
    pub(crate) fn rewrite(&self, address: usize, length: usize) -> Result<(), Refused> {
        let bytes = site_bytes(address, length);
        // SAFETY: the caller passes the address of a site, and the write does not change its bytes.
        unsafe { self.write(address, &bytes) }.map_err(Refused::Text)
    }

    /// Restores the bytes behind the breakpoint of a site if an earlier change stopped before it did so.
    pub(crate) fn repair(&self, address: usize) -> Result<(), Refused> {
        let (head, tail) = ENCODING.split(&ENCODING.nop);
        let bytes = site_bytes(address, site::LEN);
        let is_in_order = bytes.get(head.len()..) == Some(tail);
        if tail.is_empty() || is_in_order || !bytes.starts_with(ENCODING.breakpoint.as_bytes()) {
            return Ok(());
        }
        // Every thread sees the breakpoint before the bytes behind it change, and these bytes before the head changes again.
        synchronise_threads().map_err(Refused::Synchronise)?;
        // SAFETY: these bytes of a site are behind a breakpoint that all threads see, so no thread executes them.
        unsafe { self.write(address + head.len(), tail) }.map_err(Refused::Text)?;
        synchronise_threads().map_err(Refused::Synchronise)
    }
}

#[cfg(not(target_arch = "x86_64"))]
impl Drop for Access {
    fn drop(&mut self) {
        // Fails only if the program has unmapped its own text.
        let _ = protect(&mut writable());
    }
}

/// Pages of text.
#[cfg(not(target_arch = "x86_64"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pages {
    start: usize,
    /// A multiple of the size of a page.
    length: usize,
}

/// The pages that are writable. All accesses share this, because several changes can run at once, and two of them may store to one page.
#[cfg(not(target_arch = "x86_64"))]
static WRITABLE: Mutex<Option<Pages>> = Mutex::new(None);

#[cfg(not(target_arch = "x86_64"))]
fn writable() -> MutexGuard<'static, Option<Pages>> {
    WRITABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes the writable pages read-only again.
#[cfg(not(target_arch = "x86_64"))]
fn protect(writable: &mut Option<Pages>) -> io::Result<()> {
    match writable.take() {
        // SAFETY: `write` has made them writable, so they are pages of this image's text.
        Some(pages) => unsafe { pages.set(libc::PROT_READ | libc::PROT_EXEC) },
        None => Ok(()),
    }
}

#[cfg(not(target_arch = "x86_64"))]
impl Pages {
    /// Returns the pages that contain these bytes.
    fn of(address: usize, length: usize) -> Self {
        // SAFETY: returns a number and changes nothing.
        let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let start = address & !(size - 1);
        Self { start, length: (address + length - start).next_multiple_of(size) }
    }

    /// Sets the protection of the pages.
    ///
    /// # Safety
    /// They are pages of text, and the protection keeps them readable and executable.
    unsafe fn set(self, protection: libc::c_int) -> io::Result<()> {
        let start = std::ptr::with_exposed_provenance_mut(self.start);
        // SAFETY: by the contract of this function, code in these pages continues to run, and constants can still be read.
        match unsafe { libc::mprotect(start, self.length, protection) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Returns the bytes of a site.
pub(crate) fn site_bytes(address: usize, length: usize) -> Vec<u8> {
    let bytes = (address..address + length).map(|at| {
        let at = std::ptr::with_exposed_provenance::<u8>(at);
        // SAFETY: callers pass a site of this image, which is readable. The load is volatile, as the compiler does not see stores to text.
        unsafe { at.read_volatile() }
    });
    bytes.collect()
}

/// Makes every other thread execute a synchronising instruction.
pub(crate) fn synchronise_threads() -> io::Result<()> {
    if is_alone() && !cfg!(target_arch = "riscv64") {
        return Ok(());
    }
    membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE)
}

/// Registers this process for [`synchronise_threads`].
pub(crate) fn register_synchronisation() -> io::Result<()> {
    membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE)
}

/// Calls `membarrier(2)`.
fn membarrier(command: libc::c_int) -> io::Result<()> {
    // SAFETY: the call takes no pointer.
    match unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use std::os::fd::AsRawFd as _;

    use super::*;

    /// The program closes all descriptors during a change, and opens a file, which gets the same number.
    #[test]
    fn a_file_of_the_program_is_not_written() {
        let access = Access::open().unwrap();
        let number = access.memory.number();
        let file = tempfile::tempfile().unwrap();
        // SAFETY: replaces the file at a descriptor that only `access` uses.
        assert_eq!(unsafe { libc::dup2(file.as_raw_fd(), number) }, number);
        // SAFETY: nothing may be written, and the file has no text.
        assert!(unsafe { access.write(0, &[1]) }.is_err());
        assert_eq!(file.metadata().unwrap().len(), 0);
        drop(access);
        // SAFETY: closes the descriptor that `dup2` made and `access` has left open.
        assert_eq!(unsafe { libc::close(number) }, 0);
    }
}
