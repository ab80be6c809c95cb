//! What a firing leaves behind.

/// One firing, as the default action records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Number of the probe that fired.
    pub probe: u32,
    /// CPU it fired on.
    pub cpu: u32,
    /// When, in nanoseconds since boot.
    pub timestamp: u64,
    /// Raw arguments; 0 where the probe has none.
    pub args: [u64; 6],
}
