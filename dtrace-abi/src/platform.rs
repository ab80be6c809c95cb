//! Where the kernels differ.

/// Whose `sys/dtrace.h` a number is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Platform {
    /// FreeBSD, as of 13.0; also what `sdt-framework` speaks.
    Freebsd,
    /// illumos.
    Illumos,
}
