//! The loops in which CPUs fire probes.

use fastrand::Rng;

use crate::standin;

/// Executes the site of a randomly selected probe several times. (The probes `tick` and `breakpoint` fire in handlers that
/// interrupt the loop.)
pub(super) fn burst(rng: &mut Rng) {
    // One of 32 bursts is long.
    let times = if rng.u32(0..32) == 0 { 200 } else { rng.u32(1..16) };
    match rng.u32(0..5) {
        0 => repeat(times, |_| standin::tight()),
        1 => repeat(times, |_| standin::costly()),
        2 => repeat(times, |_| standin::masked()),
        3 => repeat(times, standin::many),
        _ => repeat(times, |_| standin::asked()),
    }
}

fn repeat(times: u32, pass: impl Fn(u32)) {
    (0..times).for_each(pass);
}
