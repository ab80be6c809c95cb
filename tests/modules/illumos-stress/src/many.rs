//! Probes with 7 to 10 arguments, which only illumos supports. Arguments that do not fit into registers are on the stack.

use sdt_core::sdt_probe;

use crate::{opaque, sdt_stress};

/// Arguments that are evaluated in place. Returns the number of hits.
#[inline(never)]
pub(crate) fn cheap(a: u64) -> u64 {
    sdt_probe!(sdt_stress::cheap_7, a, a + 1, a + 2, a + 3, a + 4, a + 5, a + 6);
    sdt_probe!(sdt_stress::cheap_8, a, a + 1, a + 2, a + 3, a + 4, a + 5, a + 6, a + 7);
    sdt_probe!(sdt_stress::cheap_9, a, a + 1, a + 2, a + 3, a + 4, a + 5, a + 6, a + 7, a + 8);
    sdt_probe!(
        sdt_stress::cheap_10,
        a,
        a + 1,
        a + 2,
        a + 3,
        a + 4,
        a + 5,
        a + 6,
        a + 7,
        a + 8,
        a + 9
    );
    4
}

/// Arguments that are evaluated by functions of their own. Returns the number of hits.
#[inline(never)]
pub(crate) fn costly(a: u64) -> u64 {
    sdt_probe!(
        sdt_stress::costly_7,
        opaque(a),
        opaque(a) + 1,
        opaque(a) + 2,
        opaque(a) + 3,
        opaque(a) + 4,
        opaque(a) + 5,
        opaque(a) + 6
    );
    sdt_probe!(
        sdt_stress::costly_8,
        opaque(a),
        opaque(a) + 1,
        opaque(a) + 2,
        opaque(a) + 3,
        opaque(a) + 4,
        opaque(a) + 5,
        opaque(a) + 6,
        opaque(a) + 7
    );
    sdt_probe!(
        sdt_stress::costly_9,
        opaque(a),
        opaque(a) + 1,
        opaque(a) + 2,
        opaque(a) + 3,
        opaque(a) + 4,
        opaque(a) + 5,
        opaque(a) + 6,
        opaque(a) + 7,
        opaque(a) + 8
    );
    sdt_probe!(
        sdt_stress::costly_10,
        opaque(a),
        opaque(a) + 1,
        opaque(a) + 2,
        opaque(a) + 3,
        opaque(a) + 4,
        opaque(a) + 5,
        opaque(a) + 6,
        opaque(a) + 7,
        opaque(a) + 8,
        opaque(a) + 9
    );
    4
}
