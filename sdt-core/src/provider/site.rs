//! The firing sites of the image: their addresses and states.

use dtrace_abi::site::Encoding;

use crate::arch;
use crate::patch;
use crate::record;

pub use crate::patch::protocol::State;
pub use crate::record::Site;

/// The instructions that a site of this target can contain.
pub const ENCODING: Encoding = arch::ENCODING;

/// The length of a site in bytes; 0 if sites are never patched.
pub const LEN: usize = ENCODING.nop.len();

/// Returns all sites of the image, in order of address.
///
/// The list is empty until [`attach`](crate::attach::attach) has checked the records, because `attach` sorts them.
pub fn all() -> &'static [Site] {
    if !record::is_linked() {
        return &[];
    }
    // SAFETY: `is_linked` is true once `attach` has linked the sites, and `attach` never links them again.
    unsafe { record::sites() }.unwrap_or_default()
}

/// Returns the current state of a site; `None` while the image is not attached.
///
/// Takes the lock that patching takes: not in probe context.
pub fn state(site: &Site) -> Option<State> {
    patch::state(site)
}
