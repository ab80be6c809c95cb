//! Sites of probes in loaded modules, for listings.

use sdt_core::ops::ProbeId;
use sdt_framework::server;

use crate::system::{self, FiringSite};

/// Lists the sites of a probe in loaded modules, for consumers.
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
