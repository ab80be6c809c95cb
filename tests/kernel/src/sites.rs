//! Sites of probes in loaded modules, for listings.

use alloc::string::String;

use dtrace_protocol::SiteState;
use sdt_core::ops::ProbeId;
use sdt_framework::server;

use crate::system;

/// A firing site of a probe.
#[derive(Debug)]
pub(crate) struct FiringSite {
    /// Its address.
    pub(crate) address: u64,
    /// The symbol of the function it is in, and the site's offset in it.
    pub(crate) function: Option<(String, u64)>,
    /// The instruction that it holds now.
    pub(crate) state: SiteState,
    /// Address of its cold block.
    pub(crate) target: u64,
    /// Whether a jump reaches that.
    pub(crate) in_reach: bool,
    /// Bytes that a jump reaches.
    pub(crate) reach: u64,
}

/// The sites of a probe in loaded modules.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sites;

impl server::Sites for Sites {
    // Only the CPU that serves consumers calls this, and only that CPU patches.
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
