use sdt_core::arg::{Shown, show};
use sdt_core::{sdt_probe, sdt_provider};

sdt_provider! {
    net {
        fn bad_packet(err: Shown, code: u32);
        fn small(err: Shown<16>);
    }
}

fn main() {
    let error = "x".parse::<u8>().unwrap_err();
    sdt_probe!(net::bad_packet, &error, 1);
    sdt_probe!(net::bad_packet, "text", 1);
    sdt_probe!(net::small, show(&error));
}
