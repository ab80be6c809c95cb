//! Where probes fire, for listings: what the system that this kernel is finds in loaded modules.

use alloc::string::String;

use dtrace_protocol::SiteState;
use sdt_core::ops::ProbeId;
use sdt_framework::server;

use crate::system;

/// A firing site of a probe.
#[derive(Debug)]
pub(crate) struct FiringSite {
    /// Where it is.
    pub(crate) address: u64,
    /// The symbol of the function it is in, and the site's offset in it.
    pub(crate) function: Option<(String, u64)>,
    /// What is there now.
    pub(crate) state: SiteState,
    /// Where its cold block is.
    pub(crate) target: u64,
    /// Whether a jump reaches that.
    pub(crate) in_reach: bool,
    /// How far jumps reach.
    pub(crate) reach: u64,
}

/// The sites of a probe in loaded modules.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sites;

impl server::Sites for Sites {
    // Called where nobody patches: by the CPU that does what consumers ask.
    fn each(
        &self,
        probe: ProbeId,
        skip: usize,
        show: &mut dyn FnMut(&dtrace_protocol::Site<'_>) -> bool,
    ) {
        for site in system::current().sites(probe.get()).into_iter().skip(skip) {
            let FiringSite { address, function, state, target, in_reach, reach } = site;
            let function = function.as_ref().map(|(symbol, offset)| (&**symbol, *offset));
            let site = dtrace_protocol::Site { address, function, state, target, in_reach, reach };
            if !show(&site) {
                break;
            }
        }
    }
}
