sdt_core::sdt_provider! { pub net { fn send(len: u64); } }

pub fn fire(len: u64) {
    sdt_core::sdt_probe!(self::net::send, len);
}
