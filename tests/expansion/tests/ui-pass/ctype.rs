//! Structs of all forms for which `CType` can be derived, in all places.
#![deny(warnings)]
#![deny(clippy::all)]

use core::ffi::{CStr, c_char, c_void};
use core::sync::atomic::AtomicU32;

use sdt_core::arg::CType;
use sdt_core::{sdt_probe, sdt_provider};

mod deep {
    /// Documented.
    #[derive(Clone, Copy, Debug, super::CType)]
    #[repr(C)]
    #[repr(align(16))]
    pub struct TCPHeader {
        /// Documented too.
        pub flags: u8,
        pub(super) ports: [u16; 2],
    }
}

#[derive(CType)]
#[c_name = "packet_t"]
#[repr(C)]
pub struct Packet<'a, 'b> {
    header: deep::TCPHeader,
    headers: [[[deep::TCPHeader; 1]; 2]; 3],
    name: [c_char; 16],
    opaque: *mut *const c_void,
    next: Option<&'a Packet<'a, 'b>>,
    count: &'b AtomicU32,
    #[c_name = "next_probe"]
    probe: u64,
    #[cfg(any())]
    absent: Vec<u8>,
}

sdt_provider! {
    #[stability(args = "Evolving/Evolving/ISA")]
    net {
        fn sent(packet: &Packet<'_, '_>, header: *const deep::TCPHeader => "bufinfo_t *", text: &CStr);
    }
}
sdt_provider!(open);

fn main() {
    let header = deep::TCPHeader { flags: 1, ports: [2, 3] };
    let count = AtomicU32::new(0);
    let packet = Packet {
        header,
        headers: [[[header; 1]; 2]; 3],
        name: [0; 16],
        opaque: core::ptr::null_mut(),
        next: None,
        count: &count,
        probe: 0,
    };
    assert_eq!(Packet::NAME.as_str(), "packet_t");
    assert_eq!(deep::TCPHeader::NAME.as_str(), "struct tcp_header");
    sdt_probe!(net::sent, &packet, &header, c"x");
    sdt_probe!(open::sent, &packet, &raw const header, packet.next);
    let _ = (packet.header, packet.headers, packet.name, packet.opaque, packet.count, packet.probe);
}
