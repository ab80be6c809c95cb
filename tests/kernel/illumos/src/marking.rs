//! The ways in which krtld marks a probe's call and `sdt` enables the probe there.

/// The form of a site's text, disabled and enabled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Marking {
    /// The form in illumos: five 1-byte nops. To enable the site, `sdt` replaces the second nop by a `lock` prefix. The prefix
    /// and the third nop together are an invalid instruction.
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

    /// Returns the offset in the call of the byte that `sdt` stores. The CPU traps at the same offset.
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

    /// Returns the number of bytes to skip after the trap, from the patchpoint on.
    pub const fn passed(self) -> u64 {
        match self {
            Self::Nops => 1,
            Self::LongNop => 5,
        }
    }
}
