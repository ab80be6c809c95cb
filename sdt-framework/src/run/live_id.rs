//! Loading the id of a probe that was hit.

use crate::base::host::Host;
use crate::base::sync::{AtomicId, Ordering};

/// Calls `hit` with the id of a probe if the probe is enabled. The provider stores the id in `id`, and 0 while the probe is
/// disabled. If `id` is 0, the probe was disabled after the site was hit, and this calls `overtaken`. Probe context.
///
/// Interrupts are off from the load of the id to the end of `hit`. The thread that disables the probe stores 0, and then waits
/// until every CPU has had interrupts on ([`Host::sync`]). Only then can another probe get the id. Otherwise, the hit of a thread
/// that has loaded the id and is preempted would be recorded as a hit of that other probe.
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
