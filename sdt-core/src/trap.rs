//! The breakpoint handler's part: from the address of a breakpoint to where to go on.

use crate::arch;
use crate::attach::{self, link};
use crate::patch;
use crate::record::{self, Site};

/// Where to resume after a breakpoint at `address`, or `None` if no site of this image is there.
///
/// An enabled site resumes in its cold block. A site that was disabled after this CPU had fetched the
/// breakpoint resumes behind the nop: never inside, where no instruction starts.
///
/// For the kernel's breakpoint exception, with the address of the breakpoint instruction itself (on
/// x86_64 the saved program counter less [`BREAKPOINT_LEN`](arch::BREAKPOINT_LEN)). Probe context:
/// takes no lock, touches only the records and the sorted table of sites.
pub fn resume_address(address: usize) -> Option<usize> {
    let site = find(address)?;
    // SAFETY: `attach` has checked that the record points at a probe record of this image.
    let probe = unsafe { &*site.probe() };
    Some(if patch::is_enabled(probe) { site.target() } else { address + arch::SITE_LEN })
}

/// The site with this patchpoint.
fn find(address: usize) -> Option<&'static Site> {
    if !attach::is_linked() {
        return None;
    }
    link::find(record::sites().ok()?, address)
}
