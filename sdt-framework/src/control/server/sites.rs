//! The sites of probes.

use dtrace_protocol::Site;
use sdt_core::ops::ProbeId;

/// The host's access to the sites of probes; the framework has no table of them.
pub trait Sites: Sync {
    /// Calls `show` for each site of a probe, in order of address and without the first `skip`, until it returns `false`.
    fn each(&self, probe: ProbeId, skip: usize, show: &mut dyn FnMut(&Site<'_>) -> bool);
}

/// An implementation of [`Sites`] for a host that has no table of sites.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSites;

impl Sites for NoSites {
    fn each(&self, _: ProbeId, _: usize, _: &mut dyn FnMut(&Site<'_>) -> bool) {}
}
