//! From an enabled site to the kernel's sdt.

use core::ffi::c_void;

use crate::arch;
use crate::freebsd::cpu;
use crate::hit::Hit;
use crate::record::Probe;

/// A function that takes the probe's id and the arguments.
type Function = *const ();

#[cfg(sdt_freebsd = "tracepoint")]
unsafe extern "C" {
    // sys/kern/kern_sdt.c, main. Probe context. Declared without its arguments: `call_from` passes them.
    //
    // `sdt_probe`, for up to five, is the same with a 0 for the sixth. It would pass its arguments on by a call
    // on amd64, where that makes one more, and so be an artificial frame that this one is not.
    fn sdt_probe6();
}

#[cfg(not(sdt_freebsd = "tracepoint"))]
unsafe extern "C" {
    // sys/kern/kern_sdt.c, 10 to 14. `sdt.ko` puts `dtrace_probe` there, the kernel itself a stub.
    static sdt_probe_func: Function;
}

#[cfg(sdt_freebsd = "flag")]
unsafe extern "C" {
    // sys/kern/kern_sdt.c, 12 to 14: whether any SDT probe of the system is enabled.
    static sdt_probes_enabled: bool;
}

/// The kernel's function for a hit. Probe context.
#[cfg(sdt_freebsd = "tracepoint")]
fn function() -> Function {
    sdt_probe6 as Function
}

/// The kernel's function for a hit. Probe context.
#[cfg(not(sdt_freebsd = "tracepoint"))]
fn function() -> Function {
    // SAFETY: a variable of the kernel's, read in one access, each time anew as `sdt.ko` may come and go.
    unsafe { (&raw const sdt_probe_func).read_volatile() }
}

/// Whether a site of `probe` has to look closer: the test on the hot path of kernels that patch no sites.
///
/// # Safety
/// `probe` is a record of this image.
#[doc(hidden)]
#[inline(always)]
pub unsafe fn may_fire(probe: *const Probe) -> bool {
    // SAFETY: a variable of the kernel's, read in one access.
    #[cfg(sdt_freebsd = "flag")]
    let enabled = unsafe { (&raw const sdt_probes_enabled).read_volatile() };
    // SAFETY: by contract a record of this image, a static.
    #[cfg(not(sdt_freebsd = "flag"))]
    let enabled = unsafe { &*probe }.id() != 0;
    _ = probe;
    enabled
}

/// Hands a hit to the kernel.
///
/// The kernel passes over one frame between `dtrace_probe` and what it takes for the function that fired, and on
/// most of its versions C's macro has none there: `stack()` begins with the caller of that function. Here there
/// is one, the thunk's, and it begins with the function that fired.
///
/// `words` are [`WORD_STRIDE`](arch::WORD_STRIDE) apart. `frame` is the frame of the thunk that the site called.
///
/// Probe context: may run anywhere, with interrupts off and any lock held. A hit on a probe that is not
/// enabled (any more) is none: this can only be a thread that was on its way here while it was disabled.
///
/// # Safety
/// `probe` is a record of this image, `words` are `count` readable words, `count` is at most
/// [`MAX_ARGS`](crate::hit::MAX_ARGS); `frame` is that of a thunk further up the stack.
pub unsafe extern "C" fn fire(
    probe: *const Probe,
    words: *const u64,
    count: usize,
    frame: *const c_void,
) {
    // `dtrace_probe` looks an id up without a check, so the probe must not go between the look at it and that.
    // It goes only after it was disabled and `dtrace_sync` has interrupted every CPU since. (C's macro leaves
    // that open.)
    let interrupts = cpu::interrupts_off();
    // SAFETY: by contract a record of this image, a static.
    let id = unsafe { (*probe).id() };
    if id != 0 {
        // SAFETY: by contract.
        let args = unsafe { Hit { words, count }.args() };
        // SAFETY: the kernel's function with the id of a probe that is there; by contract the thunk's frame.
        unsafe { arch::call_from(frame, function(), id, &args) };
    }
    cpu::interrupts_restore(interrupts);
}

pub use fire as fire_at;
