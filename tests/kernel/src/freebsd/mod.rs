//! This kernel as FreeBSD's: the machine's side of [`stand_in_freebsd`].

pub(crate) mod exports;
pub(crate) mod machine;
pub(crate) mod sdt;
pub(crate) mod sites;
mod sx;
pub(crate) mod sysctl;
