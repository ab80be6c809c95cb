//! The limits of copies of frames.

/// The largest size that is copied. Intel's AMX has 11 kB, and the largest vectors of SVE have 9.
pub(super) const LARGEST: usize = 64 << 10;
/// The alignment of copies, as `xrstor` wants it.
pub(super) const ALIGNMENT: usize = 64;
