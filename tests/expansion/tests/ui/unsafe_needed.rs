//! Functions that need a promise of the host are not available to safe code.
#![forbid(unsafe_code)]

use sdt_core::patch::{self, Mode};
use sdt_core::{attach, sdt_provider};

sdt_provider! {
    pub p {
        fn a(n: u32);
    }
}

fn host(attachment: &'static attach::Attachment) {
    _ = attach::attach(attachment);
    _ = patch::set_mode(&p::a, Mode::Jump);
    _ = p::a.linked_sites();
    _ = sdt_core::__private::record::sites();
}

fn main() {}
