//! The breakpoint handler's part: from the address of a breakpoint to where to go on.
//!
//! # Rules for the handler
//!
//! It is in place before [`attach`](crate::attach::attach), as the first enabling may come at once. It saves every
//! register (those of vectors, too, unless it, this crate and the framework are compiled without), asks [`resume_address`]
//! before anything else, stores the answer to the saved program counter, and returns.
//!
//! - **Nothing on its way can hold a site**: neither the entry from assembly, nor what it calls until `resume_address` has
//!   answered, nor `resume_address` itself. A site there would trap within the trap, for ever.
//! - **Interrupts stay off** from the exception to its end: an interrupt gate on x86_64; aarch64 and riscv64 mask them by
//!   themselves. The cold block then runs as the function that fired does, with interrupts as that had them.
//! - **Its stack is not shared with code that can hold a site.** x86_64: a breakpoint that comes by an IST entry starts at
//!   the top of that stack, over whatever is on it. If interrupt handlers run on the same entry and one of them fires, the
//!   exception overwrites the handler's own frame, and the machine dies at the first enabled probe. Take no IST entry for
//!   vector 3, or one that nothing else has, and no site in what runs on that. aarch64: an exception of EL1 that is taken
//!   with SP_EL1 continues on the same stack; one that is taken with SP_EL0 goes over to SP_EL1, where nothing runs then.
//!   riscv64: a handler that swaps the stack pointer with `sscratch` does so only
//!   for traps that come from user mode.
//! - **No red zone** in code that can hold a site: on x86_64 the exception pushes to where the red zone is. Kernels compile
//!   without one (`disable-redzone` in the target); so must whatever is linked to them.
//! - **Nested**: a site may be hit with interrupts off, in an interrupt, or in a non-maskable one, so the handler can be
//!   entered on any stack and again in what it interrupts. In an NMI or a machine check that interrupts the handler's own
//!   first instructions (x86_64 with IST for vector 3) it is lost: have no site there. aarch64: an SError or a debug
//!   exception before the saved registers are on the stack overwrites ELR_EL1 and SPSR_EL1; riscv64: a trap before `sepc`
//!   and `sstatus` are saved overwrites them. Both cannot be while the handler's entry holds no site.
//! - **Every CPU has it.** A CPU that comes up later loads its vectors before it executes what can hold a site.
//!
//! On x86_64 `breakpoint_entry!` of this crate is a complete one. Those of aarch64 and riscv64, where breakpoints
//! share their vector with other exceptions, are in the project's `docs/breakpoint-handlers.md`, as its tests run them.
//!
//! What can be told from here `attach` checks: records, sites and their text; and on x86_64, where the target's `os` is
//! `none`, the gate of vector 3 and its
//! stack ([`AttachError::Handler`](crate::attach::AttachError::Handler)).

#[cfg(target_arch = "x86_64")]
pub(crate) mod entry;

use crate::patch;
use crate::record;
use crate::site;

pub use crate::arch::BREAKPOINT_LEN;

/// Where to resume after a breakpoint at `address`, or `None` if no site of this image is there.
///
/// An enabled site resumes in its cold block. A site that was disabled after this CPU had fetched the
/// breakpoint resumes behind the nop: never inside, where no instruction starts.
///
/// For the kernel's breakpoint exception, with the address of the breakpoint instruction itself (on
/// x86_64 the saved program counter less [`BREAKPOINT_LEN`]). Probe context:
/// takes no lock, touches only the records and the sorted table of sites.
///
/// # Control-flow integrity
///
/// The handler stores the result to the saved program counter and returns from the exception.
///
/// - Landing pads (x86 IBT, `bti`, RISC-V Zicfilp): the end of an exception is no indirect branch, so the cold
///   block needs none and has none. aarch64 restores PSTATE.BTYPE with the rest, and that is 0 at a site: a site is
///   never the first instruction that an indirect branch leads to, the function's or the label's own pad is.
/// - Shadow stacks of the supervisor (x86 CET): `iret` compares the program counter with the copy that the
///   exception has pushed to the shadow stack, and faults over one that was redirected. A handler there changes the
///   copy too (`wrss`), or the host takes jump mode, or gate mode. Known kernels have none: Linux gives shadow stacks
///   to processes only, FreeBSD and illumos have none. On aarch64 (GCS) and RISC-V (Zicfiss) an exception pushes
///   nothing, and there is nothing to compare.
/// - kCFI and pointer authentication check calls and returns, and this is neither. A kernel that signs the saved
///   program counter itself has to sign this one.
pub fn resume_address(address: usize) -> Option<usize> {
    let site = record::find(site::all(), address)?;
    Some(if patch::is_enabled(site.probe()) { site.target() } else { address + site::LEN })
}
