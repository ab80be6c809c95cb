//! A look at the image's sites, for listings and tests.

use crate::attach;
use crate::patch::{self, protocol::State};
use crate::record::{self, Site};

/// All sites of this image, in order of address. None before they have been checked, which
/// [`attach`](attach::attach) does: until then it may still be sorting them.
pub fn sites() -> &'static [Site] {
    if !attach::is_linked() {
        return &[];
    }
    // SAFETY: they have been linked, and are not linked again.
    unsafe { record::sites() }.unwrap_or_default()
}

/// What a site does now; nothing is known of it while nothing is attached. Takes the lock that patching takes: not in
/// probe context.
pub fn state(site: &Site) -> Option<State> {
    patch::state(site)
}
