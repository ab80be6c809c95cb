//! What a firing leaves behind.

/// Arguments of a probe that can be asked for: `arg0` to `arg9`, as in D (`DIF_VAR_ARG0` to
/// `DIF_VAR_ARG9`: FreeBSD's `sys/cddl/contrib/opensolaris/uts/common/sys/dtrace.h`, main, and
/// illumos's `usr/src/uts/common/sys/dtrace.h`).
pub const ARGS: usize = 10;

/// One firing, as the default action records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Number of the probe that fired.
    pub probe: u32,
    /// CPU it fired on.
    pub cpu: u32,
    /// When, in nanoseconds since boot.
    pub timestamp: u64,
    /// Raw arguments. Where the probe has none: 0, or what its provider's `getargval` makes of it.
    pub args: [u64; ARGS],
}
