//! FreeBSD 10 to 14: a site tests whether it is enabled.

use crate::record::Probe;

unsafe extern "C" {
    // sys/kern/kern_sdt.c, 10 to 14. `sdt.ko` stores the address of `dtrace_probe` there; without `sdt.ko`, it is the address of
    // a stub of the kernel.
    static sdt_probe_func: *const ();
}

/// Returns the kernel's function for a hit. Probe context.
pub(super) fn function() -> *const () {
    // SAFETY: a variable of the kernel, loaded in one access. It is loaded at each hit, because `sdt.ko` may be loaded
    // or unloaded.
    unsafe { (&raw const sdt_probe_func).read_volatile() }
}

/// Returns whether any probe is enabled: there is one flag for all probes. This is the test on the hot path, the same as in C's
/// macro.
///
/// # Safety
/// None: the pointer is not used.
#[cfg(sdt_freebsd_since = "12")]
#[inline(always)]
pub unsafe fn may_fire(_: *const Probe) -> bool {
    unsafe extern "C" {
        // sys/kern/kern_sdt.c, 12 to 14: whether any SDT probe of the system is enabled.
        static sdt_probes_enabled: bool;
    }
    // SAFETY: a variable of the kernel, loaded in one access.
    unsafe { (&raw const sdt_probes_enabled).read_volatile() }
}

/// Returns whether the probe is enabled: its id is not 0. This is the test on the hot path, the same as in C's macro.
///
/// # Safety
/// `probe` is a record of this image.
#[cfg(not(sdt_freebsd_since = "12"))]
#[inline(always)]
pub unsafe fn may_fire(probe: *const Probe) -> bool {
    // SAFETY: a record of this image, by the contract of this function; records are statics.
    unsafe { &*probe }.id() != 0
}
