use sdt_core::sdt_provider;

sdt_provider! {
    no_type { fn start(#[translated] bio: u64); }
}
sdt_provider! {
    no_text { fn start(#[translated(bufinfo_t)] bio: u64); }
}
sdt_provider! {
    no_c_type { fn start(#[translated("bufinfo_t, devinfo_t")] bio: u64); }
}
sdt_provider! {
    empty { fn start(#[translated("")] bio: u64); }
}
sdt_provider! {
    twice { fn start(#[translated("a *")] #[translated("b *")] bio: u64); }
}
sdt_provider! {
    another { fn start(#[inline] bio: u64); }
}

fn main() {}
