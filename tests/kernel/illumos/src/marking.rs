//! What krtld makes of a probe's call, and what `sdt` does there to enable the probe.

/// A way of both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Marking {
    /// illumos's: five nops; the second of them gets a `lock` prefix, which makes an instruction that does not
    /// exist of the third.
    #[default]
    Nops,
    /// No illumos's yet, but one that it could have: one nop of five bytes; its first one becomes a breakpoint,
    /// behind which all five are passed over.
    LongNop,
}

impl Marking {
    /// What the call becomes.
    pub const fn disabled(self) -> [u8; 5] {
        match self {
            Self::Nops => [0x90; 5],
            Self::LongNop => [0x0f, 0x1f, 0x44, 0x00, 0x00],
        }
    }

    /// How far into the call the byte is that is stored, where the trap is, too.
    pub const fn patchpoint(self) -> usize {
        match self {
            Self::Nops => 1,
            Self::LongNop => 0,
        }
    }

    /// What is stored there (`SDT_PATCHVAL`).
    pub const fn enabled(self) -> u8 {
        match self {
            Self::Nops => 0xf0,
            Self::LongNop => 0xcc,
        }
    }

    /// Bytes from there on that are passed over after the trap.
    pub const fn passed(self) -> u64 {
        match self {
            Self::Nops => 1,
            Self::LongNop => 5,
        }
    }
}
