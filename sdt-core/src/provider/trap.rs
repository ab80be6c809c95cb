//! The breakpoint handler's part: from the address of a breakpoint to where to go on.

use crate::arch;
use crate::attach::link;
use crate::patch;
use crate::record::Site;
use crate::route::inspect;

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
    let site: &Site = link::find(inspect::sites(), address)?;
    // SAFETY: `attach` has checked that the record points at a probe record of this image.
    let probe = unsafe { &*site.probe() };
    Some(if patch::is_enabled(probe) { site.target() } else { address + arch::SITE_LEN })
}
