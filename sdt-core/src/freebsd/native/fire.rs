//! From an enabled site to the kernel's sdt.

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

/// Hands a hit to the kernel.
///
/// The kernel passes over one frame between `dtrace_probe` and what it takes for the function that fired, and on
/// most of its versions C's macro has none there: `stack()` begins with the caller of that function. Here there
/// is one, the thunk's, and it begins with the function that fired. A kernel whose compiler inlined `dtrace_getpcstack`
/// passes over one frame more.
///
/// `words` are [`WORD_STRIDE`](crate::arch::WORD_STRIDE) apart. `frame` is the frame of the thunk that the site called.
///
/// Probe context: may run anywhere, with interrupts off and any lock held. A hit on a probe that is not
/// enabled (any more) is none: this can only be a thread that was on its way here while it was disabled.
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
    // `dtrace_probe` looks an id up without a check, so the probe must not go between the look at it and that.
    // It goes only after it was disabled and `dtrace_sync` has interrupted every CPU since. (C's macro leaves
    // that open.)
    let interrupts = cpu::interrupts_off();
    // SAFETY: a record of this image, by the contract of this function; records are statics.
    let id = unsafe { (*probe).id() };
    if id != 0 {
        // SAFETY: `count` words are readable, by the contract of this function.
        let args = unsafe { Hit { words, count }.args() };
        // SAFETY: the kernel's function takes the id of a probe that exists, which it does while interrupts are off; `frame`
        // is that of a thunk, by the contract of this function.
        unsafe { thunk::call_from(frame, release::function(), id, &args) };
    }
    cpu::interrupts_restore(interrupts);
}

pub use fire as fire_at;
