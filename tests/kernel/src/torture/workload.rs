//! The loops in which CPUs fire.

use fastrand::Rng;

use crate::standin;

/// Passes one of the probes a number of times in a row. The other ones are passed by what interrupts it.
pub(super) fn burst(rng: &mut Rng) {
    // A long one now and then.
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
