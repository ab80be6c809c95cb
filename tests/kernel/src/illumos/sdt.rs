//! `sdt`, which provides the probes of modules: its state, and its handler for traps.

use core::ffi::{c_int, c_void};

use stand_in_illumos::regs::InvopStack;
use stand_in_illumos::sdt::Sdt;

use super::machine::{Machine, marking};
use crate::dtrace::DTRACE;
use crate::stack::Origin;

/// The state of `sdt`.
pub(super) static SDT: Sdt = Sdt::new(&Machine);

/// The result of [`invop`] for a trap at a site: continue after the byte (`DTRACE_INVOP_NOP`).
const NOP: c_int = 4;

/// `sdt_invop`: fires the probe whose site trapped. The arguments are in the registers, as for the call.
///
/// # Safety
/// `stack` is an [`InvopStack`].
pub(super) unsafe extern "C" fn invop(address: usize, stack: *mut c_void, _rax: usize) -> c_int {
    let Some(id) = SDT.probe_at(address as u64) else { return 0 };
    // SAFETY: `trap::invop` passes an `InvopStack`.
    let regs = unsafe { &mut (*stack.cast::<InvopStack>()).regs };
    let [a, b, c, d, e, _] = regs.arguments;
    Origin::interrupted(regs.rip, regs.savfp).of(|| {
        // SAFETY: a site of the probe caused the trap.
        unsafe { DTRACE.probe5(id, [a, b, c, d, e]) };
    });
    // For the result `NOP`, the trap handler itself skips one byte.
    regs.rip += marking().passed() - 1;
    NOP
}
