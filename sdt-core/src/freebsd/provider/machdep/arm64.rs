//! arm64: `sys/arm64/include/frame.h`, `sys/cddl/dev/dtrace/aarch64/dtrace_subr.c`, main.

use core::arch::asm;
use core::ffi::{c_int, c_void};
use core::mem::offset_of;

use static_assertions::const_assert_eq;

use crate::freebsd::cpu;
use crate::patch::machine;

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

/// Makes the exception return to `resume`, and returns the instruction that the kernel has to emulate for that.
///
/// `dtrace_invop_start` adds the distance of an emulated branch to `tf_elr`, which is already `resume`. All versions that were
/// read emulate `b` (13.0-CURRENT of 1300010, 13.0-RELEASE, main). A `nop` is not sufficient: 13.0-RELEASE does not emulate it,
/// `do_el1h_sync` ignores that, and the CPU resumes at whatever `tf_elr` is.
pub(crate) fn redirect(frame: &mut TrapFrame, resume: usize) -> c_int {
    /// `b .`
    const BRANCH: c_int = 0x1400_0000;
    frame.elr = resume as u64;
    BRANCH
}

/// Stores one instruction of text through its writable alias, and makes all instruction caches drop the old one.
///
/// The kernel's own `arm64_icache_sync_range` cannot be imported: it is a function in 13.0-CURRENT (1300010), and since
/// 13.0-RELEASE (`sys/arm64/include/cpufunc.h`) a variable that holds a function's address.
///
/// # Safety
/// As [`Patcher::store`](crate::patch::Patcher::store).
pub(crate) unsafe fn store(address: usize, bytes: &[u8]) {
    if let Some(alias) = writable(address) {
        // SAFETY: the bytes of a site, by the contract of this function, which the kernel maps at both addresses.
        unsafe {
            machine::store(alias.cast(), bytes);
            machine::after_store(address, bytes.len());
        }
    }
}

/// Returns an address at which an instruction of text can be written: its own, or an alias in the direct map. `None` if
/// the kernel has no such alias.
fn writable(address: usize) -> Option<*mut c_void> {
    let text = address as *mut c_void;
    if can_write(address) {
        return Some(text);
    }
    let alias_of = kernels_get_writable_addr()?;
    let mut alias = text;
    // SAFETY: the function stores to `alias`, or returns false.
    unsafe { alias_of(text, &mut alias) }.then_some(alias)
}

/// Returns whether the kernel can write to an address, according to the CPU's own address translation.
fn can_write(address: usize) -> bool {
    /// `PAR_F`: the translation failed.
    const FAILED: u64 = 1;
    let result: u64;
    // An interrupt handler may translate an address, too; the result is in the one PAR_EL1.
    let interrupts = cpu::interrupts_off();
    // SAFETY: translates an address and accesses nothing.
    unsafe {
        asm!(
            "at s1e1w, {address}",
            "isb",
            "mrs {result}, par_el1",
            address = in(reg) address,
            result = lateout(reg) result,
            options(nostack, preserves_flags),
        );
    }
    cpu::interrupts_restore(interrupts);
    result & FAILED == 0
}

/// `arm64_get_writable_addr` of `sys/arm64/arm64/machdep.c`, main.
type GetWritableAddr = unsafe extern "C" fn(*mut c_void, *mut *mut c_void) -> bool;

/// Returns the kernel's `arm64_get_writable_addr`, if it has that function. 13.0-RELEASE does not: it maps modules' text
/// writable, and its own fbt stores to it directly (`sys/cddl/dev/fbt/aarch64/fbt_isa.c`).
fn kernels_get_writable_addr() -> Option<GetWritableAddr> {
    let address: usize;
    // A weak symbol, so that kernels without it load the module. Rust has weak imports in assembly only.
    // SAFETY: loads a word that the loader has relocated: the function's address, or 0.
    unsafe {
        asm!(
            ".weak arm64_get_writable_addr",
            "adrp {address}, :got:arm64_get_writable_addr",
            "ldr {address}, [{address}, :got_lo12:arm64_get_writable_addr]",
            address = out(reg) address,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    // SAFETY: 0, or the address of the function, whose type is the same in all kernels that have it.
    unsafe { core::mem::transmute::<usize, Option<GetWritableAddr>>(address) }
}

/// Returns whether text can be written: whether it has a writable alias.
pub(crate) fn is_writable(address: usize, _: usize) -> bool {
    writable(address).is_some()
}

/// Makes this CPU execute the current text. The caches are coherent already, so this drops the contents of the pipeline
/// (Arm ARM B2.2.5).
pub(crate) fn on_this_cpu() {
    // SAFETY: the instruction is a barrier.
    unsafe { asm!("isb", options(nostack, preserves_flags)) };
}
