//! The sites of a probe and their instructions, for listings.

use alloc::vec::Vec;

use dtrace_protocol::SiteState;
use sdt_core::Probe;
use sdt_core::patch::NoText;
use sdt_core::patch::protocol::{self, Text};
use sdt_core::site::{ENCODING, State};

use stand_in_freebsd::loader::Machine;
use stand_in_freebsd::sdt::Tracepoint;

use crate::freebsd::machine::LINKER;
use crate::freebsd::sdt::SDT;
use crate::system::FiringSite;

/// The sites of a probe in loaded files, in order of address. Only the CPU that
/// serves consumers calls this, and only that CPU patches.
pub(crate) fn of(id: u32) -> Vec<FiringSite> {
    let mut sites = own(id);
    sites.extend(SDT.tracepoints(id).into_iter().map(tracepoint));
    sites.sort_by_key(|site| site.address);
    sites
}

/// Converts a tracepoint of SDT. FreeBSD patches these sites.
fn tracepoint(tracepoint: Tracepoint) -> FiringSite {
    let jump = tracepoint.jump(Machine::HERE);
    let text = tracepoint.patchpoint as *const u8;
    // SAFETY: the file is mapped, and no CPU patches the site now: only this CPU patches.
    let byte = |at| unsafe { text.add(at).read_volatile() };
    let jumps = jump.as_bytes().iter().enumerate().all(|(at, &expected)| byte(at) == expected);
    FiringSite {
        address: tracepoint.patchpoint,
        function: LINKER.function_at(tracepoint.patchpoint),
        state: if jumps { SiteState::Jump } else { SiteState::Nop },
        target: tracepoint.target,
        in_reach: true,
        reach: Tracepoint::reach(Machine::HERE),
    }
}

/// Returns the sites of a probe that the module itself patches, instead of FreeBSD.
fn own(id: u32) -> Vec<FiringSite> {
    LINKER
        .sites(size_of::<Probe>())
        .into_iter()
        .filter(|(site, _)| is_of(site.probe, id))
        .map(|(site, function)| {
            let (patchpoint, target) = (site.patchpoint as usize, site.target as usize);
            let text = Text { encoding: &ENCODING, patcher: &NoText };
            // SAFETY: the file is mapped, and no CPU patches the site now: only this CPU patches.
            let state = match unsafe { text.state(protocol::Tracepoint { patchpoint, target }) } {
                State::Nop => SiteState::Nop,
                State::Trap => SiteState::Trap,
                State::Jump => SiteState::Jump,
            };
            FiringSite {
                address: site.patchpoint,
                function,
                state,
                target: site.target,
                in_reach: (ENCODING.jump)(patchpoint, target).is_ok(),
                reach: ENCODING.reach as u64,
            }
        })
        .collect()
}

/// Returns whether the record at an address in a file's data is the record of the probe `id`.
fn is_of(record: u64, id: u32) -> bool {
    let record = record as *const Probe;
    if !record.is_aligned() {
        return false;
    }
    // SAFETY: `LINKER.sites` returns only addresses with enough data of a mapped file for a record. The module's own code has
    // checked the record when it attached its probes; otherwise the load would have failed.
    let probe = unsafe { &*record };
    probe.is_current() && probe.id().is_some_and(|own| own.get() == id)
}
