//! Only the framework can enable probes: an enabling without the framework would outlive the attachment.
#![forbid(unsafe_code)]

use sdt_core::{patch, sdt_provider};

sdt_provider! {
    pub p {
        fn a(n: u32);
    }
}

fn main() {
    _ = patch::enable(&p::a);
    _ = patch::disable(&p::a);
    _ = patch::is_enabled(&p::a);
    _ = sdt_core::attach::current();
}
