//! Writing to the kernel's text.

use core::arch::asm;
use core::sync::atomic::{AtomicU8, Ordering};

use crate::patch::Patcher;

unsafe extern "C" {
    // sys/amd64/include/cpufunc.h, main: clears CR0.WP on this CPU; returns whether it was set.
    safe fn disable_wp() -> bool;
    // Sets CR0.WP on this CPU if `wp`.
    safe fn restore_wp(wp: bool);
}

/// The kernel's text and that of its modules, written as fbt does it.
#[derive(Debug)]
pub(super) struct KernelText;

// SAFETY: one byte is stored, where it is told to.
unsafe impl Patcher for KernelText {
    unsafe fn store(&self, address: usize, byte: u8) {
        let flags: u64;
        // Interrupts off, so that this CPU is neither left with CR0.WP clear in somebody else's code
        // nor is this thread moved to a CPU on which it is set. Without `nomem`: what follows must
        // not be moved out.
        // SAFETY: disabling interrupts has no effect on memory or registers but the flags.
        unsafe { asm!("pushfq", "pop {}", "cli", out(reg) flags) };
        let wp = disable_wp();
        // SAFETY: by contract a byte of a site; while CR0.WP is clear the kernel can write to it.
        unsafe { AtomicU8::from_ptr(address as *mut u8) }.store(byte, Ordering::SeqCst);
        restore_wp(wp);
        // SAFETY: as they were.
        unsafe { asm!("push {}", "popfq", in(reg) flags) };
    }
}
