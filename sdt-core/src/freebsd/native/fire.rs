//! The call from an enabled site to the kernel's sdt.

use core::ffi::c_void;

use crate::freebsd::cpu;
use crate::hit::Hit;
use crate::record::Probe;
use crate::thunk;

#[cfg_attr(sdt_freebsd_since = "15", path = "fire/patched.rs")]
#[cfg_attr(not(sdt_freebsd_since = "15"), path = "fire/tested.rs")]
mod release;
#[cfg(not(sdt_freebsd_since = "15"))]
pub use release::may_fire;

/// Passes a hit to the kernel.
///
/// The kernel skips one frame between `dtrace_probe` and the function that fired. With C's macro, most of its versions
/// have no such frame, so `stack()` begins with the caller of the function that fired. Here the skipped frame is that
/// of the thunk, and `stack()` begins with the function that fired. A kernel whose compiler inlined `dtrace_getpcstack`
/// skips one more frame.
///
/// `words` are [`WORD_STRIDE`](crate::arch::WORD_STRIDE) apart. `frame` is the frame of the thunk that the site called.
///
/// Probe context: may run anywhere, with interrupts off and any lock held. If the probe is no longer enabled, a
/// consumer disabled it while this thread was on its way here, and there is no hit.
///
/// # Safety
/// `probe` is a record of this image, `words` are `count` readable words, `count` is at most
/// [`CARRIED`](crate::hit::CARRIED); `frame` is that of a thunk further up the stack.
pub unsafe extern "C" fn fire(
    probe: *const Probe,
    words: *const u64,
    count: usize,
    frame: *const c_void,
) {
    // `dtrace_probe` does not check the id, so the probe must not be destroyed between the load of the id and its use.
    // The kernel destroys a probe only after it was disabled and `dtrace_sync` has interrupted every CPU. (C's macro
    // has this race.)
    let interrupts = cpu::interrupts_off();
    // SAFETY: a record of this image, by the contract of this function; records are statics.
    let id = unsafe { (*probe).id() };
    if id != 0 {
        // SAFETY: `count` words are readable, by the contract of this function.
        let args = unsafe { Hit { words, count }.args() };
        // SAFETY: the probe exists while interrupts are off, as above; `frame` is that of a thunk, by the contract of
        // this function.
        unsafe { thunk::call_from(frame, release::function(), id, &args) };
    }
    cpu::interrupts_restore(interrupts);
}

pub use fire as fire_at;
