//! The platforms whose numbers differ.

/// The kernel whose `sys/dtrace.h` defines a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Platform {
    /// FreeBSD, as of 13.0; also `sdt-framework`.
    Freebsd,
    /// illumos.
    Illumos,
}
