//! How this program's text is written.
//!
//! Text is never writable and executable at once, where that can be: x86_64 writes through `/proc/self/mem`, by which a
//! process may write to its own read-only pages. What has to be one store there is one byte. Elsewhere two or four bytes
//! have to be, and nothing says how the kernel copies them; so the page is made writable for the moment of the store, as it
//! is on x86_64 if there is no `/proc`. It stays executable, since other threads execute it. Systems that forbid that (SELinux's
//! `execmod`, `PR_SET_MDWE`) want the program built with `SDT_PATCH=gate`, whose sites are never written to.
//!
//! The pages that have been written to are this process's own from then on.

use std::ffi::c_void;
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use sdt_core::Probe;
use sdt_core::ops::{FUNCTION_NAME_LEN, Name};
use sdt_core::patch::{PatchError, Patcher, machine};

use crate::image::Image;
use crate::{breakpoint, functions, threads};

/// The text of this program, for [`Attachment`](sdt_core::attach::Attachment)s.
///
/// [`prepare`](Self::prepare) comes first.
#[derive(Debug)]
pub struct Text {
    /// Called when a probe could not be enabled or disabled.
    refused: fn(&Probe, &Refused),
    /// Whether probes have functions.
    functions: bool,
    /// While one probe's sites are asked about: that breakpoints can be taken.
    takes_breakpoints: AtomicBool,
    /// Or why they cannot.
    obstacle: Mutex<Option<Refused>>,
    /// Threads were waited for in vain: that is not done again for every probe.
    is_impatient: AtomicBool,
}

/// Why sites were left as they are.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// Another handler of SIGTRAP has taken the place of this crate's.
    #[error(
        "another handler of SIGTRAP has been installed since; install it before sdt_process is started"
    )]
    Handler,
    /// A thread would not survive a breakpoint.
    #[error(
        "a thread blocks SIGTRAP, and would end the process if it came to a site that is being changed; leave SIGTRAP \
         out of its mask"
    )]
    Blocked,
    /// Text cannot be written.
    #[error("the system does not let text be written; build the program with SDT_PATCH=gate")]
    Text,
    /// What `sdt_core` says.
    #[error(transparent)]
    Patch(PatchError),
}

/// Whether this thread is the only one of the process, so that nobody comes to a breakpoint.
static ALONE: AtomicBool = AtomicBool::new(false);

/// Threads block all signals for a moment when they begin, end, or start a program, and on a busy machine that may be
/// long: so often this is looked at again, two seconds in all.
const LOOKS: u32 = 1000;
const BETWEEN: Duration = Duration::from_millis(2);

impl Text {
    /// Of a refusal `refused` is told, in a thread that holds locks of the framework's: it must not call back.
    pub const fn new(refused: fn(&Probe, &Refused)) -> Self {
        Self {
            refused,
            functions: false,
            takes_breakpoints: AtomicBool::new(false),
            obstacle: Mutex::new(None),
            is_impatient: AtomicBool::new(false),
        }
    }

    /// Whether functions are looked up in the symbols of the program's file. They are not unless that is said here.
    pub const fn with_functions(mut self, functions: bool) -> Self {
        self.functions = functions;
        self
    }

    /// Prepares the process for stores to its text: installs the handler of breakpoints, and tells the kernel that
    /// threads will have to be synchronised. To be done again in the child of a `fork`.
    ///
    /// # Errors
    /// The system has no `membarrier` that synchronises cores (Linux 4.16; riscv64: 6.10), or forbids it.
    pub fn prepare() -> io::Result<()> {
        breakpoint::install()?;
        membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE)
    }

    /// Runs `change` where this thread is the only one, and executes no site meanwhile.
    pub(crate) fn alone(change: impl FnOnce()) {
        ALONE.store(true, Ordering::Relaxed);
        change();
        ALONE.store(false, Ordering::Relaxed);
    }

    /// What keeps probes from being changed just now, if anything does.
    fn obstacle(&self) -> Option<Refused> {
        if ALONE.load(Ordering::Relaxed) {
            return None;
        }
        if !breakpoint::is_installed() {
            return Some(Refused::Handler);
        }
        for _ in 0..LOOKS {
            // Without /proc nobody can tell.
            if !threads::any_blocks_breakpoints().unwrap_or(false) {
                self.is_impatient.store(false, Ordering::Relaxed);
                return None;
            }
            if self.is_impatient.load(Ordering::Relaxed) {
                break;
            }
            thread::sleep(BETWEEN);
        }
        self.is_impatient.store(true, Ordering::Relaxed);
        Some(Refused::Blocked)
    }

    /// Stores what is there already.
    fn can_store(address: usize, length: usize) -> bool {
        let there: Vec<u8> = (address..address + length)
            .map(|at| {
                let at = std::ptr::with_exposed_provenance::<u8>(at);
                // SAFETY: a site of this image. Volatile, as text changes behind the compiler's back.
                unsafe { at.read_volatile() }
            })
            .collect();
        // One by one, as they are executed; each is what it was at every moment.
        // SAFETY: nothing changes.
        unsafe { write(address, &there) }.is_ok()
    }
}

