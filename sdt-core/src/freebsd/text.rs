//! Writing to the kernel's text.

use core::arch::asm;
use core::ffi::c_void;
use core::sync::atomic::{AtomicU8, Ordering};

use crate::patch::Patcher;

unsafe extern "C" {
    // sys/amd64/include/cpufunc.h, main: clears CR0.WP on this CPU; returns whether it was set.
    safe fn disable_wp() -> bool;
    // Sets CR0.WP on this CPU if `wp`.
    safe fn restore_wp(wp: bool);
    // sys/sys/smp.h, main: calls the functions on every CPU, this one included. Interrupts must be on.
    fn smp_rendezvous(
        setup: Option<Rendezvous>,
        action: Option<Rendezvous>,
        teardown: Option<Rendezvous>,
        arg: *mut c_void,
    );
}

type Rendezvous = unsafe extern "C" fn(*mut c_void);

unsafe extern "C" fn nothing(_: *mut c_void) {}

/// The kernel's text and that of its modules, written as fbt does it.
#[derive(Debug)]
pub(super) struct KernelText;

// SAFETY: the bytes are stored where they belong; one byte, which is all that changes under running CPUs, in
// one store. A rendezvous interrupts every CPU, and returning from an interrupt serialises.
unsafe impl Patcher for KernelText {
    unsafe fn store(&self, address: usize, bytes: &[u8]) {
        let flags: u64;
        // Interrupts off, so that this CPU is neither left with CR0.WP clear in somebody else's code
        // nor is this thread moved to a CPU on which it is set. Without `nomem`: what follows must
        // not be moved out.
        // SAFETY: disabling interrupts has no effect on memory or registers but the flags.
        unsafe { asm!("pushfq", "pop {}", "cli", out(reg) flags) };
        let wp = disable_wp();
        for (i, &byte) in bytes.iter().enumerate() {
            // SAFETY: by contract bytes of a site; while CR0.WP is clear the kernel can write to them.
            unsafe { AtomicU8::from_ptr((address + i) as *mut u8) }.store(byte, Ordering::SeqCst);
        }
        restore_wp(wp);
        // SAFETY: as they were.
        unsafe { asm!("push {}", "popfq", in(reg) flags) };
    }

    fn synchronise(&self) {
        // SAFETY: the function may be called on every CPU, with interrupts off.
        unsafe { smp_rendezvous(None, Some(nothing), None, core::ptr::null_mut()) };
    }
}
