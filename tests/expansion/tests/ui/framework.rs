//! Safe code cannot make the promises on which a framework relies.
#![forbid(unsafe_code)]

use core::ffi::c_void;
use core::sync::atomic::AtomicU32;

use sdt_core::ops::{Framework, ProbeId, ProviderId};

fn create(framework: &dyn Framework, provider: ProviderId, parg: *mut c_void) {
    framework.probe_create(provider, c"m", c"f", c"n", 2, parg).unwrap();
    framework.probe_lookup(provider, c"m", c"f", c"n");
    framework.invalidate(provider);
    framework.unregister(provider).unwrap();
    framework.hit(&AtomicU32::new(7), &[0; 10], sdt_core::arg::Borrows::NOTHING);
}

fn forge() -> (ProviderId, ProbeId) {
    (ProviderId(1), ProbeId(core::num::NonZeroU32::MIN))
}

fn main() {}
