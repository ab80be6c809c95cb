//! The probes of OPTE (oxidecomputer/opte), a packet filter for illumos in Rust. OPTE declares them by hand. This module declares
//! them with typed arguments, and tests that they can be declared, listed and fired. It filters no packets.
#![cfg_attr(not(test), no_std)]

#[cfg(target_os = "freebsd")]
#[path = "../../on_exec/freebsd.rs"]
mod freebsd;
#[cfg(target_os = "illumos")]
#[path = "../../on_exec/illumos.rs"]
mod illumos;

pub mod fire;
pub mod probes;
pub mod types;

#[cfg(target_os = "freebsd")]
sdt_core::freebsd_module!(xde_probes, freebsd::TEST);
#[cfg(target_os = "illumos")]
sdt_core::illumos_module!(xde_probes, illumos::TEST);

/// Fires all probes for one exec, with the data of one packet.
#[cfg(any(target_os = "freebsd", target_os = "illumos"))]
fn on_exec(_: &core::ffi::CStr) {
    use core::sync::atomic::{AtomicU64, Ordering};

    static PACKETS: AtomicU64 = AtomicU64::new(0);
    fire::all(&fire::Packet::new(PACKETS.fetch_add(1, Ordering::Relaxed)));
}
