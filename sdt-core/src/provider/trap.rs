//! The interface for the breakpoint handler: from the address of a breakpoint to the address at which to resume.
//!
//! # Rules for the handler
//!
//! Install it before [`attach`](crate::attach::attach), because a consumer may enable a probe at once. It must save
//! every register (vector registers too, unless it, this crate and the framework are compiled without them), call
//! [`resume_address`] first, store the result to the saved program counter, and return.
//!
//! - **Its code must not contain a site** before `resume_address` returns: neither the assembly entry, nor the
//!   functions that it calls. A site there would trap within the trap, for ever.
//! - **Interrupts stay off** from the exception to its end: use an interrupt gate on x86_64; aarch64 and riscv64 mask
//!   them in hardware. The cold block then runs with the interrupt state of the function that fired.
//! - **Its stack is not shared with code that can contain a site.** x86_64: a breakpoint with an IST entry starts at
//!   the top of that stack and overwrites its contents. If interrupt handlers use the same entry and one of them fires,
//!   the exception overwrites the handler's own frame, and the machine crashes at the first enabled probe. Use no IST
//!   entry for vector 3, or one that no other vector uses, and no site in code on that stack. aarch64: an exception of
//!   EL1 that is taken with SP_EL1 continues on the same stack; one that is taken with SP_EL0 switches to SP_EL1, which
//!   is unused then. riscv64: a handler that swaps the stack pointer with `sscratch` does so only for traps that come
//!   from user mode.
//! - **No red zone** in code that can contain a site: on x86_64 the exception overwrites the red zone. Kernels compile
//!   without one (`disable-redzone` in the target); all code linked to them must do the same.
//! - **Nesting**: a site may be hit with interrupts off, in an interrupt, or in a non-maskable interrupt, so the
//!   handler must work on any stack, and nested. A hit in an NMI or a machine check that interrupts the handler's first
//!   instructions (x86_64 with IST for vector 3) destroys its frame: place no site there. aarch64: an SError or a debug
//!   exception before the saved registers are on the stack overwrites ELR_EL1 and SPSR_EL1; riscv64: a trap before
//!   `sepc` and `sstatus` are saved overwrites them. Neither can happen if the handler's entry contains no site.
//! - **Every CPU has it.** A CPU that comes online later loads its vectors before it executes code that can contain a
//!   site.
//!
//! `breakpoint_entry!` of this crate defines a complete handler for x86_64, aarch64 and riscv64.
//! `docs/breakpoint-handlers.md` of the project shows its use, and handlers without it.
//!
//! `attach` checks records, sites and their text, and on x86_64 targets with `os` `none` the gate of vector 3 and its
//! stack ([`AttachError::Handler`](crate::attach::AttachError::Handler)).

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
pub(crate) mod entry;

use crate::patch;
use crate::record;
use crate::site;

pub use crate::arch::BREAKPOINT_LEN;

/// Returns the address at which to resume after a breakpoint at `address`, or `None` if no site of this image is there.
///
/// An enabled site resumes in its cold block. A site that was disabled after this CPU had fetched the breakpoint
/// resumes after the nop, never inside of it.
///
/// The handler of the breakpoint exception calls it with the address of the breakpoint instruction (on x86_64 the saved
/// program counter minus [`BREAKPOINT_LEN`]). Probe context: takes no lock, and accesses only the records and the
/// sorted table of sites.
///
/// # Control-flow integrity
///
/// The handler stores the result to the saved program counter and returns from the exception.
///
/// - Landing pads (x86 IBT, `bti`, RISC-V Zicfilp): the return from an exception is not an indirect branch, so the cold
///   block has no landing pad. aarch64 restores PSTATE.BTYPE, which is 0 at a site: the target of an indirect branch is
///   the landing pad of the function or the label, never a site.
/// - Shadow stacks of the supervisor (x86 CET): `iret` compares the program counter with the copy on the shadow stack,
///   and faults if it was redirected. With shadow stacks, the handler must change the copy too (`wrss`), or the host
///   must use jump or gate mode. Known kernels have none: Linux uses shadow stacks for processes only, FreeBSD and
///   illumos not at all. On aarch64 (GCS) and RISC-V (Zicfiss) an exception pushes nothing to the shadow stack.
/// - kCFI and pointer authentication check calls and returns, and this is neither. A kernel that signs the saved
///   program counter must sign the new one.
pub fn resume_address(address: usize) -> Option<usize> {
    let site = record::find(site::all(), address)?;
    Some(if patch::is_enabled(site.probe()) { site.target() } else { address + site::LEN })
}

/// Returns whether a site of this image overlaps the `length` bytes at `address`. Any context.
pub fn overlaps(address: usize, length: usize) -> bool {
    let sites = site::all();
    let from = address.saturating_sub(site::LEN.saturating_sub(1));
    let first = sites.partition_point(|site| site.patchpoint() < from);
    sites.get(first).is_some_and(|site| site.patchpoint() < address.saturating_add(length))
}
