use sdt_core::arg::CType;

#[repr(C)]
struct Undescribed {
    a: u32,
}

#[derive(CType)]
#[repr(C)]
struct Packet {
    good: u32,
    text: &'static str,
    vector: Vec<u8>,
    wide: u128,
    undescribed: Undescribed,
}

fn main() {}
