//! arm64: `sys/arm64/include/frame.h`, `sys/cddl/dev/dtrace/aarch64/dtrace_subr.c`, main.

use core::arch::asm;
use core::ffi::{c_int, c_void};
use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, Ordering};

use static_assertions::const_assert_eq;

/// `struct trapframe`.
#[repr(C)]
pub(crate) struct TrapFrame {
    sp: u64,
    lr: u64,
    elr: u64,
    /// `tf_spsr` to `tf_x`.
    after: [u64; 33],
}

const_assert_eq!(size_of::<TrapFrame>(), 288);
const_assert_eq!(offset_of!(TrapFrame, elr), 16);

/// Makes the exception return to `resume`; what the handler has to return for that.
pub(crate) fn redirect(frame: &mut TrapFrame, resume: usize) -> c_int {
    /// The kernel emulates the instruction the handler returns: for a nop it goes on 4 bytes further.
    const NOP: u32 = 0xd503_201f;
    frame.elr = resume as u64 - 4;
    NOP as c_int
}

unsafe extern "C" {
    // A writable alias of an address in text.
    fn arm64_get_writable_addr(address: *mut c_void, writable: *mut *mut c_void) -> bool;
    // Cleans the data cache and invalidates the instruction cache, on all CPUs.
    safe fn arm64_icache_sync_range(address: *mut c_void, size: usize);
}

/// Stores one instruction of text through its writable alias.
///
/// # Safety
/// As [`Patcher::store`](crate::patch::Patcher::store).
pub(crate) unsafe fn store(address: usize, bytes: &[u8]) {
    // By contract there is an alias, and the bytes are one instruction.
    if let (Ok(word), Some(alias)) = (bytes.try_into().map(u32::from_le_bytes), writable(address)) {
        // SAFETY: by contract a site's one instruction, aligned as instructions are.
        unsafe { AtomicU32::from_ptr(alias) }.store(word, Ordering::SeqCst);
        arm64_icache_sync_range(address as *mut c_void, bytes.len());
    }
}

/// Where an instruction of text can be written to: there, or in the direct map. The kernel may know no such place.
fn writable(address: usize) -> Option<*mut u32> {
    let text = address as *mut c_void;
    let mut alias = text;
    // SAFETY: fills in the alias, or leaves it and says so.
    unsafe { arm64_get_writable_addr(text, &mut alias) }.then_some(alias.cast())
}

/// Whether text can be written to: it has a writable alias.
pub(crate) fn is_writable(address: usize, _: usize) -> bool {
    writable(address).is_some()
}

/// What every CPU does to execute text as it is now: the caches have been seen to, so drop what is in the
/// pipeline (Arm ARM B2.2.5).
pub(crate) fn on_this_cpu() {
    // SAFETY: a barrier.
    unsafe { asm!("isb", options(nostack, preserves_flags)) };
}
