sdt_core::sdt_provider! { pub net { fn receive(len: u64); } }

pub fn fire(len: u64) {
    sdt_core::sdt_probe!(self::net::receive, len);
}
