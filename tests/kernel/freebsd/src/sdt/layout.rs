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

/// `struct sdt_probe`. `version` and `prov` are where they always were.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    /// Its size, which is also its version.
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

    /// The record of a generation: 15 has put a list of tracepoints in front of the names.
    pub(super) const fn of(generation: Generation) -> Self {
        match generation {
            Generation::Tested => Self { size: 96, module: 48, function: 56, name: 64, id: 72 },
            Generation::Patched => Self { size: 112, module: 64, function: 72, name: 80, id: 88 },
        }
    }
}
