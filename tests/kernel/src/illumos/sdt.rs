//! `sdt`, the provider of modules' probes.

use core::ffi::{c_int, c_void};

use stand_in_illumos::regs::InvopStack;
use stand_in_illumos::sdt::Sdt;

use super::machine::{Machine, marking};
use crate::dtrace::DTRACE;
use crate::stack::Origin;

/// The provider.
pub(super) static SDT: Sdt = Sdt::new(&Machine);

/// The answer of `sdt` to the trap: continue behind the byte (`DTRACE_INVOP_NOP`).
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
        // SAFETY: the site that has trapped is the probe's.
        unsafe { DTRACE.probe5(id, [a, b, c, d, e]) };
    });
    // The answer `NOP` already skips one byte.
    regs.rip += marking().passed() - 1;
    NOP
}
