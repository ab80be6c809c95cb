//! The text of this program, written to in place.

use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use sdt_core::__private::record::Probe;
use sdt_core::patch::{PatchError, Patcher};

/// Whether text can be written to.
pub static WRITABLE: AtomicBool = AtomicBool::new(true);

/// What was refused last.
pub static REFUSED: Mutex<Option<PatchError>> = Mutex::new(None);

/// The text of this program: `mprotect` lets it be written to, `membarrier` tells all threads.
#[derive(Clone, Copy, Debug)]
pub struct Text;

// SAFETY: the bytes are stored where they belong, a single one in one store; the system call makes every
// thread of this process execute a serialising instruction.
unsafe impl Patcher for Text {
    unsafe fn store(&self, address: usize, bytes: &[u8]) {
        if !WRITABLE.load(Ordering::Relaxed) {
            return;
        }
        let page = address & !4095;
        let rwx = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        // SAFETY: a page of this program's text; it stays executable all the time.
        unsafe {
            let len = address + bytes.len() - page;
            assert_eq!(libc::mprotect(page as *mut c_void, len, rwx), 0);
            for (i, &byte) in bytes.iter().enumerate() {
                AtomicU8::from_ptr((address + i) as *mut u8).store(byte, Ordering::SeqCst);
            }
        }
    }

    fn synchronise(&self) {
        membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE);
    }

    fn is_writable(&self, _: usize, _: usize) -> bool {
        WRITABLE.load(Ordering::Relaxed)
    }

    fn refused(&self, _: &Probe, why: PatchError) {
        *REFUSED.lock().unwrap() = Some(why);
    }

    fn is_text(&self, address: usize, length: usize) -> bool {
        unsafe extern "C" {
            // The linker's: where this program's first segment starts, and where its text ends.
            safe static __executable_start: u8;
            safe static etext: u8;
        }
        let (start, end) = (&raw const __executable_start, &raw const etext);
        start.addr() <= address && address.checked_add(length).is_some_and(|to| to <= end.addr())
    }
}

/// Has the kernel make all threads of this process execute a serialising instruction, or registers that it is to.
fn membarrier(command: libc::c_int) {
    // SAFETY: no memory is involved.
    assert_eq!(unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) }, 0, "membarrier(2)");
}

/// Prepares this process for stores to its text.
///
/// # Panics
/// When the kernel has no `membarrier`.
pub fn prepare() {
    membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE);
}
