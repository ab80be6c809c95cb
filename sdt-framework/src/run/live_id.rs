//! Loading the id of a probe that was hit.

use crate::base::host::Host;
use crate::base::sync::{AtomicId, Ordering};

/// Calls `hit` with the id of a probe, if it is enabled: if `id`, where its provider keeps the id while it is,
/// is not 0. Otherwise it was disabled while the hit was on its way, and `overtaken` is called. Probe context.
///
/// Interrupts are off from the load of the id to the end of `hit`. The thread that takes the id away waits after that until every
/// CPU has had them on ([`Host::sync`]), and only then the id can become another probe's. Otherwise a thread that has loaded
/// the id and is preempted would be recorded as a hit of that probe.
pub(crate) fn with_live_id(
    host: &impl Host,
    id: &AtomicId,
    hit: impl FnOnce(u32),
    overtaken: impl FnOnce(),
) {
    host.without_interrupts(|| {
        // Acquire, with the Release of the store by the provider: the probe is initialised.
        let id = id.load(Ordering::Acquire);
        if id != 0 {
            hit(id);
        } else {
            overtaken();
        }
    });
}
