#![deny(deprecated)]

use sdt_core::{sdt_enabled, sdt_probe, sdt_provider};

sdt_provider! {
    disk {
        #[deprecated(note = "fire `full`")]
        fn out_of_space();
        #[deprecated]
        fn blocks(count: u32);
    }
}

fn main() {
    sdt_probe!(disk::out_of_space);
    sdt_probe!(disk::blocks, 1);
    sdt_enabled!(disk::blocks);
}
