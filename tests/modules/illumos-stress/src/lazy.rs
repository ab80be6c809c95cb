//! Probes that show whether the arguments of a disabled probe are evaluated.

use core::sync::atomic::{AtomicU64, Ordering};

use sdt_core::sdt_probe;

use crate::sdt_stress;

/// The number of evaluations of the argument of `evaluated`.
static EVALUATIONS: AtomicU64 = AtomicU64::new(0);

#[inline(never)]
fn evaluate() -> u64 {
    EVALUATIONS.fetch_add(1, Ordering::Relaxed) + 1
}

/// Fires a probe whose evaluations are counted, and a probe whose argument is that count. Returns the number of hits.
#[inline(never)]
pub(crate) fn fire() -> u64 {
    sdt_probe!(sdt_stress::evaluated, evaluate());
    sdt_probe!(sdt_stress::evaluations, EVALUATIONS.load(Ordering::Relaxed));
    2
}
