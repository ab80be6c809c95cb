//! Offsets of the fields in SDT's records (`sys/sys/sdt.h`; LP64, `QUEUE_MACRO_DEBUG_TRACE` off).

use crate::Generation;

/// `struct sdt_provider`: `name` is its first field.
pub(super) const PROVIDER_SIZE: usize = 40;

/// `struct sdt_argtype`.
pub(super) mod argtype {
    pub(in super::super) const SIZE: usize = 48;
    pub(in super::super) const NDX: usize = 0;
    pub(in super::super) const TYPE: usize = 8;
    pub(in super::super) const XTYPE: usize = 16;
    pub(in super::super) const PROBE: usize = 40;
}

/// `struct sdt_tracepoint`, of which the set is an array.
pub(super) mod tracepoint {
    pub(in super::super) const SIZE: usize = 32;
    pub(in super::super) const PROBE: usize = 0;
    pub(in super::super) const PATCHPOINT: usize = 8;
    pub(in super::super) const TARGET: usize = 16;
}

/// Offsets in `struct sdt_probe`. The offsets of `version` and `prov` do not depend on the release.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    /// The size of the record, which is also its version.
    pub(super) size: usize,
    pub(super) module: usize,
    pub(super) function: usize,
    pub(super) name: usize,
    /// 8 bytes: `id_t`.
    pub(super) id: usize,
}

impl Probe {
    pub(super) const VERSION: usize = 0;
    pub(super) const PROVIDER: usize = 8;

    /// Returns the layout for a generation. FreeBSD 15 has an additional list of tracepoints before the names.
    pub(super) const fn of(generation: Generation) -> Self {
        match generation {
            Generation::Tested => Self { size: 96, module: 48, function: 56, name: 64, id: 72 },
            Generation::Patched => Self { size: 112, module: 64, function: 72, name: 80, id: 88 },
        }
    }
}
