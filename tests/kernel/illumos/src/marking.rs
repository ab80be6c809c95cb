//! The ways in which krtld marks a probe's call and `sdt` enables the probe there.

/// A way of both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Marking {
    /// illumos's: five nops; the second of them gets a `lock` prefix, which makes an instruction that does not
    /// exist of the third.
    #[default]
    Nops,
    /// Not used by illumos yet, but possible: one nop of five bytes. Its first byte becomes a breakpoint, and execution
    /// continues after all five bytes.
    LongNop,
}

impl Marking {
    /// Returns the bytes that replace the call.
    pub const fn disabled(self) -> [u8; 5] {
        match self {
            Self::Nops => [0x90; 5],
            Self::LongNop => [0x0f, 0x1f, 0x44, 0x00, 0x00],
        }
    }

    /// Returns the offset in the call of the byte that is stored, which is also that of the trap.
    pub const fn patchpoint(self) -> usize {
        match self {
            Self::Nops => 1,
            Self::LongNop => 0,
        }
    }

    /// The byte that enables the site (`SDT_PATCHVAL`).
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
