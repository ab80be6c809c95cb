//! The sites of probes, for listings.

use dtrace_protocol::{Site, SiteState};
use sdt_core::__private::arch::ENCODING;
use sdt_core::__private::inspect;
use sdt_core::__private::protocol::State;
use sdt_core::ops::ProbeId;
use sdt_framework::server;

use crate::functions;

/// The sites of this image.
#[derive(Debug)]
pub(crate) struct Sites;

impl server::Sites for Sites {
    fn each(&self, probe: ProbeId, skip: usize, show: &mut dyn FnMut(&Site<'_>) -> bool) {
        let all = inspect::sites().iter().zip(functions::of_sites());
        let own = all.filter(|(site, _)| {
            // SAFETY: `attach::attach` checked that each site of the image refers to a record of a probe.
            unsafe { &*site.probe() }.primary().id() == Some(probe)
        });
        for (site, function) in own.skip(skip) {
            let (patchpoint, target) = (site.patchpoint(), site.target());
            let shown = show(&Site {
                address: patchpoint as u64,
                function: function.as_ref().map(|(name, offset)| (&**name, *offset)),
                state: match inspect::state(site) {
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
