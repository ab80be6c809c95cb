//! Writes to a module's text, which illumos leaves writable (`sdt` stores to it as to data).

use core::ffi::c_void;

use super::cpu;
use crate::patch::Patcher;

unsafe extern "C" {
    // usr/src/uts/common/sys/cpuvar.h: cpu_lock is held. All other CPUs wait, with interrupts off, until `start_cpus`.
    fn pause_cpus(off: *mut c_void, function: *mut c_void);
    fn start_cpus();
    // In unix, not in DTrace: sends an interrupt to every CPU, and waits for it.
    safe fn dtrace_sync();
}

/// The text of this module.
#[derive(Debug)]
pub(super) struct KernelText;

// SAFETY: stores the given bytes, in one store if `Patcher` demands it. No other CPU executes meanwhile, and then every
// CPU takes an interrupt.
unsafe impl Patcher for KernelText {
    unsafe fn store(&self, address: usize, bytes: &[u8]) {
        let place = core::ptr::with_exposed_provenance_mut::<u8>(address);
        // SAFETY: bytes of a site in this module's text, by the contract of this function.
        unsafe {
            match *bytes {
                [a, b] if address.is_multiple_of(2) => {
                    place
                        .cast::<[u8; 2]>()
                        .cast::<u16>()
                        .write_volatile(u16::from_ne_bytes([a, b]));
                }
                [a, b, c, d] if address.is_multiple_of(4) => {
                    place.cast::<u32>().write_volatile(u32::from_ne_bytes([a, b, c, d]));
                }
                _ => {
                    for (i, &byte) in bytes.iter().enumerate() {
                        place.add(i).write_volatile(byte);
                    }
                }
            }
        }
    }

    /// Does nothing: other CPUs are paused, and this one executes other text.
    fn synchronise(&self) {}

    /// Called by DTrace's calls of `enable` and `disable`, which hold `cpu_lock`.
    fn exclusively(&self, change: &mut dyn FnMut()) {
        // SAFETY: DTrace holds cpu_lock, as above.
        unsafe { pause_cpus(core::ptr::null_mut(), core::ptr::null_mut()) };
        // The handler of an interrupt may contain a site, too.
        let interrupts = cpu::interrupts_off();
        change();
        cpu::interrupts_restore(interrupts);
        // SAFETY: `pause_cpus` above paused the CPUs.
        unsafe { start_cpus() };
        // The return from the interrupt makes a CPU discard fetched instructions.
        dtrace_sync();
    }
}
