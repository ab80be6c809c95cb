//! Probes with 0 to 6 arguments, at many sites in one function.

use sdt_core::sdt_probe;

use crate::{opaque, sdt_stress};

/// Arguments that are evaluated in place. Returns the number of hits.
#[inline(never)]
pub(crate) fn cheap(a: u64) -> u64 {
    sdt_probe!(sdt_stress::cheap_0);
    sdt_probe!(sdt_stress::cheap_1, a);
    sdt_probe!(sdt_stress::cheap_2, a, a + 1);
    sdt_probe!(sdt_stress::cheap_3, a, a + 1, a + 2);
    sdt_probe!(sdt_stress::cheap_4, a, a + 1, a + 2, a + 3);
    sdt_probe!(sdt_stress::cheap_5, a, a + 1, a + 2, a + 3, a + 4);
    sdt_probe!(sdt_stress::cheap_6, a, a + 1, a + 2, a + 3, a + 4, a + 5);
    7
}

/// Arguments that are evaluated by functions of their own. Returns the number of hits.
#[inline(never)]
pub(crate) fn costly(a: u64) -> u64 {
    sdt_probe!(sdt_stress::costly_1, opaque(a));
    sdt_probe!(sdt_stress::costly_2, opaque(a), opaque(a) + 1);
    sdt_probe!(sdt_stress::costly_3, opaque(a), opaque(a) + 1, opaque(a) + 2);
    sdt_probe!(sdt_stress::costly_4, opaque(a), opaque(a) + 1, opaque(a) + 2, opaque(a) + 3);
    sdt_probe!(
        sdt_stress::costly_5,
        opaque(a),
        opaque(a) + 1,
        opaque(a) + 2,
        opaque(a) + 3,
        opaque(a) + 4
    );
    sdt_probe!(
        sdt_stress::costly_6,
        opaque(a),
        opaque(a) + 1,
        opaque(a) + 2,
        opaque(a) + 3,
        opaque(a) + 4,
        opaque(a) + 5
    );
    6
}
