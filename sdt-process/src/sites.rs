//! The sites of probes, for listings.

use dtrace_protocol::{Site, SiteState};
use sdt_core::ops::ProbeId;
use sdt_core::site::{self, ENCODING, State};
use sdt_framework::server;

use crate::site_functions;

/// The sites of this image.
#[derive(Debug)]
pub(crate) struct Sites;

impl server::Sites for Sites {
    fn each(&self, probe: ProbeId, skip: usize, show: &mut dyn FnMut(&Site<'_>) -> bool) {
        let all = site::all().iter().zip(site_functions::of_sites());
        let own = all.filter(|(site, _)| site.probe().id() == Some(probe));
        for (site, function) in own.skip(skip) {
            let (patchpoint, target) = (site.patchpoint(), site.target());
            let shown = show(&Site {
                address: patchpoint as u64,
                function: function.as_ref().map(|(name, offset)| (&**name, *offset)),
                state: match site::state(site) {
                    Some(State::Trap) => SiteState::Trap,
                    Some(State::Jump) => SiteState::Jump,
                    _ => SiteState::Nop,
                },
                target: target as u64,
                in_reach: (ENCODING.jump)(patchpoint, target).is_ok(),
                reach: ENCODING.reach as u64,
            });
            if !shown {
                break;
            }
        }
    }
}
