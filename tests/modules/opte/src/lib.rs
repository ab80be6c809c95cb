//! The probes of OPTE (oxidecomputer/opte), a packet filter for illumos in Rust, which declares them by hand: here with
//! the types that they carry, to see that these can be declared, listed and fired. Nothing is filtered.
#![cfg_attr(not(test), no_std)]

#[cfg(target_os = "freebsd")]
mod freebsd;
#[cfg(target_os = "illumos")]
mod illumos;

pub mod fire;
pub mod probes;
pub mod types;

/// One exec: a packet.
#[cfg(any(target_os = "freebsd", target_os = "illumos"))]
fn on_exec() {
    use core::sync::atomic::{AtomicU64, Ordering};

    static PACKETS: AtomicU64 = AtomicU64::new(0);
    fire::all(&fire::Packet::new(PACKETS.fetch_add(1, Ordering::Relaxed)));
}