// SAFETY: the bytes are stored where they belong. One store is one on x86_64 if it is a byte, which is all that changes under
// running threads there, the rest being behind a breakpoint; elsewhere if it is aligned. The system call makes every thread
// of this process execute a synchronising instruction.
unsafe impl Patcher for Text {
    unsafe fn store(&self, address: usize, bytes: &[u8]) {
        // SAFETY: the caller's contract.
        if let Err(error) = unsafe { write(address, bytes) } {
            // `is_writable` has just written here. Half of a change would be executed.
            end(&format!("text at {address:#x} can no longer be written to: {error}"));
        }
    }

    fn synchronise(&self) {
        machine::synchronise_cpu();
        if let Err(error) = membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE) {
            // Whoever goes on executes any mixture.
            end(&format!("threads can no longer be synchronised: {error}"));
        }
    }

    fn exclusively(&self, change: &mut dyn FnMut()) {
        change();
        self.takes_breakpoints.store(false, Ordering::Relaxed);
    }

    fn is_text(&self, address: usize, length: usize) -> bool {
        Image::here().is_text(address, length)
    }

    fn is_writable(&self, address: usize, length: usize) -> bool {
        if !self.takes_breakpoints.load(Ordering::Relaxed) {
            let obstacle = self.obstacle();
            let is_there = obstacle.is_some();
            *self.obstacle.lock().unwrap_or_else(PoisonError::into_inner) = obstacle;
            if is_there {
                return false;
            }
            self.takes_breakpoints.store(true, Ordering::Relaxed);
        }
        Self::can_store(address, length)
    }

    fn function(&self, address: usize) -> Option<Name<FUNCTION_NAME_LEN>> {
        self.functions.then(|| functions::name(address)).flatten()
    }

    fn relax(&self) {
        thread::yield_now();
    }

    fn refused(&self, probe: &Probe, why: PatchError) {
        self.takes_breakpoints.store(false, Ordering::Relaxed);
        let refused = match why {
            PatchError::ReadOnly { .. } => {
                let mut obstacle = self.obstacle.lock().unwrap_or_else(PoisonError::into_inner);
                obstacle.take().unwrap_or(Refused::Text)
            }
            why => Refused::Patch(why),
        };
        (self.refused)(probe, &refused);
    }
}

/// Ends the program, and says why, if anybody reads that.
fn end(why: &str) -> ! {
    io::stderr().write_all(format!("sdt-process: {why}\n").as_bytes()).ok();
    std::process::abort();
}

/// Stores bytes of a site.
///
/// # Safety
/// They are what the site may hold now.
unsafe fn write(address: usize, bytes: &[u8]) -> io::Result<()> {
    #[cfg(target_arch = "x86_64")]
    if write_by_file(address, bytes).is_ok() {
        return Ok(());
    }
    // SAFETY: the caller's contract.
    unsafe { write_unprotected(address, bytes) }
}

/// Through the file that is this process's memory; opened each time, as one that is kept would be the parent's memory
/// after a `fork`.
#[cfg(target_arch = "x86_64")]
fn write_by_file(address: usize, bytes: &[u8]) -> io::Result<()> {
    use std::os::unix::fs::FileExt as _;

    let memory = std::fs::OpenOptions::new().write(true).open("/proc/self/mem")?;
    memory.write_all_at(bytes, address as u64)
}

/// With the protection of the pages lifted.
///
/// # Safety
/// The bytes are text of this image, and what it may hold now.
unsafe fn write_unprotected(address: usize, bytes: &[u8]) -> io::Result<()> {
    // SAFETY: asks for a number.
    let page_size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    let page = address & !(page_size - 1);
    let length = address + bytes.len() - page;
    let protect = |protection| {
        let pages = std::ptr::with_exposed_provenance_mut::<c_void>(page);
        // SAFETY: pages of this image's text, which stay executable.
        match unsafe { libc::mprotect(pages, length, protection) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    protect(libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC)?;
    // SAFETY: by contract; writable just now.
    unsafe {
        machine::store(std::ptr::with_exposed_provenance_mut(address), bytes);
        machine::after_store(address, bytes.len());
    }
    protect(libc::PROT_READ | libc::PROT_EXEC)
}

/// `membarrier(2)`.
fn membarrier(command: libc::c_int) -> io::Result<()> {
    // SAFETY: no memory is involved.
    match unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn executed() -> u64 {
        std::hint::black_box(7)
    }

    /// Each way works, and leaves no page that is writable and executable.
    #[test]
    fn text_is_written_in_each_way() {
        let address = executed as *const () as usize;
        // SAFETY: the text of a function.
        let bytes = unsafe { *(address as *const [u8; 4]) };
        // SAFETY: what is there already.
        unsafe { write_unprotected(address, &bytes) }.unwrap();
        #[cfg(target_arch = "x86_64")]
        write_by_file(address, &bytes).unwrap();
        assert_eq!(executed(), 7);
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        assert!(maps.lines().any(|line| line.contains(" r-xp ")), "{maps}");
        assert!(!maps.lines().any(|line| line.contains(" rwxp ")), "{maps}");
        // Where there is no text, neither does.
        // SAFETY: nothing is there.
        assert!(unsafe { write(16, &bytes) }.is_err());
    }
}
